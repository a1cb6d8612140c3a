// Dead letters: requests that were given up. Filter, inspect, replay, purge.

import * as api from "../api.js";
import { h, render } from "../dom.js";
import * as format from "../format.js";
import { act, card, confirm, crawlLink, crawlSelect, drawer, empty, facts, failure, hostLink, link, loading, select, table, time } from "../parts.js";

const STEP = 50;

export function deadLettersPage({ main, live, query, setQuery }) {
  const view = { crawl: query.get("crawl") || "", class: query.get("class") || "", host: query.get("host") || "", match: query.get("match") || "" };
  let letters = null;
  let cursor = null;
  let problem = null;
  let busy = false;
  let number = 0;
  let searched = 0;

  async function load(more = false) {
    if (!live.summary) return;
    if (!live.summary.crawls_total) { letters = []; cursor = null; draw(); return; } // there may be no store yet
    const own = ++number;
    const wanted = (more ? letters.length : 0) + STEP;
    let found = more ? letters : [];
    let next = more ? cursor : "";
    searched = 0;
    busy = true;
    try {
      // One answer is a bounded search, so a rare class or host takes several.
      do {
        const page = await api.get("/api/v1/dead-letters", { ...view, limit: wanted - found.length, cursor: next });
        if (own !== number) return;
        found = [...found, ...page.dead_letters];
        next = page.next_cursor;
        searched += page.searched;
        problem = null;
        if (next && found.length < wanted) { letters = found; cursor = null; draw(); }
      } while (next && found.length < wanted);
      letters = found;
      cursor = next;
    } catch (error) { if (own === number) problem = error; }
    if (own !== number) return;
    busy = false;
    draw();
  }

  function change(values) {
    Object.assign(view, values);
    setQuery(view);
    load();
  }

  function classes() {
    const counted = {};
    for (const crawl of live.summary ? live.summary.crawls : []) {
      if (view.crawl && crawl.crawl !== view.crawl) continue;
      for (const [name, value] of Object.entries(crawl.dead_by_class)) counted[name] = (counted[name] || 0) + value;
    }
    return Object.entries(counted).sort((a, b) => b[1] - a[1]);
  }

  function chosen() {
    if (!Object.values(view).some(Boolean)) return { all: true };
    return { ...(view.crawl ? { crawl: view.crawl } : {}), ...(view.class ? { class: view.class } : {}), ...(view.host ? { host: view.host } : {}), ...(view.match ? { match: view.match } : {}) };
  }

  async function run(action, body, text) {
    const found = await act(() => api.post(`/api/v1/dead-letters/${action}`, body), (answer) => `${format.plural(answer.count, "dead letter")} ${action === "replay" ? "queued again" : "deleted"}`);
    if (found) load();
    return found;
  }

  async function replayAll() {
    if (await confirm({ title: "Replay these dead letters?", text: `${describe()} is queued again with no attempts counted.`, action: "Replay" })) run("replay", chosen());
  }

  async function purgeAll() {
    if (await confirm({ title: "Purge these dead letters?", text: `${describe()} is deleted. The URLs stay counted as failed and cannot be replayed.`, action: "Purge", danger: true })) run("purge", chosen());
  }

  function describe() {
    const parts = [view.class ? `class ${view.class}` : "", view.host ? `host ${view.host}` : "", view.match ? `URL with "${view.match}"` : "", view.crawl ? `crawl ${view.crawl}` : ""].filter(Boolean);
    return parts.length ? `Every dead letter of ${parts.join(", ")}` : "Every dead letter of every crawl";
  }

  function inspect(letter) {
    const query = new URLSearchParams({ trace: letter.trace, crawl: letter.crawl });
    const page = letter.page ? `/ui/page?${new URLSearchParams({ crawl: letter.crawl, segment: letter.page[0], offset: letter.page[1], length: letter.page[2] })}` : null;
    const one = { crawl: letter.crawl, trace: letter.trace };
    const opened = drawer("Dead letter",
      h("p", { class: "url strong" }, `${letter.method} ${letter.url}`),
      facts([
        ["class", h("span", { class: "bad" }, letter.class)], ["reason", letter.reason], ["status", letter.status || "no response"],
        ["attempts", `${letter.attempts}, the first ${format.moment(letter.first_at)}`], ["given up", `${format.moment(letter.died_at)} by ${letter.holder}`],
        ["crashes", letter.crashes || null], ["crawl", letter.crawl], ["host", letter.host], ["depth", letter.depth], ["priority", letter.priority], ["handler", letter.route],
        ["found on", letter.found_on ? h("span", { class: "mono" }, letter.found_on) : "nowhere: a start URL"], ["via", (letter.chain || []).join(" → ")],
        ["data", letter.data && Object.keys(letter.data).length ? h("code", null, JSON.stringify(letter.data)) : null], ["trace id", h("span", { class: "mono" }, letter.trace)]]),
      letter.traceback ? h("pre", { class: "traceback", tabindex: "0" }, letter.traceback) : null,
      h("p", { class: "links" }, h("a", { href: `/ui/requests?${query}`, "data-link": "", onclick: () => opened.close() }, "Its whole story"), page ? h("a", { href: page, "data-link": "", onclick: () => opened.close() }, "Look at its page") : null),
      h("div", { class: "buttons" },
        api.may("operate") ? h("button", { type: "button", class: "primary", onclick: async () => { if (await run("replay", one)) opened.close(); } }, "Replay") : null,
        api.may("admin") ? h("button", { type: "button", class: "danger", onclick: async () => { if (await confirm({ title: "Purge this dead letter?", text: "It cannot be replayed afterwards.", action: "Purge", danger: true }) && await run("purge", one)) opened.close(); } }, "Purge") : null));
  }

  function draw() {
    const known = classes();
    const filters = h("div", { class: "filters", key: "filters" },
      crawlSelect(live.summary, view.crawl, (crawl) => change({ crawl })),
      select("Class", [["", "any class"], ...known.map(([name, value]) => [name, `${name} (${format.count(value)})`]), ...(view.class && !known.some(([name]) => name === view.class) ? [[view.class, view.class]] : [])], view.class, (value) => change({ class: value })),
      h("label", { class: "field" }, h("span", null, "Host"), h("input", { type: "text", placeholder: "shop.example", "prop:value": view.host, onchange: (event) => change({ host: event.target.value.trim() }) })),
      h("label", { class: "field search" }, h("span", null, "Text in the URL"), h("input", { type: "search", "prop:value": view.match, onchange: (event) => change({ match: event.target.value.trim() }) })));
    if (problem && !letters) return render(main, filters, failure(problem, () => load()));
    if (!letters) return render(main, filters, loading());
    const filtered = Object.values(view).some(Boolean);
    const nothing = busy ? empty("Searching", `${format.count(searched)} of ${format.plural(live.summary ? live.summary.dead_total : 0, "dead letter")} searched so far, the latest first.`) : filtered ? empty("No dead letter fits", "Change the filter above.") : empty("No dead letters", "Every request that was tried has ended well, or is still being tried. A request that is given up appears here with its reason.");
    return render(main, filters, card("Dead letters", { note: "the latest first", actions: letters.length ? [api.may("operate") ? h("button", { type: "button", onclick: replayAll }, "Replay all that fit") : null, api.may("admin") ? h("button", { type: "button", class: "danger", onclick: purgeAll }, "Purge") : null] : null },
      table([
        { name: "given up", cell: (one) => time(one.died_at) },
        { name: "URL", cell: (one) => h("button", { type: "button", class: "as-link url", title: one.url, onclick: () => inspect(one) }, one.url), class: "grow-cell" },
        { name: "class", cell: (one) => h("span", { class: "status bad" }, one.status ? `${one.status} ${one.class}` : one.class) },
        { name: "reason", cell: (one) => h("span", { class: "why", title: one.reason }, one.reason) },
        { name: "attempts", number: true, cell: (one) => format.count(one.attempts) },
        { name: "host", cell: (one) => hostLink(one.host) },
        { name: "crawl", cell: (one) => crawlLink(one.crawl) },
      ], letters, { key: (one) => `${one.crawl}-${one.trace}`, empty: nothing, label: "Dead letters" }),
      busy && letters.length && searched > STEP ? h("p", { class: "soft", role: "status" }, `Searching: ${format.count(searched)} dead letters so far`) : null,
      cursor ? h("div", { class: "more" }, h("button", { type: "button", onclick: () => load(true) }, "Show more")) : null));
  }

  load();
  let seen = null;
  return { update() {
    const total = live.summary ? live.summary.dead_total : null;
    if (!letters && !busy) load();
    else if (seen !== null && total !== seen && letters && letters.length <= STEP && !busy) load();
    seen = total;
    draw();
  } };
}
