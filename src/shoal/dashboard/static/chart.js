// A chart over time: SVG, at most a few hundred points, a cross-hair with the values under the pointer.

import { fixed, h } from "./dom.js";
import * as format from "./format.js";

const HEIGHT = 168;
const TICKS = 4;
const PAD = { left: 52, right: 10, top: 10, bottom: 22 };

export function niceCeiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 2, 3, 4, 6, 8, 10]) if (step * power >= value * 1.0001) return step * power;
  return 10 * power;
}

// series: [{ name, color, field, area }]; points: arrays by `fields`; show: formats a value
export class TimeChart {
  constructor({ label, series, show, height = HEIGHT, least = 0, whole = false }) {
    this.label = label;
    this.series = series;
    this.show = show;
    this.height = height;
    this.points = [];
    this.fields = [];
    this.width = 0;
    this.least = least; // what the axis reaches at least
    this.whole = whole; // the axis has whole numbers only
    this.plot = h("svg", { class: "plot", role: "img", "aria-label": label, preserveAspectRatio: "none" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.legend = h("ul", { class: "legend" });
    this.note = h("p", { class: "chart-note", hidden: true });
    this.frame = h("div", { class: "chart-frame", vars: { "--chart-height": `${height}px` } }, this.plot, this.tip, this.note);
    this.node = fixed(h("div", { class: "chart" }, this.frame, this.legend));
    this.frame.addEventListener("pointermove", (event) => this.point(event));
    this.frame.addEventListener("pointerleave", () => this.leave());
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.frame);
  }

  stop() {
    this.observer.disconnect();
  }

  resize() {
    const width = Math.floor(this.frame.clientWidth);
    if (width && width !== this.width) {
      this.width = width;
      this.draw();
    }
  }

  update(fields, points, note = "") {
    this.fields = fields;
    this.points = points;
    this.message = note;
    if (!this.width) this.width = Math.floor(this.frame.clientWidth);
    this.draw();
  }

  draw() {
    if (!this.width) return;
    const { width, height, points } = this;
    const at = this.fields.indexOf("at");
    const columns = this.series.map((one) => this.fields.indexOf(one.field));
    const known = points.filter((point) => columns.some((column) => column >= 0 && point[column] !== null && point[column] !== undefined));
    this.note.hidden = known.length > 1;
    this.note.textContent = this.message || (known.length > 1 ? "" : "No figures yet.");
    const children = [];
    let top = 0;
    for (const point of points) for (const column of columns) top = Math.max(top, point[column] || 0);
    top = niceCeiling(Math.max(top, this.least));
    if (this.whole) top = Math.ceil(top / TICKS) * TICKS;
    const first = points.length ? points[0][at] : 0;
    const last = points.length ? points[points.length - 1][at] : 1;
    const span = Math.max(last - first, 1);
    this.x = (value) => PAD.left + ((value - first) / span) * (width - PAD.left - PAD.right);
    this.y = (value) => height - PAD.bottom - (value / top) * (height - PAD.top - PAD.bottom);
    for (let tick = 0; tick <= TICKS; tick += 1) {
      const value = (top * tick) / TICKS;
      const y = Math.round(this.y(value)) + 0.5;
      children.push(h("line", { class: "grid", x1: PAD.left, x2: width - PAD.right, y1: y, y2: y }));
      if (known.length > 1) children.push(h("text", { class: "tick end", x: PAD.left - 8, y: y + 4 }, this.show(value)));
    }
    if (known.length > 1) {
      const labels = Math.max(2, Math.min(6, Math.floor(width / 110)));
      for (let label = 0; label < labels; label += 1) {
        const when = first + (span * label) / (labels - 1);
        const anchor = label === 0 ? "start" : label === labels - 1 ? "end" : "middle";
        children.push(h("text", { class: `tick ${anchor}`, x: this.x(when), y: height - 5 }, timeLabel(when, span)));
      }
      this.series.forEach((one, number) => {
        const column = columns[number];
        if (column < 0) return;
        for (const run of runs(points, column)) {
          const path = run.map((point, place) => `${place ? "L" : "M"}${this.x(point[at]).toFixed(1)} ${this.y(point[column]).toFixed(1)}`).join("");
          if (one.area && run.length > 1) {
            const base = this.y(0).toFixed(1);
            children.push(h("path", { class: `area ${one.color}`, d: `${path}L${this.x(run[run.length - 1][at]).toFixed(1)} ${base}L${this.x(run[0][at]).toFixed(1)} ${base}Z` }));
          }
          if (run.length === 1) children.push(h("circle", { class: `dot ${one.color}`, cx: this.x(run[0][at]), cy: this.y(run[0][column]), r: 2 }));
          else children.push(h("path", { class: `line ${one.color}`, d: path }));
        }
      });
    }
    this.cross = h("line", { class: "cross", y1: PAD.top, y2: height - PAD.bottom, x1: -10, x2: -10 });
    children.push(this.cross);
    this.plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.plot.replaceChildren(...children);
    this.drawLegend(points[points.length - 1], columns);
  }

  drawLegend(point, columns) {
    const entries = this.series.map((one, number) => {
      const value = point && columns[number] >= 0 ? point[columns[number]] : null;
      return h("li", { class: one.color }, h("span", { class: "name" }, one.name), h("b", null, value === null || value === undefined ? "–" : this.show(value)));
    });
    this.legend.replaceChildren(...entries);
  }

  point(event) {
    if (this.points.length < 2 || !this.x) return;
    const at = this.fields.indexOf("at");
    const x = event.clientX - this.frame.getBoundingClientRect().left;
    let best = this.points[0];
    for (const point of this.points) if (Math.abs(this.x(point[at]) - x) < Math.abs(this.x(best[at]) - x)) best = point;
    const px = this.x(best[at]);
    this.cross.setAttribute("x1", px);
    this.cross.setAttribute("x2", px);
    this.tip.hidden = false;
    this.tip.replaceChildren(
      h("time", null, format.moment(best[at])),
      ...this.series.map((one) => {
        const value = best[this.fields.indexOf(one.field)];
        return h("div", { class: one.color }, h("span", { class: "name" }, one.name), h("b", null, value === null || value === undefined ? "–" : this.show(value)));
      }),
    );
    this.tip.classList.toggle("left", px > this.width / 2);
    this.tip.style.setProperty("--x", `${px}px`);
  }

  leave() {
    this.tip.hidden = true;
    if (this.cross) { this.cross.setAttribute("x1", -10); this.cross.setAttribute("x2", -10); }
  }
}

function runs(points, column) {
  const found = [];
  let current = [];
  for (const point of points) {
    if (point[column] === null || point[column] === undefined) {
      if (current.length) found.push(current);
      current = [];
    } else current.push(point);
  }
  if (current.length) found.push(current);
  return found;
}

function timeLabel(at, span) {
  if (span > 2 * 86_400) return new Date(at * 1000).toLocaleDateString("en-GB", { day: "2-digit", month: "short" });
  return format.clock(at, { seconds: span < 600 });
}

// Horizontal bars for a few counts, the largest first.
export function bars(counts, { color = "c2", limit = 8, show = format.count, empty = "None." } = {}) {
  const entries = Object.entries(counts || {}).filter(([, value]) => value > 0).sort((a, b) => b[1] - a[1]);
  if (!entries.length) return h("p", { class: "soft" }, empty);
  const top = entries[0][1];
  const shown = entries.slice(0, limit);
  const rest = entries.slice(limit).reduce((sum, [, value]) => sum + value, 0);
  if (rest) shown.push(["others", rest]);
  return h("ul", { class: "bars" }, shown.map(([name, value]) =>
    h("li", { key: name }, h("span", { class: "name" }, name), h("span", { class: `bar ${color}`, vars: { "--share": Math.max(value / top, 0.004) } }), h("b", null, show(value)))));
}
