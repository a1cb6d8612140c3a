// Hosts: their pace, what limits it, their failures; and changing it.

import * as api from "../api.js";
import { bars } from "../chart.js";
import { h, icon, render } from "../dom.js";
import * as format from "../format.js";
import { act, card, confirm, empty, facts, failure, hostLink, loading, pill, segmented, select, table, tile } from "../parts.js";
import { attemptTable } from "./requests.js";

const STATES = [["", "any state"], ["usual pace", "usual pace"], ["slowed", "slowed"], ["resting", "resting"], ["paused", "paused"]];
const SORTS = [["left", "slowest"], ["waiting", "most waiting"], ["failures", "most failures"]];
const STEP = 50;

export function hostsPage({ main, live, query, setQuery }) {
  const view = { sort: query.get("sort") || "left", state: query.get("state") || "", search: query.get("search") || "", limit: STEP };
  let found = null;
  let problem = null;
  let busy = false;
  let at = 0;

  async function load() {
    if (busy) return;
    busy = true;
    at = Date.now();
    try {
      found = await api.get("/api/v1/live/hosts", view);
      problem = null;
    } catch (error) { problem = error; } finally { busy = false; }
    draw();
  }

  function change(values) {
    Object.assign(view, values);
    setQuery({ sort: view.sort === "left" ? "" : view.sort, state: view.state, search: view.search });
    busy = false;
    load();
    draw();
  }

  function draw() {
    const filters = h("div", { class: "filters", key: "filters" },
      h("label", { class: "field search" }, h("span", null, "Host"), h("input", { type: "search", placeholder: "shop.example", "prop:value": view.search, oninput: (event) => change({ search: event.target.value.trim().toLowerCase(), limit: STEP }) })),
      select("State", STATES, view.state, (state) => change({ state, limit: STEP })),
      segmented("Order", SORTS, view.sort, (sort) => change({ sort, limit: STEP })));
    if (problem && !found) return render(main, filters, failure(problem, load));
    if (!found) return render(main, filters, loading());
    const nothing = view.search || view.state
      ? empty("No host fits", "Change the filter above.")
      : empty("No host has URLs waiting", "Hosts appear here while crawls have requests for them.");
    return render(main, filters,
      card("Hosts", { note: format.plural(found.total, "host") }, table([
        { name: "host", cell: (one) => hostLink(one.host), class: "grow-cell" },
        { name: "state", cell: (one) => pill(one.state) },
        { name: "waiting", number: true, cell: (one) => format.short(one.waiting) },
        { name: "pace", number: true, cell: (one) => one.concurrency ? format.pace(one.interval_s) : "–" },
        { name: "at once", number: true, cell: (one) => one.concurrency >= 32_767 ? "no limit" : one.concurrency || "–" },
        { name: "time left", number: true, cell: (one) => one.left_s === null ? "paused" : format.duration(one.left_s) },
        { name: "attempts", hint: "of the last 5 to 10 minutes", number: true, cell: (one) => format.count(one.attempts) },
        { name: "failures", hint: "of the last 5 to 10 minutes", number: true, cell: (one) => one.failures ? h("span", { class: "bad", title: classes(one) }, format.count(one.failures)) : "0" },
        { name: "mean", number: true, cell: (one) => one.attempts ? format.ms(one.mean_ms) : "–" },
        { name: "why", cell: (one) => h("span", { class: "why", title: one.last_reason }, one.why || (one.failures ? one.last_reason : "")) },
      ], found.hosts, { key: (one) => one.host, empty: nothing, label: "Hosts" }),
      found.total > found.hosts.length ? h("div", { class: "more" }, h("button", { type: "button", onclick: () => change({ limit: Math.min(view.limit + STEP, 500) }), disabled: view.limit >= 500 ? "" : null }, view.limit >= 500 ? "The first 500 are shown: use the filter" : `Show more of ${format.count(found.total)}`)) : null));
  }

  load();
  return { update() { if (Date.now() - at > 3_500) load(); } };
}

function classes(one) {
  return Object.entries(one.failure_classes).map(([name, value]) => `${name} ${value}`).join(", ");
}

export function hostPage({ main, rest: name, live }) {
  let host = null;
  let line = null;
  let attempts = [];
  let problem = null;
  let at = 0;
  const path = `/api/v1/hosts/${encodeURIComponent(name)}`;

  async function load() {
    at = Date.now();
    try {
      const [found, latest] = await Promise.all([api.get(`/api/v1/live/hosts/${encodeURIComponent(name)}`), api.get("/api/v1/live/attempts", { host: name, limit: 30 })]);
      line = found.line;
      attempts = latest.attempts;
      const now = found.now || {};
      host = { waiting: line.waiting, inflight: 0, interval: line.interval_s, concurrency: line.concurrency, burst: null, next_turn: 0, crawl_delay: found.crawl_delay_s, rest_until: found.rest_until, slow: found.slow, paused: line.state === "paused", failures: 0, trouble: {}, spike: null, ...now };
      problem = null;
    } catch (error) { problem = error; }
    draw();
  }

  async function setRate() {
    const values = await confirm({ title: `Pace of ${name}`, text: "Holds until it is cleared, whatever pace the crawls have. 0 requests/s is no limit.", action: "Set", fields: [
      { name: "rate", label: "Requests per second", type: "number", min: 0, step: "any", required: true, value: host && host.interval ? Number((1 / host.interval).toPrecision(3)) : 2 },
      { name: "concurrency", label: "At once, at most (empty: as it is)", type: "number", min: 1, max: 10_000, step: 1 }] });
    if (!values) return;
    await act(() => api.patch(path, { rate: Number(values.rate), concurrency: values.concurrency ? Number(values.concurrency) : undefined }), `The pace of ${name} is set`);
    load();
  }

  async function setPaused(paused) {
    if (paused && !await confirm({ title: `Pause ${name}?`, text: "Nothing is sent to it until it is resumed.", action: "Pause" })) return;
    await act(() => api.patch(path, { paused }), paused ? `${name} is paused` : `${name} continues`);
    load();
  }

  async function clear() {
    await act(() => api.patch(path, { reset: true }), `The pace of ${name} is that of its crawls again`);
    load();
  }

  function draw() {
    if (problem && !host) return render(main, failure(problem, load));
    if (!host) return render(main, loading());
    const now = Date.now() / 1000;
    const state = host.paused ? "paused" : host.rest_until > now ? "resting" : host.slow >= 1.05 ? "slowed" : "usual pace";
    return render(main,
      h("div", { class: "crawl-head", key: "head" }, pill(state), h("span", { class: "why" }, line ? line.why : ""), h("span", { class: "grow" }),
        api.may("operate") ? h("div", { class: "buttons" },
          h("button", { type: "button", onclick: setRate }, "Set pace"), h("button", { type: "button", onclick: clear }, "Clear pace"),
          host.paused ? h("button", { type: "button", class: "primary", onclick: () => setPaused(false) }, icon("play"), "Resume") : h("button", { type: "button", onclick: () => setPaused(true) }, icon("pause"), "Pause")) : null),
      h("div", { class: "tiles", key: "tiles" },
        tile("Waiting", format.short(host.waiting), "URLs"),
        tile("On the wire", format.count(host.inflight), host.concurrency && host.concurrency < 32_767 ? `of ${host.concurrency}` : ""),
        tile("Pace", host.concurrency ? format.pace(host.interval) : "–", ""),
        tile("Next turn", host.next_turn > now ? format.duration(host.next_turn - now) : "due", ""),
        tile("Slowed", host.slow >= 1.05 ? `${host.slow.toFixed(1)}×` : "no", "", { tone: host.slow >= 1.05 ? "warn" : "" }),
        tile("Failures", format.count(line ? line.failures : host.failures), "lately", { tone: line && line.failures ? "bad" : "" })),
      h("div", { class: "two", key: "more" },
        card("What limits it", facts([
          ["Crawl-delay of robots.txt", host.crawl_delay ? format.duration(host.crawl_delay) : "none"],
          ["rests until", host.rest_until > now ? `${format.moment(host.rest_until)} (${format.duration(host.rest_until - now)})` : "not resting"],
          ["burst", host.burst],
          ["trouble lately", host.spike ? `${host.spike.kind}: ${host.spike.remedy}` : "none that prevails"],
          ["last answer", line && line.last_status ? String(line.last_status) : null],
          ["last failure", line ? line.last_reason : null]])),
        card("Failures lately, by class", bars(line ? line.failure_classes : host.trouble, { empty: "None." }))),
      card("Latest requests", { key: "latest" }, attemptTable(attempts, live.summary)));
  }

  load();
  return { update() { if (Date.now() - at > 3_500) load(); } };
}
