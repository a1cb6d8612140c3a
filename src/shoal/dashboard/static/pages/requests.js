// The latest requests as they end, and the whole story of one URL.

import * as api from "../api.js";
import { h, render } from "../dom.js";
import * as format from "../format.js";
import { card, crawlLink, crawlSelect, empty, facts, failure, hostLink, link, loading, pill, segmented, table, time, urlLink } from "../parts.js";

const PHASES = [["queue", "wait for the turn"], ["dns", "DNS"], ["connect", "connect"], ["tls", "TLS"], ["first_byte", "first byte"], ["body", "body"]];

export function status(one) {
  const failed = one.failure && one.outcome !== "gone" && one.outcome !== "filtered";
  if (one.failure) return h("span", { class: `status ${failed ? "bad" : "warn"}`, title: one.reason }, one.status || "", one.status ? " " : "", one.failure);
  return h("span", { class: `status ${one.status >= 400 ? "warn" : "good"}` }, one.status || one.outcome);
}

export function attemptTable(attempts, summary, { brief = false } = {}) {
  const reason = summary && summary.log_problem;
  const nothing = empty("No request yet", reason || "Requests appear here as they end.");
  return table([
    { name: "ended", cell: (one) => time(one.at) },
    { name: "URL", cell: (one) => urlLink(one.crawl, one.trace, one.url), class: "grow-cell" },
    { name: "answer", cell: status },
    { name: "took", number: true, cell: (one) => one.sent ? format.ms(one.ms) : "–" },
    ...(brief ? [] : [
      { name: "size", number: true, cell: (one) => one.sent ? format.bytes(one.bytes) : "–" },
      { name: "items", number: true, cell: (one) => format.count(one.items) },
      { name: "exit", cell: (one) => one.exit || (one.sent ? "direct" : "not sent") },
      { name: "worker", cell: (one) => h("span", { class: "mono" }, one.worker) },
      { name: "crawl", cell: (one) => crawlLink(one.crawl) }]),
  ], attempts, { key: (one) => `${one.trace}-${one.at}`, empty: nothing, label: "Requests" });
}

export function requestsPage({ main, live, query, setQuery, go }) {
  const view = { crawl: query.get("crawl") || "", failed: query.get("failed") === "1" };
  const asked = query.get("trace") || query.get("url") || "";
  let attempts = null;
  let stories = null;
  let problem = null;
  let busy = false;
  let again = null;

  async function load() {
    if (busy || asked) return;
    busy = true;
    try {
      attempts = (await api.get("/api/v1/live/attempts", { crawl: view.crawl, failed: view.failed ? "true" : "", limit: 100 })).attempts;
      problem = null;
    } catch (error) { problem = error; } finally { busy = false; }
    draw();
  }

  async function trace() {
    stories = null;
    draw();
    try {
      const found = await api.get("/api/v1/live/trace", { asked, crawl: view.crawl });
      problem = null;
      if (found.state === "pending") { again = setTimeout(trace, 400); return; } // a scan of a large store
      stories = found.stories;
    } catch (error) { problem = error; }
    draw();
  }

  function search() {
    return h("form", { class: "filters", key: "search", onsubmit: (event) => {
      event.preventDefault();
      const wanted = event.target.querySelector("input").value.trim();
      if (wanted) go(`/ui/requests?${new URLSearchParams({ url: wanted, ...(view.crawl ? { crawl: view.crawl } : {}) })}`);
    } },
      h("label", { class: "field search wide" }, h("span", null, "URL or trace id"), h("input", { type: "search", placeholder: "https://shop.example/product/1", "prop:value": query.get("url") || query.get("trace") || "" })),
      crawlSelect(live.summary, view.crawl, (crawl) => { view.crawl = crawl; setQuery({ crawl }); busy = false; if (asked) trace(); else load(); }),
      h("button", { class: "primary", type: "submit" }, "Show its story"));
  }

  function draw() {
    if (asked) {
      const body = problem ? failure(problem, trace) : !stories ? loading("Looking for it in the store and the fetch log") : !stories.length ? empty("No crawl has this URL", "It was never a seed, and no page that was parsed links to it; or a rule kept it out.", `shoal trace ${asked.length < 80 ? asked : "URL"}`) : stories.map(story);
      return render(main, search(), h("p", { class: "links", key: "back" }, link("/ui/requests", "Latest requests")), body);
    }
    return render(main, search(),
      card("Latest requests", { note: view.failed ? "the latest failures" : "as they end", actions: segmented("Which", [["", "all"], ["1", "failed"]], view.failed ? "1" : "", (value) => { view.failed = value === "1"; setQuery({ failed: value }); busy = false; load(); }) },
        problem && !attempts ? failure(problem, load) : attempts ? attemptTable(attempts, live.summary) : loading()));
  }

  if (asked) trace(); else load();
  return { update() { if (asked) return; draw(); load(); }, close() { clearTimeout(again); } };
}

// One request: found where, every attempt, archived where, parsed by what, items, outputs.
function story(one) {
  const page = one.page;
  const shown = page ? `/ui/page?${new URLSearchParams({ crawl: one.crawl, segment: page.segment, offset: page.offset, length: page.length })}` : null;
  const steps = [
    { at: one.accepted_at, title: one.found_on ? ["found on ", one.found_on.url ? urlLink(one.crawl, one.found_on.trace, one.found_on.url) : one.found_on.trace] : "a start URL" },
    ...(one.redirected_from || []).map((url) => ({ title: ["redirected from ", h("span", { class: "url" }, url)] })),
    ...one.attempts.map((tried, number) => ({ at: tried.started_at, tone: tried.class ? "bad" : "good", title: attemptTitle(tried, number), body: attemptBody(tried) })),
    one.holder && one.leased_at ? { at: one.leased_at, tone: "busy", title: ["leased by ", h("span", { class: "mono" }, one.holder)] } : null,
    one.due ? { at: one.due, tone: "warn", title: "may be tried again then" } : null,
    page ? { at: page.fetched_at, tone: "good", title: ["archived in ", h("span", { class: "mono" }, page.segment), ` at ${format.count(page.offset)}`], body: h("p", { class: "links" }, h("a", { href: shown, "data-link": "" }, "Look at the page")) } : null,
    one.redirects_to ? { title: ["redirects to ", h("span", { class: "url" }, one.redirects_to)] } : null,
    one.parsed_at ? { at: one.parsed_at.at, tone: one.parsed_at.class ? "bad" : "good", title: [`parsed by ${one.parsed_at.worker || "this machine"}: ${format.plural(one.parsed_at.items, "item")}, ${format.plural(one.parsed_at.links, "link")}, ${one.parsed_at.cpu_ms} ms`, one.parsed_by ? ` (version ${one.parsed_by.version.slice(0, 8)})` : ""], body: one.parsed_at.keys && one.parsed_at.keys.length ? h("p", { class: "keys" }, one.parsed_at.keys.slice(0, 20).map((key) => h("code", null, key))) : one.parsed_at.reason ? h("p", { class: "bad" }, one.parsed_at.reason) : null } : null,
    one.outputs && one.outputs.length ? { title: [`items go to ${one.outputs.join(", ")}`, one.unwritten_pages ? `; ${format.plural(one.unwritten_pages, "page")} of the crawl not written yet` : ""] } : null,
    one.ended_at ? { at: one.ended_at, tone: one.state === "dead" ? "bad" : one.state === "done" ? "good" : "warn", title: `ended: ${one.state}${one.class ? ` (${one.class})` : ""}${one.reason ? `: ${one.reason}` : ""}` } : null,
  ].filter(Boolean);
  return card(null, { key: one.crawl + one.trace, class: "story" },
    h("div", { class: "story-head" }, pill(one.state === "ended" ? "done" : one.state), h("h2", { class: "url" }, one.url || one.trace)),
    facts([["crawl", crawlLink(one.crawl)], ["method", one.method], ["trace id", h("span", { class: "mono" }, one.trace)], ["status", one.status || null], ["note", one.log_problem]]),
    h("ol", { class: "timeline" }, steps.map((step, number) => h("li", { class: step.tone || "", key: number }, h("time", { title: format.full(step.at) }, step.at ? format.moment(step.at) : ""), h("div", null, h("p", null, step.title), step.body || null)))));
}

function attemptTitle(tried, number) {
  return [`attempt ${tried.number || number + 1}: `, tried.class ? h("span", { class: "bad" }, `${tried.status || ""} ${tried.class}`.trim()) : h("span", { class: "good" }, tried.status || tried.outcome || "answered"),
    ` in ${format.ms(tried.elapsed_s * 1000)}`, tried.worker ? [" by ", h("span", { class: "mono" }, tried.worker)] : "", tried.exit ? ` through ${tried.exit}` : "", tried.missing_before ? ` (${format.plural(tried.missing_before, "attempt")} before it left no row)` : ""];
}

function attemptBody(tried) {
  const phases = tried.phases_s;
  const total = phases ? Object.values(phases).reduce((sum, one) => sum + one, 0) : 0;
  return [tried.reason ? h("p", { class: "bad" }, tried.reason) : null,
    total > 0 ? h("div", { class: "phases", role: "img", "aria-label": PHASES.map(([key, name]) => `${name} ${format.ms(phases[key] * 1000)}`).join(", ") },
      PHASES.filter(([key]) => phases[key] > 0).map(([key, name]) => h("span", { class: key, title: `${name} ${format.ms(phases[key] * 1000)}`, vars: { "--share": phases[key] / total } }))) : null,
    total > 0 ? h("p", { class: "soft phase-text" }, PHASES.filter(([key]) => phases[key] > 0).map(([key, name]) => `${name} ${format.ms(phases[key] * 1000)}`).join(" · ")) : null];
}
