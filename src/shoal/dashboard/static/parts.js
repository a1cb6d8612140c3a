// Parts that several pages use: cards, tables, states, dialogs.

import { h, icon, render } from "./dom.js";
import * as format from "./format.js";

export function card(title, ...children) {
  const options = children[0] && children[0].constructor === Object ? children.shift() : {};
  return h("section", { class: `card ${options.class || ""}`, key: options.key, "aria-label": title },
    title ? h("header", null, h("h2", null, title), options.note ? h("span", { class: "soft" }, options.note) : null, h("span", { class: "grow" }), options.actions || null) : null,
    ...children);
}

export function tile(label, value, unit, { tone, title, href } = {}) {
  const body = [h("span", { class: "label" }, label), h("span", { class: "value" }, h("b", null, value), unit ? h("span", { class: "unit" }, unit) : null)];
  return h(href ? "a" : "div", { class: `tile ${tone || ""}`, href, title, "data-link": href ? "" : null }, body);
}

export function pill(state, text) {
  return h("span", { class: `pill ${state.replaceAll(" ", "-")}` }, text || state);
}

// columns: [{ name, cell(row), class, number }]; rows get keys so that they move and do not flicker
export function table(columns, rows, { key, empty, label, rowClass } = {}) {
  if (!rows.length) return empty || h("p", { class: "soft pad" }, "None.");
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label || "table" },
    h("table", null,
      h("thead", null, h("tr", null, columns.map((column) => h("th", { class: classOf(column), scope: "col", title: column.hint }, column.name)))),
      h("tbody", null, rows.map((row, number) => h("tr", { key: key ? key(row) : number, class: rowClass ? rowClass(row) : null },
        columns.map((column) => h("td", { class: classOf(column), "data-name": column.name }, column.cell(row))))))));
}

function classOf(column) {
  return [column.number ? "number" : "", column.class || ""].join(" ").trim() || null;
}

export function empty(title, text, ...commands) {
  return h("div", { class: "empty" }, h("h3", null, title), text ? h("p", null, text) : null, commands.map(command));
}

export function command(text) {
  const button = h("button", { class: "quiet", type: "button", "aria-label": `Copy ${text}`, title: "Copy", onclick: async () => {
    try { await navigator.clipboard.writeText(text); notify("Copied"); } catch { notify("Copying is not allowed here"); }
  } }, icon("copy"));
  return h("div", { class: "command" }, h("code", null, text), button);
}

export function loading(text = "Loading") {
  return h("div", { class: "loading", role: "status" }, h("span", { class: "spinner", "aria-hidden": "true" }), text);
}

export function failure(problem, retry) {
  return h("div", { class: "problem", role: "alert" }, h("p", null, problem.message || String(problem)), retry ? h("button", { type: "button", onclick: retry }, "Try again") : null);
}

export function time(at, { relative = true } = {}) {
  return h("time", { title: format.full(at), datetime: at ? new Date(at * 1000).toISOString() : null }, relative ? format.ago(at) : format.moment(at));
}

export function link(href, ...children) {
  return h("a", { href, "data-link": "" }, ...children);
}

export function urlLink(crawl, trace, url) {
  const query = new URLSearchParams({ trace, ...(crawl ? { crawl } : {}) });
  return h("a", { class: "url", href: `/ui/requests?${query}`, "data-link": "", title: url }, url || trace);
}

export function hostLink(host) {
  return h("a", { class: "mono", href: `/ui/hosts/${encodeURIComponent(host)}`, "data-link": "" }, host);
}

export function crawlLink(crawl) {
  return h("a", { class: "strong", href: `/ui/crawls/${encodeURIComponent(crawl)}`, "data-link": "" }, crawl);
}

export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter((pair) => pair && pair[1] !== null && pair[1] !== undefined && pair[1] !== "").map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
}

export function segmented(label, options, chosen, choose) {
  return h("div", { class: "segmented", role: "group", "aria-label": label }, options.map(([value, text]) =>
    h("button", { type: "button", "aria-pressed": value === chosen ? "true" : "false", onclick: () => choose(value) }, text)));
}

export function select(label, options, chosen, choose) {
  return h("label", { class: "field" }, h("span", null, label),
    h("select", { onchange: (event) => choose(event.target.value), "prop:value": chosen }, options.map(([value, text]) => h("option", { value, selected: value === chosen ? "" : null }, text))));
}

export function crawlSelect(summary, chosen, choose, { all = true } = {}) {
  const names = (summary ? summary.crawls : []).map((crawl) => crawl.crawl);
  if (chosen && !names.includes(chosen)) names.push(chosen);
  return select("Crawl", [...(all ? [["", "all crawls"]] : []), ...names.map((name) => [name, name])], chosen, choose);
}

// Ask before something is changed. Resolves to the values of the form, or null.
export function confirm({ title, text, action, danger, fields = [] }) {
  return new Promise((resolve) => {
    const inputs = {};
    const form = h("form", { method: "dialog", onsubmit: (event) => { event.preventDefault(); close(Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value]))); } },
      h("h2", null, title), text ? h("p", null, text) : null,
      fields.map((field) => {
        inputs[field.name] = h("input", { type: field.type || "text", value: field.value ?? "", min: field.min, step: field.step, max: field.max, required: field.required ? "" : null, inputmode: field.inputmode });
        return h("label", { class: "field" }, h("span", null, field.label), inputs[field.name]);
      }),
      h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => close(null) }, "Cancel"), h("button", { type: "submit", class: danger ? "danger" : "primary" }, action)));
    const dialog = h("dialog", { class: "dialog", "aria-label": title, oncancel: (event) => { event.preventDefault(); close(null); } }, form);
    function close(value) { dialog.close(); dialog.remove(); resolve(value); }
    document.body.append(dialog);
    dialog.showModal();
  });
}

export function drawer(title, ...children) {
  const body = h("div", { class: "drawer-body" }, ...children);
  const dialog = h("dialog", { class: "drawer", "aria-label": title, oncancel: (event) => { event.preventDefault(); close(); }, onclick: (event) => { if (event.target === dialog) close(); } },
    h("header", null, h("h2", null, title), h("span", { class: "grow" }), h("button", { class: "quiet", type: "button", "aria-label": "Close", onclick: () => close() }, icon("close"))), body);
  function close() { dialog.close(); dialog.remove(); }
  document.body.append(dialog);
  dialog.showModal();
  return { close, update: (...next) => render(body, ...next) };
}

let notices = null;
export function notify(text, tone = "") {
  if (!notices) { notices = h("div", { class: "notices", role: "status", "aria-live": "polite" }); document.body.append(notices); }
  const note = h("div", { class: `notice ${tone}` }, text);
  notices.append(note);
  setTimeout(() => note.remove(), tone === "bad" ? 9_000 : 4_000);
}

// Run a change and say what became of it.
export async function act(run, done) {
  try {
    const found = await run();
    notify(typeof done === "function" ? done(found) : done);
    return found;
  } catch (error) {
    notify(error.message, "bad");
    return null;
  }
}
