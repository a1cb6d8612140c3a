// The crawls of the store, and one of them in detail.

import * as api from "../api.js";
import { bars } from "../chart.js";
import { h, icon, render } from "../dom.js";
import * as format from "../format.js";
import { act, card, confirm, crawlLink, empty, facts, failure, link, loading, pill, table, tile } from "../parts.js";
import { HistoryCharts } from "./charts.js";

const TONES = { done: "good", gone: "gone", failed: "bad", skipped: "skipped", held: "warn", "in progress": "busy", "to retry": "warn", waiting: "wait" };

export function progress(crawl) {
  const parts = { ...crawl.ended, ...crawl.ahead };
  const order = ["done", "gone", "skipped", "held", "failed", "in progress", "to retry", "waiting"];
  const total = Math.max(crawl.accepted, 1);
  const text = order.filter((name) => parts[name]).map((name) => `${name} ${format.count(parts[name])}`).join(", ");
  return h("div", { class: "progress", role: "img", "aria-label": text || "no URLs", title: text }, order.filter((name) => parts[name]).map((name) =>
    h("span", { class: TONES[name], key: name, vars: { "--share": parts[name] / total } })));
}

export function crawlTable(crawls, { brief = false } = {}) {
  const columns = [
    { name: "crawl", cell: (one) => crawlLink(one.crawl), class: "grow-cell" },
    { name: "state", cell: (one) => pill(one.state) },
    { name: "progress", cell: (one) => h("div", { class: "progress-cell" }, progress(one), h("span", null, format.percent(one.share))) },
    { name: "requests/s", number: true, cell: (one) => format.rate(one.rate) },
    ...(brief ? [] : [
      { name: "waiting", number: true, cell: (one) => format.short(one.ahead.waiting + one.ahead["to retry"]) },
      { name: "in progress", number: true, cell: (one) => format.count(one.ahead["in progress"]) },
      { name: "done", number: true, cell: (one) => format.short(one.ended.done) },
      { name: "gone", number: true, cell: (one) => format.short(one.ended.gone) },
    ]),
    { name: "failed", number: true, cell: (one) => one.ended.failed ? link(`/ui/dead-letters?crawl=${encodeURIComponent(one.crawl)}`, format.short(one.ended.failed)) : "0" },
    ...(brief ? [] : [
      { name: "traps", number: true, cell: (one) => format.count(one.traps) },
      { name: "cost", number: true, cell: (one) => one.cost ? format.money(one.cost) : "–" },
    ]),
    { name: "time left", number: true, cell: (one) => one.state === "finished" ? "–" : format.duration(one.left_s) },
  ];
  return table(columns, crawls, { key: (one) => one.crawl, label: "Crawls" });
}

export function crawlsPage({ main, live }) {
  let search = "";
  function draw() {
    const summary = live.summary;
    if (!summary) return render(main, loading());
    if (!summary.crawls_total) return render(main, empty("No crawl yet", "Start one, or submit one to a fleet.", "shoal crawl https://example.org/", "shoal submit spider.py --store redis://HOST"));
    const shown = summary.crawls.filter((one) => one.crawl.includes(search));
    return render(main, card("Crawls", { note: summary.crawls_total > summary.crawls.length ? `the ${summary.crawls.length} with most left, of ${format.count(summary.crawls_total)}` : format.plural(summary.crawls_total, "crawl"),
      actions: summary.crawls_total > 8 ? h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter crawls", oninput: (event) => { search = event.target.value; draw(); } }) : null }, crawlTable(shown)));
  }
  return { update: draw };
}

export function crawlPage({ main, live, rest: name }) {
  const charts = new HistoryCharts(name);
  let crawl = null;
  let problem = null;
  let at = 0;

  async function load() {
    at = Date.now();
    try {
      crawl = await api.get(`/api/v1/crawls/${encodeURIComponent(name)}`);
      problem = null;
    } catch (error) { problem = error; }
    draw();
  }

  async function setPaused(paused) {
    await act(() => api.post(`/api/v1/crawls/${encodeURIComponent(name)}/${paused ? "pause" : "resume"}`), paused ? `${name} is paused` : `${name} continues`);
    load();
  }

  function draw() {
    if (problem && !crawl) return render(main, failure(problem, load));
    if (!crawl) return render(main, loading());
    const line = live.summary ? live.summary.crawls.find((one) => one.crawl === name) : null;
    const counts = crawl.counts;
    const query = `crawl=${encodeURIComponent(name)}`;
    const patterns = [["nothing new", crawl.closed_patterns], ["very many URLs, all crawled", crawl.large_patterns]]
      .flatMap(([why, found]) => (found || []).map((one) => ({ why, ...one })));
    return render(main,
      h("div", { class: "crawl-head", key: "head" }, line ? pill(line.state) : pill(crawl.stopped ? "stopped" : crawl.paused ? "paused" : "waiting"), crawl.stopped ? h("span", { class: "soft" }, crawl.stopped) : null, line ? progress(line) : null, line ? h("b", { class: "share" }, format.percent(line.share)) : null, h("span", { class: "grow" }),
        api.may("operate") ? (crawl.paused ? h("button", { type: "button", class: "primary", onclick: () => setPaused(false) }, icon("play"), "Resume")
          : line && line.state === "finished" ? null : h("button", { type: "button", onclick: async () => { if (await confirm({ title: `Pause ${name}?`, text: "No more requests are sent. Those in progress finish.", action: "Pause" })) setPaused(true); } }, icon("pause"), "Pause")) : null),
      h("div", { class: "tiles eight", key: "tiles" },
        tile("Accepted", format.short(crawl.accepted), "URLs", { title: format.count(crawl.accepted) }),
        tile("Waiting", format.short(counts.waiting), "URLs"),
        tile("To retry", format.short(counts.delayed), "URLs", { tone: counts.delayed ? "warn" : "" }),
        tile("In progress", format.short(counts.leased + counts.parsing), "URLs"),
        tile("Done", format.short(counts.done), "pages"),
        tile("Gone", format.short(counts.gone), "404, 410"),
        tile("Failed", format.short(counts.dead), "URLs", { tone: counts.dead ? "bad" : "", href: `/ui/dead-letters?${query}` }),
        tile("Skipped", format.short(counts.filtered), "URLs"),
        counts.held ? tile("Held back", format.short(counts.held), "URLs", { tone: "warn" }) : null),
      charts.node,
      h("div", { class: "two", key: "more" },
        card("Failed, by class", bars(crawl.dead_by_class, { empty: "No URL was given up." })),
        card("Links not followed, by rule", bars(crawl.links_filtered_by_rule, { color: "c4", empty: "Every link was in scope." }))),
      patterns.length ? card("Patterns: closed, or large", { key: "traps" }, table([
        { name: "URL pattern", cell: (one) => h("code", null, one.pattern), class: "grow-cell" },
        { name: "why", cell: (one) => `more than ${format.count(one.more_than)} ${one.why}` },
        { name: "example", cell: (one) => h("span", { class: "url", title: one.example }, one.example) }], patterns, { label: "Traps" })) : null,
      card("About this crawl", { key: "about" }, facts([
        ["links already known", format.count(crawl.duplicates)],
        ["attempts repeated", format.count(crawl.retries)],
        ["items rejected", format.count(crawl.rejected)],
        ["pages read in part", format.count(crawl.partial)],
        ["outputs", (crawl.outputs || []).length ? crawl.outputs.join(", ") : null],
        ["arguments", Object.entries(crawl.arguments || {}).map(([key, value]) => `${key}=${value}`).join(" ")],
        ["spent on exits", crawl.spending ? `${format.bytes(crawl.spending.bytes)}, cost ${format.money(crawl.spending.cost)}` : null],
      ]), h("p", { class: "links" }, link(`/ui/items?${query}`, "Items"), link(`/ui/requests?${query}`, "Requests"), link(`/ui/dead-letters?${query}`, "Dead letters"), link(`/ui/graph?${query}`, "Link graph"), h("a", { href: `/api/v1/report?${query}`, target: "_blank", rel: "noopener" }, "Report"))));
  }

  load();
  return {
    update() { charts.update(live); draw(); if (Date.now() - at > 4_000) load(); },
    close() { charts.stop(); },
  };
}
