"""`shoal trace`: everything that has happened to one URL."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import Config, Crawl, Json, Store, examples
from shoal.cli.process.log_format import shown
from shoal.cli.views.dead_letters import instant
from shoal.cli.views.format import counted, duration, size
from shoal.model.errors import Misconfigured
from shoal.stores.address import shown_store

if TYPE_CHECKING:
    from shoal.services.inspect.trace import HostView, RequestHistory, Trace, Try

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

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.output import put, put_json
    from shoal.services.inspect.trace import trace

    address = chosen_store(store, config=config)
    found = run(trace(address, crawl, url))
    if not found:
        where = f"crawl {crawl}" if crawl else shown_store(address)
        raise Misconfigured(
            f"{url} was never accepted in {where}: no page that was crawled links to it,"
            " or --follow, --depth or --same-host keep it out"
        )
    if json:
        put_json({"store": shown_store(address), "traces": [trace_json(one) for one in found]})
    else:
        put("\n\n".join("\n".join(trace_lines(one, time.time())) for one in found))


def trace_json(trace: "Trace") -> dict[str, object]:
    story, page, origin = trace.story, trace.story.page, trace.found_on
    return {
        "crawl": story.crawl,
        "url": trace.url,
        "trace": story.trace,
        "state": trace.state,
        "found_on": None if origin is None else {"url": origin.url, "trace": f"{origin.fingerprint:016x}"},
        "accepted_at": None if origin is None else origin.at,
        "attempts": [
            {
                "started_at": tried.started_at,
                "elapsed_s": tried.elapsed,
                "status": tried.status,
                "class": tried.kind or None,
                "reason": tried.reason,
            }
            for tried in trace.tries
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
        "parsed_by": None
        if trace.version is None
        else {"version": trace.version.digest, "since": trace.version.since},
        "parsed_again": [
            {"version": again.digest, "at": again.at, "out": again.out, "limit": again.limit}
            for again in trace.again
        ],
        "due": story.due,
        "holder": story.holder,
        "leased_at": story.leased_at,
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
    for number, tried in enumerate(trace.tries, 1):
        yield f"  try {number:<5} {instant(tried.started_at)}  {_told(tried)}"
    if (page := story.page) is not None:
        yield (
            f"  archived  {page.ref.segment} at {page.ref.offset}, {counted(page.ref.length, 'byte')}"
            f" for {size(page.wire_bytes)} of body"
        )
        if trace.version is not None:
            used_since = instant(trace.version.since)
            yield f"  parsed    by version {trace.version.digest}, in use since {used_since}"
        if story.state == "done":
            yield f"  brought   {counted(page.items, 'item')}, {counted(page.links, 'link')}"
    for again in trace.again:
        some = "" if again.limit is None else f" (if among the first {counted(again.limit, 'page')})"
        yield f"  reparsed  {instant(again.at)}  by version {again.digest} into {shown(again.out)}{some}"
    if trace.forgotten:
        yield "  now       ended: done, gone or filtered; a fleet keeps no record of what has ended"
        yield "            (a page that is done is in the archive)"
        return
    yield f"  now       {_standing(story, now)}"
    if trace.host is not None and story.state in ("waiting", "delayed", "leased"):
        yield f"  host      {host_line(trace.host, now)}"


def _told(tried: "Try") -> str:
    if not tried.kind:
        return f"{tried.status} in {duration(tried.elapsed)}"
    status = f" {tried.status}" if tried.status else ""
    reason = f"; {shown(tried.reason)}" if tried.reason else ""
    return f"{tried.kind}{status} after {duration(tried.elapsed)}{reason}"


def _standing(story: "RequestHistory", now: float) -> str:
    match story.state:
        case "delayed" if story.due is not None:
            return f"delayed: tried again in {duration(max(story.due - now, 0.0))}, at {instant(story.due)}"
        case "leased" | "parsing":
            since = "" if story.leased_at is None else f", since {instant(story.leased_at)}"
            return f"{story.state} by {story.holder}{since}"
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
