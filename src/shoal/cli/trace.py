"""`shoal trace`: everything that has happened to one URL."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.figures import counted, duration, size
from shoal.cli.letters import instant
from shoal.cli.log import shown
from shoal.cli.options import Config, Crawl, Json, Store, examples
from shoal.model.errors import Misconfigured

if TYPE_CHECKING:
    from shoal.runtime.trace import HostView, Story, Trace

EXAMPLES = examples(
    ("Why is this page not in my data?", "shoal trace https://shop.example/item/7"),
    ("By the trace id of a log line", "shoal trace 1f0c2b3a4d5e6f70 --crawl shop"),
)


def command(
    url: Annotated[
        str, typer.Argument(metavar="URL|TRACE", help="A URL, or its trace id.", show_default=False)
    ],
    store: Store = None,
    crawl: Crawl = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Tell the whole story of one URL.

    Where it was found, every attempt, where its page lies, what it brought. Safe while a crawl runs.
    """
    from asyncio import run

    from shoal.cli.layers import chosen_store
    from shoal.cli.output import put, put_json
    from shoal.runtime.trace import trace

    folder = chosen_store(store, config=config)
    found = run(trace(folder, crawl, url))
    if not found:
        where = f"crawl {crawl}" if crawl else folder
        raise Misconfigured(
            f"{url} was never accepted in {where}: no page that was crawled links to it,"
            " or --follow, --depth or --same-host keep it out"
        )
    if json:
        put_json({"store": folder, "traces": [trace_json(one) for one in found]})
    else:
        put("\n\n".join("\n".join(trace_lines(one, time.time())) for one in found))


def trace_json(trace: "Trace") -> dict[str, object]:
    story, page, origin = trace.story, trace.story.page, trace.found_on
    return {
        "crawl": story.crawl,
        "url": trace.url,
        "trace": story.trace,
        "state": story.state,
        "found_on": None if origin is None else {"url": origin.url, "trace": f"{origin.fingerprint:016x}"},
        "accepted_at": None if origin is None else origin.at,
        "failed_attempts": [
            {
                "at": tried.at,
                "elapsed_s": tried.elapsed,
                "status": tried.status,
                "class": tried.kind.value,
                "reason": tried.reason,
            }
            for tried in story.tried
        ],
        "ended_at": story.ended_at,
        "status": page.status if page else story.status,
        "class": story.rule or None,
        "reason": story.reason,
        "page": None
        if page is None
        else {
            "segment": page.ref.segment,
            "offset": page.ref.offset,
            "length": page.ref.length,
            "fetched_at": page.fetched_at,
            "elapsed_s": page.elapsed,
            "bytes": page.wire_bytes,
            "items": page.items,
            "links": page.links,
        },
        "due": story.due,
        "holder": story.holder,
    }


def trace_lines(trace: "Trace", now: float) -> Iterator[str]:
    """Tell the story in the order in which it happened, and how it stands."""
    story = trace.story
    yield f"{trace.url or story.trace}   in crawl {story.crawl}, trace {story.trace}"
    if (origin := trace.found_on) is not None:
        yield f"  found on  {origin.url or f'{origin.fingerprint:016x}, which is forgotten'}"
        if origin.at is not None:
            yield f"  accepted  {instant(origin.at)}"
    elif trace.url and (story.page or story.request or story.found_on is not None):
        yield "  found on  nowhere: a start URL"
    for number, tried in enumerate(story.tried, 1):
        status = f" {tried.status}" if tried.status else ""
        yield (
            f"  try {number:<5} {instant(tried.at)}  {tried.kind.value}{status}"
            f" after {duration(tried.elapsed)}; {shown(tried.reason)}"
        )
    if (page := story.page) is not None:
        yield (
            f"  fetched   {instant(page.fetched_at)}  {page.status}"
            f" in {duration(page.elapsed)}, {size(page.wire_bytes)}"
        )
        yield f"  archived  {page.ref.segment} at {page.ref.offset}, {counted(page.ref.length, 'byte')}"
        if story.state == "done":
            yield f"  brought   {counted(page.items, 'item')}, {counted(page.links, 'link')}"
    yield f"  now       {_standing(story, now)}"
    if trace.host is not None and story.state in ("waiting", "delayed", "leased"):
        yield f"  host      {host_line(trace.host, now)}"


def _standing(story: "Story", now: float) -> str:
    match story.state:
        case "delayed" if story.due is not None:
            return f"delayed: tried again in {duration(max(story.due - now, 0.0))}, at {instant(story.due)}"
        case "leased" | "parsing":
            return f"{story.state} by {story.holder}"
        case "waiting":
            return "waiting for its host's turn"
    reason = ": ".join(text for text in (story.rule, shown(story.reason) if story.reason else "") if text)
    status = f" {story.status}" if story.state == "gone" else ""
    when = f", {instant(story.ended_at)}" if story.ended_at is not None else ""
    return f"{story.state}{status}{f' ({reason})' if reason else ''}{when}"


def host_line(host: "HostView", now: float) -> str:
    """Say what the host's pace is and what stands in the way."""
    pace = f"one request every {duration(host.interval)}" if host.interval > 0 else "no limit of pace"
    if host.paused:
        pace = "paused: shoal host resume lets it go on"
    elif host.rest_until > now:
        pace += f", resting until {instant(host.rest_until)}"
    elif host.slow > 1.0:
        pace += f", slowed down {host.slow:.1f} times"
    return f"{host.host}: {counted(host.waiting, 'request')} waiting, {pace}"
