// Items: the newest first, a search in them, and the whole file.

import * as api from "../api.js";
import { h, render } from "../dom.js";
import * as format from "../format.js";
import { card, crawlSelect, drawer, empty, failure, loading, table } from "../parts.js";

const STEP = 50;
const MAX_COLUMNS = 8;

export function itemsPage({ main, live, query, setQuery }) {
  const view = { crawl: query.get("crawl") || "", search: query.get("search") || "" };
  let found = null;
  let items = [];
  let problem = null;
  let number = 0;

  async function load(more = false) {
    if (!view.crawl) {
      if (!live.summary || !live.summary.crawls.length) return draw();
      view.crawl = live.summary.crawls[0].crawl;
    }
    const own = ++number;
    try {
      const answer = await api.get("/api/v1/live/items", { ...view, limit: STEP, cursor: more ? found.next_cursor : "" });
      if (own !== number) return null;
      items = more ? [...items, ...answer.items] : answer.items;
      found = answer;
      problem = null;
    } catch (error) { if (own === number) problem = error; }
    return draw();
  }

  function change(values) {
    Object.assign(view, values);
    setQuery(view);
    found = null;
    items = [];
    draw();
    load();
  }

  function draw() {
    if (live.summary && !live.summary.crawls_total) return render(main, empty("No items yet", "Items appear here as soon as a crawl writes them.", "shoal crawl https://example.org/ --item title=h1"));
    const filters = h("div", { class: "filters", key: "filters" },
      crawlSelect(live.summary, view.crawl, (crawl) => change({ crawl }), { all: false }),
      h("label", { class: "field search wide" }, h("span", null, "Text in an item"), h("input", { type: "search", "prop:value": view.search, onchange: (event) => change({ search: event.target.value }) })));
    if (problem) return render(main, filters, failure(problem, () => load()));
    if (!found) return render(main, filters, loading());
    const columns = columnsOf(items);
    const download = `/api/v1/live/items/file?${new URLSearchParams({ crawl: view.crawl })}`;
    return render(main, filters, card("Items", { note: found.output ? `${found.output}, ${format.bytes(found.size_bytes)}` : "", actions: found.output ? [h("button", { type: "button", onclick: () => load() }, "Refresh"), h("a", { class: "button", href: download, download: "" }, "Download")] : null },
      found.problem ? empty("Not shown here", found.problem) : table(columns.map((name) => ({ name, cell: (one) => h("span", { class: "cell" }, text(one[name])), number: items.every((one) => one[name] === undefined || one[name] === null || typeof one[name] === "number") })).concat([{ name: "", cell: (one) => h("button", { type: "button", class: "quiet", onclick: () => drawer("Item", h("pre", { class: "json", tabindex: "0" }, JSON.stringify(one, null, 2))) }, "Details") }]),
        items, { label: "Items", empty: view.search ? empty("No item fits", found.next_cursor ? `The newest ${format.bytes(found.searched_bytes)} were searched.` : "Every item was searched.") : empty("No items yet", "The output has no items.") }),
      found.next_cursor ? h("div", { class: "more" }, h("button", { type: "button", onclick: () => load(true) }, view.search ? `Search further back (${format.bytes(found.searched_bytes)} so far)` : "Show older ones")) : null));
  }

  load();
  return { update() { if (!found && !problem) load(); else draw(); } };
}

function columnsOf(items) {
  const counted = new Map();
  for (const one of items.slice(0, 50)) for (const name of Object.keys(one)) counted.set(name, (counted.get(name) || 0) + 1);
  return [...counted.keys()].slice(0, MAX_COLUMNS);
}

function text(value) {
  if (value === undefined || value === null) return "–";
  return typeof value === "string" ? value : JSON.stringify(value);
}
