// Alerts: what is wrong, why, what was done about it and what to do.

import * as api from "../api.js";
import { h, render } from "../dom.js";
import * as format from "../format.js";
import { card, empty, failure, loading, time } from "../parts.js";

export function alertList(alerts) {
  return h("ul", { class: "alerts" }, alerts.map((one, number) => h("li", { class: `${one.level} ${one.cleared_at ? "cleared" : ""}`, key: `${one.kind}-${one.about}-${one.since}-${number}` },
    h("div", { class: "alert-head" }, h("b", null, one.kind.replaceAll("_", " ")), one.about ? h("span", { class: "mono" }, one.about) : null, one.stage ? h("span", { class: "cause-stage" }, one.stage) : null, h("span", { class: "grow" }),
      h("span", { class: "soft" }, one.cleared_at ? ["cleared ", time(one.cleared_at), `, lasted ${format.duration(one.cleared_at - one.since)}`] : ["since ", time(one.since)])),
    h("p", null, one.cause), one.done ? h("p", { class: "soft" }, "Done: ", one.done) : null, one.action ? h("p", { class: "action" }, one.action) : null)));
}

export function alertsPage({ main }) {
  let found = null;
  let problem = null;
  let at = 0;

  async function load() {
    at = Date.now();
    try { found = await api.get("/api/v1/alerts"); problem = null; } catch (error) { problem = error; }
    draw();
  }

  function draw() {
    if (problem && !found) return render(main, failure(problem, load));
    if (!found) return render(main, loading());
    return render(main,
      found.active.length ? card("Active", { key: "active", note: format.plural(found.active.length, "alert") }, alertList(found.active)) : empty("Nothing is wrong", "No alert is active. Queues, success, latency, dead letters, exits, workers and the store are watched."),
      (found.unknown ?? []).length ? card("Unknown: the crawl was stopped", { key: "unknown" }, alertList(found.unknown)) : null,
      found.recent.length ? card("Cleared lately", { key: "recent" }, alertList(found.recent.slice(0, 30))) : null);
  }

  load();
  return { update() { if (Date.now() - at > 4_000) load(); } };
}
