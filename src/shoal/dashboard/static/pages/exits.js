// Exits: how requests leave, how healthy each way is, and what it costs.

import * as api from "../api.js";
import { bars } from "../chart.js";
import { h, render } from "../dom.js";
import * as format from "../format.js";
import { card, crawlLink, empty, failure, loading, pill, table, tile } from "../parts.js";

export function exitsPage({ main }) {
  let found = null;
  let problem = null;
  let at = 0;

  async function load() {
    at = Date.now();
    try { found = await api.get("/api/v1/live/exits"); problem = null; } catch (error) { problem = error; }
    draw();
  }

  function draw() {
    if (problem && !found) return render(main, failure(problem, load));
    if (!found) return render(main, loading());
    if (!found.exits.length && !found.crawls.length) return render(main, empty("Requests leave directly", "No exit is in use. An exit is a proxy with a kind, a country and a price.", "shoal crawl URL --proxy proxies.txt"));
    const resting = found.exits.filter((one) => one.state === "rests").length;
    return render(main,
      h("div", { class: "tiles", key: "tiles" },
        tile("Exits", format.count(found.exits_total), "known"),
        tile("Resting", format.count(resting), "exits", { tone: resting ? "warn" : "" }),
        tile("Traffic", format.bytes(found.bytes), "through exits"),
        tile("Cost", format.money(found.cost), "so far")),
      card("Exits", { key: "exits", note: found.exits_total > found.exits.length ? `the first ${found.exits.length}` : "" }, table([
        { name: "exit", cell: (one) => h("span", { class: "mono" }, one.name), class: "grow-cell" },
        { name: "kind", cell: (one) => one.kind || "–" },
        { name: "country", cell: (one) => one.country || "–" },
        { name: "state", cell: (one) => pill(one.state, one.state === "rests" ? `rests ${format.duration(one.rest_s)}` : one.state) },
        { name: "success", number: true, cell: (one) => one.recent ? format.percent(one.success) : "–" },
        { name: "requests", number: true, cell: (one) => format.short(one.requests) },
        { name: "traffic", number: true, cell: (one) => format.bytes(one.bytes) },
        { name: "hosts it rests for", number: true, cell: (one) => format.count(one.hosts_resting) },
        { name: "why", cell: (one) => h("span", { class: "why" }, [one.cause, one.why].filter(Boolean).join(": ")) },
      ], found.exits, { key: (one) => one.name, label: "Exits", empty: empty("No exit yet", "Exits appear once a process uses them.") })),
      h("div", { class: "two", key: "cost" },
        card("Cost by crawl", table([
          { name: "crawl", cell: (one) => crawlLink(one.crawl), class: "grow-cell" },
          { name: "traffic", number: true, cell: (one) => format.bytes(one.bytes) },
          { name: "cost", number: true, cell: (one) => format.money(one.cost) },
          { name: "of its budget", number: true, cell: (one) => one.budget_share ? format.percent(one.budget_share) : "no budget" },
        ], found.crawls, { key: (one) => one.crawl, label: "Cost" })),
        card("Traffic by kind of exit", bars(found.by_kind, { color: "c4", show: format.bytes, empty: "None." }))));
  }

  load();
  return { update() { if (Date.now() - at > 4_000) load(); } };
}
