// A page as it was archived: its text in a frame that can do nothing, its source, its headers.

import * as api from "../api.js";
import { fixed, h, render } from "../dom.js";
import * as format from "../format.js";
import { card, empty, facts, failure, link, loading, segmented } from "../parts.js";

// The only markup that is ever set from a text: in a frame without scripts and without an origin.
const policy = window.trustedTypes ? window.trustedTypes.createPolicy("archived-page", { createHTML: (text) => text }) : { createHTML: (text) => text };

export function archivedPage({ main, query }) {
  const place = { crawl: query.get("crawl") || "", segment: query.get("segment") || "", offset: query.get("offset") || "", length: query.get("length") || "" };
  let page = null;
  let problem = null;
  let view = "page";
  let frame = null;

  async function load() {
    if (!place.crawl || !place.segment) return draw();
    try { page = await api.get("/api/v1/live/page", place); problem = null; if (!page.inert) view = "source"; } catch (error) { problem = error; }
    return draw();
  }

  function inert() {
    if (!frame) {
      frame = document.createElement("iframe");
      frame.setAttribute("sandbox", "");
      frame.setAttribute("title", "The archived page, without scripts, styles and images");
      frame.setAttribute("referrerpolicy", "no-referrer");
      frame.className = "archived";
      frame.srcdoc = policy.createHTML(page.inert);
      fixed(frame);
      frame._key = "frame";
    }
    return frame;
  }

  function draw() {
    if (!place.segment) return render(main, empty("No page is named", "Open one from the story of a URL or from a dead letter."));
    if (problem) return render(main, failure(problem, load));
    if (!page) return render(main, loading("Reading the archive"));
    const download = `/api/v1/live/page/body?${new URLSearchParams(place)}`;
    return render(main,
      card(null, { key: "about" }, h("h2", { class: "url pad-top" }, page.url), facts([
        ["crawl", link(`/ui/crawls/${encodeURIComponent(page.crawl)}`, page.crawl)], ["status", page.status], ["fetched", format.full(page.fetched_at)], ["type", page.content_type], ["size", format.bytes(page.body_bytes)],
        ["archived in", h("span", { class: "mono" }, `${place.segment} at ${format.count(Number(place.offset))}`)]])),
      card("Page", { key: "view", actions: [segmented("View", [...(page.inert ? [["page", "Text"]] : []), ["source", "Source"], ["headers", "Headers"]], view, (value) => { view = value; draw(); }), h("a", { class: "button", href: download, download: "" }, "Download")] },
        view === "page" ? h("p", { class: "soft pad" }, "Text and structure only: scripts, styles, images and forms are left out.") : null,
        view === "page" ? inert() : view === "source" ? h("pre", { class: "source", tabindex: "0" }, page.text, page.cut ? "\n… cut: download the whole page" : "") : h("div", { class: "pad" }, facts(page.headers.map(([name, value]) => [name, h("span", { class: "mono" }, value)])))));
  }

  load();
  return {};
}
