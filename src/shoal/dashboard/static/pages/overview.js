// What the store does right now: the verdict, the pipeline, the figures over time, the crawls.

import * as api from "../api.js";
import { h, render } from "../dom.js";
import * as format from "../format.js";
import { card, empty, link, tile } from "../parts.js";
import { pipeline } from "../pipeline.js";
import { alertList } from "./alerts.js";
import { HistoryCharts } from "./charts.js";
import { crawlTable } from "./crawls.js";
import { attemptTable } from "./requests.js";

export function overviewPage({ main, live }) {
  const charts = new HistoryCharts("");
  let attempts = [];
  let alerts = null;
  let busy = false;

  async function load() {
    if (busy) return;
    busy = true;
    try {
      attempts = (await api.get("/api/v1/live/attempts", { limit: 8 })).attempts;
      if (live.summary && live.summary.alerts_active) alerts = await api.get("/api/v1/alerts");
      else alerts = null;
      draw();
    } catch { /* the bar says that the connection is lost */ } finally { busy = false; }
  }

  function draw() {
    const summary = live.summary;
    if (!summary) return render(main, skeleton());
    if (!summary.crawls_total && !summary.problem) {
      return render(main, empty("No crawl yet", "Start one; this page follows it by itself.", "shoal crawl https://example.org/", "shoal demo --watch"));
    }
    return render(main,
      h("p", { class: `verdict ${summary.picture.state}`, key: "verdict", role: "status" }, h("i", { "aria-hidden": "true" }), h("span", null, sentence(summary.picture.verdict))),
      pipeline(summary.picture),
      tiles(summary),
      alerts && alerts.active.length ? card("Alerts", { key: "alerts", actions: link("/ui/alerts", "All alerts") }, alertList(alerts.active.slice(0, 4))) : null,
      charts.node,
      h("div", { class: "two", key: "lists" },
        card("Crawls", { actions: summary.crawls_total > 6 ? link("/ui/crawls", `All ${format.count(summary.crawls_total)}`) : null }, crawlTable(summary.crawls.slice(0, 6), { brief: true })),
        card("Latest requests", { actions: link("/ui/requests", "More") }, attemptTable(attempts, summary, { brief: true }))));
  }

  return {
    update() { charts.update(live); draw(); load(); },
    close() { charts.stop(); },
  };
}

function sentence(text) {
  const first = /^[a-z]+\s/.test(text) ? text[0].toUpperCase() + text.slice(1) : text; // not the name of a host
  return text && !/[.!?]$/.test(text) ? `${first}.` : first;
}

function tiles(summary) {
  const values = Object.fromEntries(FIELDS.map((name, number) => [name, summary.sample[number]]));
  const totals = summary.totals;
  const held = Object.values(summary.hosts_held || {}).reduce((sum, one) => sum + one, 0);
  return h("div", { class: "tiles", key: "tiles" },
    tile("Pages", format.rate(values.pages_per_s), "/s"),
    tile("Failures", format.rate(values.failures_per_s), "/s", { tone: values.failures_per_s > 0 ? "warn" : "" }),
    tile("Waiting", format.short(totals.waiting), "URLs", { title: format.count(totals.waiting) }),
    tile("Done", format.short(totals.done), "pages", { title: format.count(totals.done) }),
    tile("Failed", format.short(totals.failed), "URLs", { tone: totals.failed ? "bad" : "", title: format.count(totals.failed), href: "/ui/dead-letters" }),
    tile("Hosts", summary.hosts_total === null ? "–" : format.short(summary.hosts_total), held ? `${format.count(held)} held` : "with URLs", { href: "/ui/hosts", tone: held ? "warn" : "" }),
    tile(summary.shared ? "Workers" : "Process", summary.shared ? format.count(summary.workers_total) : summary.owner ? "running" : "none", summary.shared ? "running" : "", { href: "/ui/workers", tone: summary.shared && !summary.workers_total ? "bad" : "", title: summary.owner || "" }));
}

const FIELDS = ["at", "pages_per_s", "failures_per_s", "bytes_per_s", "items_per_s", "p50_ms", "p95_ms", "p99_ms", "waiting", "in_progress", "unparsed", "unwritten"];

function skeleton() {
  return [h("div", { class: "skeleton line", key: "s1" }), h("div", { class: "skeleton pipe", key: "s2" }), h("div", { class: "skeleton tiles-s", key: "s3" }), h("div", { class: "skeleton charts-s", key: "s4" })];
}
