// Which hosts of a crawl link to which: the hosts with most pages, laid out by force.

import * as api from "../api.js";
import { fixed, h, render } from "../dom.js";
import * as format from "../format.js";
import { card, crawlSelect, empty, failure, loading, select, table, hostLink } from "../parts.js";

const SIZE = { width: 1000, height: 620 };

export function graphPage({ main, live, query, setQuery, go }) {
  const view = { crawl: query.get("crawl") || "", limit: query.get("limit") || "40" };
  let found = null;
  let drawn = null;
  let problem = null;

  async function load() {
    if (!view.crawl && live.summary && live.summary.crawls.length) view.crawl = live.summary.crawls[0].crawl;
    if (!view.crawl) return draw();
    try { found = await api.get("/api/v1/live/graph", view); drawn = null; problem = null; } catch (error) { problem = error; }
    return draw();
  }

  function change(values) {
    Object.assign(view, values);
    setQuery(view);
    found = null;
    draw();
    load();
  }

  function draw() {
    if (live.summary && !live.summary.crawls_total) return render(main, empty("No crawl yet", "A crawl of several hosts is drawn here.", "shoal crawl https://example.org/ --any-host"));
    const filters = h("div", { class: "filters", key: "filters" }, crawlSelect(live.summary, view.crawl, (crawl) => change({ crawl }), { all: false }),
      select("Hosts", [["20", "20 largest"], ["40", "40 largest"], ["80", "80 largest"], ["150", "150 largest"]], view.limit, (limit) => change({ limit })));
    if (problem) return render(main, filters, failure(problem, load));
    if (!found) return render(main, filters, loading());
    if (!found.nodes.length) return render(main, filters, empty("Nothing to draw yet", found.problem || "The fetch log has no attempt of this crawl."));
    if (found.nodes.length === 1) {
      const [only] = found.nodes;
      return render(main, filters, empty("One host", `Every request so far went to ${only.host}: ${format.plural(only.pages, "page")}, ${format.plural(only.failures, "failure")}. A crawl of several hosts is drawn here as a graph.`));
    }
    drawn = drawn || picture(found, go);
    const links = found.edges.slice(0, 12);
    return render(main, filters,
      card("Link graph", { key: "graph", note: `${format.plural(found.nodes.length, "host")} of ${format.count(found.hosts_total)}, from the newest ${format.plural(found.attempts, "attempt")}`, actions: h("button", { type: "button", onclick: () => load() }, "Refresh") }, drawn),
      found.edges.length ? card("Strongest links", { key: "links" }, table([
        { name: "from", cell: (one) => hostLink(found.nodes[one.source].host), class: "grow-cell" }, { name: "to", cell: (one) => hostLink(found.nodes[one.target].host), class: "grow-cell" }, { name: "links followed", number: true, cell: (one) => format.count(one.links) }], links, { label: "Links" }))
        : card("Links between hosts", { key: "links" }, h("p", { class: "soft pad" }, "No link from one host to another was followed.")));
  }

  load();
  return { update() { if (!found && !problem) load(); } };
}

// Positions by repulsion, springs and a pull to the middle: a few hundred steps, always the same result.
export function layout(nodes, edges) {
  const golden = Math.PI * (3 - Math.sqrt(5));
  const at = nodes.map((_, number) => ({ x: SIZE.width / 2 + 18 * Math.sqrt(number) * Math.cos(number * golden), y: SIZE.height / 2 + 18 * Math.sqrt(number) * Math.sin(number * golden) }));
  const spring = Math.sqrt((SIZE.width * SIZE.height) / (nodes.length + 1)) * 0.62;
  const pull = (nodes.length * spring * spring) / (0.40 * SIZE.height) ** 2; // so that they fill the frame
  const heaviest = Math.max(1, ...edges.map((edge) => edge.links));
  const degree = nodes.map(() => 0);
  for (const { source, target } of edges) { degree[source] += 1; degree[target] += 1; }
  const steps = nodes.length > 100 ? 160 : 300;
  for (let step = 0; step < steps; step += 1) {
    const heat = (1 - step / steps) * 28 + 0.5;
    const move = at.map(() => ({ x: 0, y: 0 }));
    for (let a = 0; a < at.length; a += 1) for (let b = a + 1; b < at.length; b += 1) {
      const dx = at[a].x - at[b].x || 0.01;
      const dy = at[a].y - at[b].y || 0.01;
      const distance = Math.hypot(dx, dy);
      const force = (spring * spring) / (distance * distance);
      move[a].x += dx * force; move[a].y += dy * force; move[b].x -= dx * force; move[b].y -= dy * force;
    }
    for (const { source, target, links } of edges) {
      const dx = at[source].x - at[target].x;
      const dy = at[source].y - at[target].y;
      const distance = Math.hypot(dx, dy) || 0.01;
      const force = (distance / spring) * (0.25 + (0.5 * links) / heaviest) * (2 / Math.sqrt(degree[source] * degree[target]));
      move[source].x -= dx * force; move[source].y -= dy * force; move[target].x += dx * force; move[target].y += dy * force;
    }
    at.forEach((place, number) => {
      move[number].x += (SIZE.width / 2 - place.x) * pull * 0.4;
      move[number].y += (SIZE.height / 2 - place.y) * pull;
      const length = Math.hypot(move[number].x, move[number].y) || 1;
      place.x += (move[number].x / length) * Math.min(length, heat);
      place.y += (move[number].y / length) * Math.min(length, heat);
      place.x = Math.min(SIZE.width - 60, Math.max(60, place.x));
      place.y = Math.min(SIZE.height - 30, Math.max(30, place.y));
    });
  }
  return fitted(at);
}

// Stretch positions so that they fill the frame; a single one is in the middle.
function fitted(at) {
  const xs = at.map((one) => one.x);
  const ys = at.map((one) => one.y);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const scale = (value, from, to, size, pad) => (to - from < 1 ? size / 2 : pad + ((value - from) / (to - from)) * (size - 2 * pad));
  return at.map((one) => ({ x: scale(one.x, left, right, SIZE.width, 80), y: scale(one.y, top, bottom, SIZE.height, 40) }));
}

function picture(found, go) {
  const { nodes, edges } = found;
  const at = layout(nodes, edges);
  const most = Math.max(1, ...nodes.map((node) => node.pages));
  const heaviest = Math.max(1, ...edges.map((edge) => edge.links));
  const largest = Math.max(6, Math.min(20, 110 / Math.sqrt(nodes.length)));
  const radius = (node) => 4 + largest * Math.sqrt(node.pages / most);
  const named = nodes.length <= 60 ? nodes.length : 30;
  const groups = nodes.map((node, number) => h("g", { class: `node ${node.failures > node.pages / 4 ? "failing" : ""}`, tabindex: "0", role: "link", "aria-label": `${node.host}: ${node.pages} pages, ${node.failures} failures`,
    onclick: () => go(`/ui/hosts/${encodeURIComponent(node.host)}`), onkeydown: (event) => { if (event.key === "Enter") go(`/ui/hosts/${encodeURIComponent(node.host)}`); },
    onpointerenter: () => mark(number), onpointerleave: () => mark(-1), onfocus: () => mark(number), onblur: () => mark(-1) },
    h("circle", { cx: at[number].x.toFixed(1), cy: at[number].y.toFixed(1), r: radius(node).toFixed(1) }),
    number < named ? h("text", { x: at[number].x.toFixed(1), y: (at[number].y + radius(node) + 12).toFixed(1) }, node.host.length > 26 ? `…${node.host.slice(-25)}` : node.host) : null,
    h("title", null, `${node.host}\n${format.plural(node.pages, "page")}, ${format.plural(node.failures, "failure")}`)));
  const lines = edges.map((edge) => {
    const from = at[edge.source];
    const to = at[edge.target];
    const dx = to.x - from.x;
    const dy = to.y - from.y;
    const bend = 0.08;
    return h("path", { class: "edge", d: `M${from.x.toFixed(1)} ${from.y.toFixed(1)}Q${((from.x + to.x) / 2 - dy * bend).toFixed(1)} ${((from.y + to.y) / 2 + dx * bend).toFixed(1)} ${to.x.toFixed(1)} ${to.y.toFixed(1)}`, "stroke-width": (0.6 + 4 * Math.sqrt(edge.links / heaviest)).toFixed(2) });
  });
  function mark(number) {
    svg.classList.toggle("marked", number >= 0);
    const near = new Set([number]);
    edges.forEach((edge, place) => {
      const touches = edge.source === number || edge.target === number;
      lines[place].classList.toggle("on", touches);
      if (touches) { near.add(edge.source); near.add(edge.target); }
    });
    groups.forEach((group, place) => group.classList.toggle("on", near.has(place)));
  }
  const svg = h("svg", { class: "graph", viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: "group", "aria-label": "Hosts and the links between them" }, h("g", null, lines), h("g", null, groups));
  const node = fixed(h("div", { class: "graph-frame" }, svg));
  node._key = "picture";
  requestAnimationFrame(() => { node.scrollLeft = (node.scrollWidth - node.clientWidth) / 2; }); // a phone shows the middle
  return node;
}
