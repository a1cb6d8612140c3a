// The workers of a fleet, or the process that owns a folder.

import * as api from "../api.js";
import { h, render } from "../dom.js";
import * as format from "../format.js";
import { card, empty, failure, loading, pill, table, time } from "../parts.js";

export function workersPage({ main, live }) {
  let found = null;
  let problem = null;
  let search = "";
  let limit = 100;
  let busy = false;
  let at = 0;

  async function load() {
    if (busy) return;
    busy = true;
    at = Date.now();
    try { found = await api.get("/api/v1/live/workers", { search, limit }); problem = null; } catch (error) { problem = error; } finally { busy = false; }
    draw();
  }

  function draw() {
    if (problem && !found) return render(main, failure(problem, load));
    if (!found || !live.summary) return render(main, loading());
    if (!live.summary.shared) {
      return render(main, live.summary.owner
        ? card("One process", h("p", { class: "pad" }, "This store is a folder: one process at a time works on it. Now it is ", h("b", null, live.summary.owner), "."))
        : empty("No process is running", "This store is a folder: one process at a time works on it. Run the same command as before to resume its crawl.", "shoal crawl"));
    }
    if (!found.total && !search) return render(main, empty("No worker is running", "Start any number of them, on any machine that reaches the store.", `shoal worker --store ${live.summary.store}`));
    const several = new Set(found.workers.map((one) => one.shoal)).size > 1;
    return render(main,
      h("div", { class: "tiles", key: "tiles" }, Object.entries(found.by_role).map(([role, number]) => h("div", { class: "tile", key: role }, h("span", { class: "label" }, `role ${role}`), h("span", { class: "value" }, h("b", null, format.count(number)), h("span", { class: "unit" }, "workers"))))),
      card("Workers", { note: format.plural(found.total, "worker"), actions: h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter workers", "prop:value": search, oninput: (event) => { search = event.target.value.trim(); busy = false; load(); } }) },
        table([
          { name: "worker", cell: (one) => h("span", { class: "mono" }, one.worker), class: "grow-cell" },
          { name: "roles", cell: (one) => one.roles.length >= 3 ? "all" : one.roles.join(", ") },
          { name: "doing", cell: (one) => [pill(one.doing), one.why ? h("span", { class: "why" }, ` ${one.why}`) : ""] },
          { name: "in progress", number: true, cell: (one) => format.count(sum(one.crawls, "in_flight")) },
          { name: "parsing", number: true, cell: (one) => format.count(sum(one.crawls, "parsing")) },
          { name: "pages/s", number: true, cell: (one) => format.rate(sum(one.crawls, "pages_per_s")) },
          { name: "crawls", cell: (one) => one.crawls.length > 3 ? format.plural(one.crawls.length, "crawl") : one.crawls.map((at) => at.crawl).join(", ") },
          { name: "outputs", cell: (one) => h("span", { class: "why", title: one.outputs.map((at) => `${at.output}: ${at.doing} ${at.why}`).join("\n") }, one.outputs.filter((at) => at.doing !== "standby").map((at) => `${at.doing} ${at.output}`).join(", ")) },
          ...(several ? [{ name: "version", cell: (one) => one.shoal }] : []),
          { name: "heartbeat", number: true, cell: (one) => time(one.beaten_at) },
          { name: "up", number: true, cell: (one) => format.duration(Date.now() / 1000 - one.started_at) },
        ], found.workers, { key: (one) => one.worker, label: "Workers", empty: empty("No worker fits", "Change the filter above.") }),
        found.total > found.workers.length ? h("div", { class: "more" }, h("button", { type: "button", disabled: limit >= 500 ? "" : null, onclick: () => { limit = Math.min(limit + 100, 500); busy = false; load(); } }, limit >= 500 ? "The first 500 are shown: use the filter" : `Show more of ${format.count(found.total)}`)) : null));
  }

  load();
  return { update() { draw(); if (Date.now() - at > 4_000) load(); } };
}

function sum(list, field) {
  return list.reduce((total, one) => total + (one[field] || 0), 0);
}
