// The summary of the store, pushed by the server; one connection for all pages. It reconnects by itself.

const SILENT_MS = 15_000; // without an event the connection counts as lost: the server sends one every 2 s
const RETRY_MS = [1_000, 2_000, 5_000, 10_000];

export class Live {
  constructor(path) {
    this.path = path;
    this.summary = null;
    this.state = "connecting"; // "connecting", "live", "lost"
    this.points = []; // samples of this page's life, joined to the history
    this.listeners = new Set();
    this.failures = 0;
    this.receivedAt = Date.now();
    this.source = null;
    this.timer = setInterval(() => this.check(), 2_000);
    document.addEventListener("visibilitychange", () => { if (!document.hidden && this.state === "lost") this.connect(); });
  }

  connect() {
    clearTimeout(this.retry);
    if (this.source) this.source.close();
    const source = new EventSource(this.path);
    this.source = source;
    source.addEventListener("summary", (event) => {
      let summary;
      try { summary = JSON.parse(event.data); } catch { return; }
      this.failures = 0;
      this.receivedAt = Date.now();
      if (!summary.was_read) return; // the server has just started
      this.summary = summary;
      if (summary.sample && summary.sample.length) {
        const last = this.points[this.points.length - 1];
        if (!last || last[0] < summary.sample[0]) this.points.push(summary.sample);
        if (this.points.length > 400) this.points.splice(0, this.points.length - 400);
      }
      this.change("live");
    });
    source.onerror = () => this.lose();
  }

  check() {
    if (this.state === "live" && Date.now() - this.receivedAt > SILENT_MS) this.lose();
  }

  lose() {
    if (this.source) { this.source.close(); this.source = null; }
    this.change("lost");
    clearTimeout(this.retry);
    const wait = RETRY_MS[Math.min(this.failures, RETRY_MS.length - 1)];
    this.failures += 1;
    this.retry = setTimeout(() => this.connect(), wait);
  }

  change(state) {
    this.state = state;
    for (const listener of [...this.listeners]) listener(this);
  }

  follow(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  stop() {
    clearInterval(this.timer);
    clearTimeout(this.retry);
    if (this.source) this.source.close();
  }
}
