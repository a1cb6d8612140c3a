// Throughput, latency and failures over time: live, of a day, or of the whole fetch log.

import * as api from "../api.js";
import { TimeChart, bars } from "../chart.js";
import { fixed, h, render } from "../dom.js";
import * as format from "../format.js";
import { segmented } from "../parts.js";

const SPANS = [["live", "10 min"], ["day", "24 h"], ["log", "Whole log"]];
const RELOAD_MS = { live: 10_000, day: 30_000, log: 60_000 };

export class HistoryCharts {
  constructor(crawl) {
    this.crawl = crawl;
    this.span = "live";
    this.history = null;
    this.loadedAt = 0;
    this.throughput = new TimeChart({ label: "Pages and failures per second over time", show: format.rate, series: [
      { name: "pages/s", color: "c1", field: "pages_per_s", area: true }, { name: "failures/s", color: "c2", field: "failures_per_s" }] });
    this.latency = new TimeChart({ label: "Latency over time", show: format.ms, series: [
      { name: "median", color: "c1", field: "p50_ms" }, { name: "95th", color: "c3", field: "p95_ms" }, { name: "99th", color: "c2", field: "p99_ms" }] });
    this.queue = new TimeChart({ label: "URLs and pages that wait over time", show: format.short, least: 4, whole: true, series: [
      { name: "waiting", color: "c4", field: "waiting", area: true }, { name: "unparsed", color: "c3", field: "unparsed" }, { name: "unwritten", color: "c2", field: "unwritten" }] });
    this.head = h("header", null);
    this.classes = h("div", { class: "classes" });
    this.node = fixed(h("section", { class: "card history", "aria-label": "Over time" }, this.head,
      h("div", { class: "charts" },
        h("figure", null, h("figcaption", null, "Throughput"), this.throughput.node),
        h("figure", null, h("figcaption", null, "Latency"), this.latency.node),
        h("figure", null, h("figcaption", null, "Queues"), this.queue.node),
        h("figure", null, h("figcaption", null, "Failures by class"), this.classes))));
    this.node._key = "history";
  }

  stop() {
    for (const chart of [this.throughput, this.latency, this.queue]) chart.stop();
  }

  async load() {
    const span = this.span;
    this.loadedAt = Date.now();
    try {
      const found = await api.get("/api/v1/live/history", { span, crawl: this.crawl });
      if (span !== this.span) return;
      this.history = found;
      if (span === "live" && !this.chosen && !this.loaded && !found.points.some((point) => point[1]) && this.live && this.live.summary && this.live.summary.picture.state === "idle") {
        this.loaded = true;
        this.choose("log"); // nothing runs: what was is worth more than a line at zero
        return;
      }
      this.loaded = true;
      if (found.state === "pending") setTimeout(() => { if (span === this.span) this.load(); }, 1_000);
      this.draw();
    } catch (error) {
      this.problem = error.message;
      this.draw();
    }
  }

  update(live) {
    this.live = live;
    if (!this.history || Date.now() - this.loadedAt > RELOAD_MS[this.span]) { if (Date.now() - this.loadedAt > 2_000) this.load(); }
    else if (this.span === "live") this.draw();
  }

  choose(span) {
    this.span = span;
    this.history = null;
    this.load();
    this.draw();
  }

  draw() {
    render(this.head, h("h2", null, "Over time"), h("span", { class: "grow" }), segmented("Span of time", SPANS, this.span, (span) => { this.chosen = true; this.choose(span); }));
    const history = this.history;
    if (!history) return;
    let points = history.points;
    if (this.span === "live" && !this.crawl && this.live) {
      const last = points.length ? points[points.length - 1][0] : 0;
      points = [...points, ...this.live.points.filter((point) => point[0] > last + 0.5)].slice(-300);
    }
    const note = history.state === "pending" ? "Reading the fetch log." : history.problem || "";
    const silent = this.live && this.live.summary && this.live.summary.log_problem;
    this.throughput.update(history.fields, points, note);
    this.latency.update(history.fields, points, note || silent || "");
    this.queue.update(history.fields, points, this.span === "log" ? "The log has no queues: choose 10 min or 24 h." : note);
    render(this.classes, bars(history.failure_classes, { limit: 6, empty: "No attempt failed in this span." }));
  }
}
