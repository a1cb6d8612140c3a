// Schedules: what runs when, and what has become of the latest ticks.

import * as api from "../api.js";
import { h, icon, render } from "../dom.js";
import * as format from "../format.js";
import { act, card, empty, failure, link, loading, pill, table, time } from "../parts.js";

export function schedulesPage({ main }) {
  let found = null;
  let problem = null;
  let at = 0;

  async function load() {
    at = Date.now();
    try { found = (await api.get("/api/v1/live/schedules")).schedules; problem = null; } catch (error) { problem = error; }
    draw();
  }

  async function setPaused(name, paused) {
    await act(() => api.post(`/api/v1/schedules/${encodeURIComponent(name)}/${paused ? "pause" : "resume"}`), paused ? `${name} is paused` : `${name} continues`);
    load();
  }

  function draw() {
    if (problem && !found) return render(main, failure(problem, load));
    if (!found) return render(main, loading());
    if (!found.length) return render(main, empty("No schedule yet", "A schedule starts a crawl again and again, by cron or every so often.", 'shoal schedule add news --cron "0 6 * * *" -- https://news.example/'));
    return render(main, card("Schedules", { note: format.plural(found.length, "schedule") }, table([
      { name: "schedule", cell: (one) => h("b", null, one.name) },
      { name: "when", cell: (one) => one.cron ? [h("code", null, one.cron), ` ${one.timezone}`] : `every ${format.duration(one.every_s)}` },
      { name: "next", cell: (one) => one.paused ? pill("paused") : time(one.next_at) },
      { name: "what", cell: (one) => h("code", { class: "why", title: (one.arguments || []).join(" ") }, (one.arguments || []).join(" ")), class: "grow-cell" },
      { name: "overlap", cell: (one) => one.overlap },
      { name: "latest ticks", cell: (one) => h("span", { class: "ticks" }, (one.runs || []).slice(-6).map((run) => h("span", { title: `${format.moment(run.tick)} ${run.why || ""}`.trim() }, run.crawl ? h("a", { href: `/ui/crawls/${encodeURIComponent(run.crawl)}`, "data-link": "" }, pill(run.state)) : pill(run.state)))) },
      { name: "", cell: (one) => api.may("operate") ? h("button", { type: "button", onclick: () => setPaused(one.name, !one.paused) }, icon(one.paused ? "play" : "pause"), one.paused ? "Resume" : "Pause") : null },
    ], found, { key: (one) => one.name, label: "Schedules" })));
  }

  load();
  return { update() { if (Date.now() - at > 5_000) load(); } };
}
