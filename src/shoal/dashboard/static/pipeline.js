// The pipeline as a row of stages; the one that stalls is marked, with its reason below.

import { h, icon } from "./dom.js";
import * as format from "./format.js";

const NAMES = { frontier: "Frontier", fetch: "Fetch", archive: "Archive", parse: "Parse", sink: "Sink" };
const TASKS = {
  frontier: "URLs that wait for their turn",
  fetch: "requests on the wire",
  archive: "responses kept as WARC",
  parse: "pages turned into items and links",
  sink: "items written to outputs",
};
const STATES = { running: "running", idle: "idle", held: "held back", stalled: "stalled", paused: "paused" };

export function pipeline(picture) {
  const stages = picture.stages.length ? picture.stages : Object.keys(NAMES).map((name) => ({ name, state: "idle", depth: 0, unit: name === "frontier" || name === "fetch" ? "URLs" : "pages", in_progress: 0, rate: null, rate_unit: "", lag_s: null, detail: "", causes: [] }));
  const causes = stages.flatMap((stage) => stage.causes);
  const worst = { stalled: 0, held: 1, notice: 2 };
  causes.sort((a, b) => worst[a.level] - worst[b.level]);
  return h("div", { class: "pipeline", key: "pipeline" },
    h("ol", { class: "stages", "aria-label": "Pipeline" }, stages.map((stage, number) => [
      number ? h("li", { class: `flow ${flowing(stages[number - 1], stage) ? "moving" : ""}`, "aria-hidden": "true", key: `flow-${stage.name}` },
        h("svg", { viewBox: "0 0 40 12", preserveAspectRatio: "none" }, h("path", { d: "M0 6h40" })), icon("chevron")) : null,
      h("li", { class: `stage ${stage.state} ${picture.stalled === stage.name ? "culprit" : ""}`, key: stage.name },
        h("div", { class: "stage-head" }, icon(stage.name), h("h3", { title: TASKS[stage.name] }, NAMES[stage.name] || stage.name), h("span", { class: "stage-state" }, STATES[stage.state] || stage.state)),
        h("p", { class: "stage-depth" }, h("b", null, format.short(depthOf(stage))), h("span", { class: "unit" }, depthUnit(stage))),
        h("dl", null,
          h("dt", null, "rate"), h("dd", null, h("b", null, format.rate(stage.rate)), ` ${stage.rate_unit}/s`),
          h("dt", null, lagName(stage)), h("dd", null, lagText(stage)))),
    ])),
    causes.length ? h("ul", { class: "causes" }, causes.slice(0, 8).map((cause, number) =>
      h("li", { class: cause.level, key: `${cause.kind}-${cause.about}-${number}` }, h("span", { class: "cause-stage" }, NAMES[cause.stage] || cause.stage), h("span", null, cause.text)))) : null);
}

function flowing(before, stage) {
  return (stage.rate || 0) > 0 && stage.state !== "stalled" && before.state !== "stalled";
}

function depthOf(stage) {
  if (stage.name === "archive") return stage.total ?? null;
  return stage.depth;
}

function depthUnit(stage) {
  if (stage.name === "frontier") return "URLs waiting";
  if (stage.name === "fetch") return "in progress";
  if (stage.name === "archive") return "pages kept";
  if (stage.name === "parse") return "pages waiting";
  return "pages unwritten";
}

function lagName(stage) {
  return stage.name === "fetch" ? "median" : stage.name === "archive" ? "traffic" : stage.name === "frontier" ? "time left" : "lag";
}

function lagText(stage) {
  if (stage.name === "fetch" || stage.name === "archive") return h("b", null, stage.detail || "–");
  if (stage.lag_s === null) return h("b", null, stage.depth ? "unknown" : "–");
  return h("b", { title: stage.detail || null }, stage.depth ? format.duration(stage.lag_s) : "none");
}
