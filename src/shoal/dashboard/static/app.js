// The shell: sign-in, navigation, the connection, and the page that the address names.

import * as api from "./api.js";
import { h, icon, render } from "./dom.js";
import { Live } from "./live.js";
import { failure, loading } from "./parts.js";
import { alertsPage } from "./pages/alerts.js";
import { archivedPage } from "./pages/archived.js";
import { crawlPage, crawlsPage } from "./pages/crawls.js";
import { deadLettersPage } from "./pages/dead_letters.js";
import { exitsPage } from "./pages/exits.js";
import { graphPage } from "./pages/graph.js";
import { hostPage, hostsPage } from "./pages/hosts.js";
import { itemsPage } from "./pages/items.js";
import { overviewPage } from "./pages/overview.js";
import { requestsPage } from "./pages/requests.js";
import { schedulesPage } from "./pages/schedules.js";
import { workersPage } from "./pages/workers.js";

const PAGES = [
  { path: "", name: "Overview", icon: "overview", open: overviewPage },
  { path: "crawls", name: "Crawls", icon: "crawls", open: crawlsPage, one: crawlPage },
  { path: "hosts", name: "Hosts", icon: "hosts", open: hostsPage, one: hostPage },
  { path: "workers", name: "Workers", icon: "workers", open: workersPage },
  { path: "exits", name: "Exits and cost", icon: "exits", open: exitsPage },
  { path: "dead-letters", name: "Dead letters", icon: "dead", open: deadLettersPage },
  { path: "requests", name: "Requests", icon: "requests", open: requestsPage },
  { path: "items", name: "Items", icon: "items", open: itemsPage },
  { path: "graph", name: "Link graph", icon: "graph", open: graphPage },
  { path: "schedules", name: "Schedules", icon: "schedules", open: schedulesPage },
  { path: "alerts", name: "Alerts", icon: "alerts", open: alertsPage },
  { path: "page", name: "Archived page", icon: "archive", open: archivedPage, hidden: true },
];
const THEMES = ["auto", "light", "dark"];

const root = document.getElementById("app");
let live = null;
let current = null; // the open page: { update, close }
let menuOpen = false;

function theme() {
  try { return localStorage.getItem("shoal-theme") || "auto"; } catch { return "auto"; }
}

function applyTheme(name) {
  try { localStorage.setItem("shoal-theme", name); } catch { /* a browser that stores nothing */ }
  document.documentElement.dataset.theme = name;
}

applyTheme(theme());

async function start() {
  render(root, h("div", { class: "center" }, loading("Opening")));
  const fragment = new URLSearchParams(location.hash.slice(1));
  const token = fragment.get("token");
  if (token) history.replaceState(null, "", location.pathname + location.search); // not kept in the address bar
  try {
    await api.openSession(token);
  } catch (error) {
    if (error.status === 401 || error.status === 403) return signIn(token ? error.message : "");
    render(root, h("div", { class: "center" }, failure(error, start)));
    return null;
  }
  return open();
}

function signIn(problem) {
  const input = h("input", { type: "password", name: "token", autocomplete: "current-password", required: "", placeholder: "shoal_…", "aria-label": "Token" });
  const form = h("form", { class: "signin card", onsubmit: async (event) => {
    event.preventDefault();
    try {
      await api.openSession(input.value.trim());
      open();
    } catch (error) {
      signIn(error.message);
    }
  } },
    h("div", { class: "brand" }, h("img", { src: "/static/shoal.svg", alt: "", width: 36, height: 36 }), h("h1", null, "Shoal")),
    h("p", { class: "soft" }, "Paste a token. ", h("code", null, "shoal serve"), " prints a link that holds one, and ", h("code", null, "shoal token add"), " makes more."),
    problem ? h("p", { class: "bad", role: "alert" }, problem) : null,
    h("label", { class: "field" }, h("span", null, "Token"), input),
    h("button", { class: "primary", type: "submit" }, "Sign in"));
  render(root, h("div", { class: "center" }, form));
  input.focus();
}

function open() {
  live = new Live("/api/v1/live/events");
  live.follow(() => { drawShell(); if (current) current.update(live); });
  live.connect();
  drawShell();
  show();
}

function address() {
  const parts = location.pathname.replace(/^\/(ui\/?)?/, "").split("/").filter(Boolean).map(decodeURIComponent);
  const page = PAGES.find((one) => one.path === (parts[0] || "")) || PAGES[0];
  return { page, rest: parts.slice(1).join("/"), query: new URLSearchParams(location.search) };
}

function show() {
  const { page, rest, query } = address();
  if (current && current.close) current.close();
  const main = document.getElementById("main");
  main.replaceChildren();
  main.scrollTop = 0;
  const title = rest && page.one ? rest : page.name;
  document.title = `${title} · Shoal`;
  const context = { main, live, query, rest, go, setQuery, title };
  current = (rest && page.one ? page.one : page.open)(context) || {};
  current.update = current.update || (() => {});
  current.update(live);
  menuOpen = false;
  drawShell();
}

// Change the query of the address without leaving the page.
function setQuery(values) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value === "" || value === null || value === undefined) query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
}

function go(path) {
  history.pushState(null, "", path);
  show();
  document.getElementById("main").focus({ preventScroll: true });
}

document.addEventListener("click", (event) => {
  const anchor = event.target.closest && event.target.closest("a[data-link]");
  if (!anchor || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go(anchor.getAttribute("href"));
});
window.addEventListener("popstate", () => { if (live) show(); });
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.ctrlKey && !event.metaKey && !/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) {
    const search = document.querySelector("#main input[type=search]");
    if (search) { event.preventDefault(); search.focus(); }
  }
});

function drawShell() {
  const { page, rest } = address();
  const summary = live && live.summary;
  const badges = {
    "dead-letters": summary && summary.dead_total ? compact(summary.dead_total) : "",
    alerts: summary && summary.alerts_active ? String(summary.alerts_active) : "",
  };
  const chosen = theme();
  const session = api.currentSession();
  if (!document.getElementById("main")) {
    render(root, h("div", { class: "shell" }, h("header", { class: "side", id: "side" }), h("div", { class: "body" }, h("div", { id: "bar" }), h("main", { id: "main", tabindex: "-1" }))));
  }
  render(document.getElementById("side"),
    h("div", { class: "side-top" },
      h("a", { class: "brand", href: "/ui", "data-link": "", "aria-label": "Shoal, overview" }, h("img", { src: "/static/shoal.svg", alt: "", width: 28, height: 28 }), h("b", null, "Shoal")),
      h("button", { class: "quiet menu", type: "button", "aria-expanded": menuOpen ? "true" : "false", "aria-controls": "nav", "aria-label": "Menu", onclick: () => { menuOpen = !menuOpen; drawShell(); } }, icon("menu"))),
    h("nav", { id: "nav", class: menuOpen ? "open" : "", "aria-label": "Pages" },
      h("ul", null, PAGES.filter((one) => !one.hidden).map((one) => h("li", { key: one.path },
        h("a", { href: one.path ? `/ui/${one.path}` : "/ui", "data-link": "", "aria-current": one === page ? "page" : null }, icon(one.icon), h("span", null, one.name),
          badges[one.path] ? h("span", { class: `badge ${one.path === "alerts" ? "bad" : ""}` }, badges[one.path]) : null)))),
      h("div", { class: "side-foot" },
        h("div", { class: "segmented small", role: "group", "aria-label": "Colours" }, THEMES.map((name) => h("button", { type: "button", title: name === "auto" ? "as the system" : name, "aria-label": name === "auto" ? "Colours of the system" : `${name} colours`, "aria-pressed": name === chosen ? "true" : "false", onclick: () => { applyTheme(name); drawShell(); } }, icon({ auto: "auto", light: "sun", dark: "moon" }[name])))),
        session ? h("p", { class: "soft who" }, h("span", null, `${session.token} (${session.role})`), h("button", { class: "quiet", type: "button", title: "Sign out", "aria-label": "Sign out", onclick: signOut }, icon("out"))) : null)));
  render(document.getElementById("bar"),
    h("div", { class: "bar" }, h("h1", null, rest && page.one ? [h("a", { class: "up", href: `/ui/${page.path}`, "data-link": "" }, page.name), h("span", { class: "slash", "aria-hidden": "true" }, "/"), h("span", { class: "one" }, rest)] : page.name),
      h("span", { class: "grow" }), summary ? h("span", { class: "store soft", title: "the store" }, summary.store) : null, connection()),
    live && live.state === "lost" ? h("div", { class: "lost", role: "alert" }, "Connection lost. The figures below are those of ", live.summary ? new Date(live.summary.at * 1000).toLocaleTimeString("en-GB") : "earlier", "; trying again.") : null,
    summary && summary.problem ? h("div", { class: "lost", role: "alert" }, "The store does not answer: ", summary.problem) : null);
}

function compact(value) {
  return value < 1000 ? String(value) : value < 1e6 ? `${Math.round(value / 1000)} k` : `${(value / 1e6).toFixed(1)} M`;
}

function connection() {
  const words = { live: "live", connecting: "connecting", lost: "connection lost" };
  return h("span", { class: `connection ${live.state}`, role: "status", "aria-live": "polite" }, h("i", { "aria-hidden": "true" }), words[live.state]);
}

async function signOut() {
  try { await api.closeSession(); } catch { /* it has ended already */ }
  if (live) live.stop();
  location.assign("/");
}

start();
