// Elements without markup in strings: every text that comes from outside becomes a text node.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "g", "path", "line", "rect", "circle", "polyline", "polygon", "text", "tspan", "title", "defs", "marker", "ellipse"]);

// Build an element. `props`: attributes; `on…` are listeners, `prop:name` sets a property, `key` names a row.
export function h(tag, props, ...children) {
  const isSvg = SVG_TAGS.has(tag) && !(tag === "title" && props && props.html);
  const node = isSvg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) listen(node, name.slice(2).toLowerCase(), value);
    else if (name.startsWith("prop:")) setProperty(node, name.slice(5), value);
    else if (name === "key") node._key = String(value);
    else if (name === "vars") setVars(node, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

function setVars(node, vars) {
  node._vars = vars;
  for (const [name, value] of Object.entries(vars)) node.style.setProperty(name, value);
}

function setProperty(node, name, value) {
  node._props = { ...(node._props || {}), [name]: value };
  if (node[name] !== value) node[name] = value;
}

function append(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(node, child);
    else node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

function listen(node, type, listener) {
  node._on = node._on || {};
  if (!(type in node._on)) node.addEventListener(type, (event) => node._on[type] && node._on[type].call(node, event));
  node._on[type] = listener;
}

// Make the children of `target` equal to `wanted`, and keep nodes that fit: focus, scroll and selection stay.
export function render(target, ...wanted) {
  const holder = document.createDocumentFragment();
  append(holder, wanted);
  morphChildren(target, holder);
}

function morphChildren(target, source) {
  const keyed = new Map();
  for (const child of target.childNodes) if (child._key !== undefined) keyed.set(child._key, child);
  let at = target.firstChild;
  for (const want of [...source.childNodes]) {
    let have = at;
    if (want._key !== undefined) {
      have = keyed.get(want._key) || null;
      if (have) keyed.delete(want._key);
    } else if (have && have._key !== undefined) have = null;
    if (have && fits(have, want)) {
      if (have !== at) target.insertBefore(have, at);
      else at = at.nextSibling;
      morph(have, want);
    } else {
      target.insertBefore(want, at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function fits(have, want) {
  return have.nodeType === want.nodeType && have.nodeName === want.nodeName && have._key === want._key && !want._fixed === !have._fixed;
}

function morph(have, want) {
  if (have.nodeType === Node.TEXT_NODE) {
    if (have.data !== want.data) have.data = want.data;
    return;
  }
  if (have._fixed) return; // drawn by a component that updates itself
  for (const { name, value } of [...want.attributes]) {
    if (name === "style") continue;
    if (have.getAttribute(name) !== value) have.setAttribute(name, value);
  }
  for (const { name } of [...have.attributes]) {
    if (name !== "style" && !want.hasAttribute(name) && !(name === "open" && have.nodeName === "DETAILS")) have.removeAttribute(name);
  }
  if (want._vars) setVars(have, want._vars);
  for (const [type, listener] of Object.entries(want._on || {})) listen(have, type, listener);
  for (const [name, value] of Object.entries(want._props || {})) {
    if (document.activeElement !== have) setProperty(have, name, value);
  }
  morphChildren(have, want);
}

// Mark a node whose content is not touched by `render`.
export function fixed(node) {
  node._fixed = true;
  return node;
}

const ICONS = {
  overview: "M3 12h4l3-8 4 16 3-8h4",
  crawls: "M4 6h16M4 12h16M4 18h10",
  hosts: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM3 12h18M12 3c3 3 3 15 0 18M12 3c-3 3-3 15 0 18",
  workers: "M5 5h14v6H5zM5 13h14v6H5zM8 8h.01M8 16h.01",
  exits: "M14 4h6v16h-6M4 12h11M11 8l4 4-4 4",
  dead: "M12 4 3 19h18zM12 10v4M12 16.500v.01",
  requests: "M4 12h12M12 7l5 5-5 5M20 5v14",
  items: "M4 5h16v4H4zM4 11h16v4H4zM4 17h10",
  graph: "M6 7a2 2 0 1 0 0-.01M18 6a2 2 0 1 0 0-.01M12 18a2 2 0 1 0 0-.01M8 7.500 16 6.500M7 9l4 7M17 8l-4 8",
  schedules: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM12 8v4l3 2",
  alerts: "M6 16V11a6 6 0 0 1 12 0v5l2 2H4zM10 20h4",
  menu: "M4 6h16M4 12h16M4 18h16",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 3v2M12 19v2M3 12h2M19 12h2M5.600 5.600 7 7M17 17l1.400 1.400M5.600 18.400 7 17M17 7l1.400-1.400",
  moon: "M20 14A8 8 0 1 1 10 4a6.500 6.500 0 0 0 10 10z",
  auto: "M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16",
  pause: "M8 5v14M16 5v14",
  play: "M7 5l12 7-12 7z",
  frontier: "M4 7h16M4 12h12M4 17h8",
  fetch: "M12 4v11M7 10l5 5 5-5M5 20h14",
  archive: "M4 5h16v4H4zM6 9v10h12V9M10 13h4",
  parse: "M8 6l-5 6 5 6M16 6l5 6-5 6",
  sink: "M12 3c4 0 8 1.300 8 3s-4 3-8 3-8-1.300-8-3 4-3 8-3zM4 6v12c0 1.700 4 3 8 3s8-1.300 8-3V6M4 12c0 1.700 4 3 8 3s8-1.300 8-3",
  search: "M10.500 4a6.500 6.500 0 1 0 0 13 6.500 6.500 0 0 0 0-13zM15.500 15.500 20 20",
  copy: "M8 8h11v12H8zM5 16V4h11",
  close: "M6 6l12 12M18 6 6 18",
  out: "M10 4H5v16h5M9 12h11M16 8l4 4-4 4",
  chevron: "M9 6l6 6-6 6",
};

export function icon(name) {
  return h("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" }, h("path", { d: ICONS[name] || ICONS.overview }));
}
