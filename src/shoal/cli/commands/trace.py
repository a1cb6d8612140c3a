"""`shoal trace`: the history of one URL."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import Config, Crawl, Json, Store, examples
from shoal.cli.views.format import duration, plural, quote_value, size, utc_time
from shoal.model.errors import Misconfigured

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
    """Show the history of one URL; in a fleet, its state.

    Where it was found, every attempt, where its page is archived, its items and links. A fleet keeps none of
    that for requests that have ended. Safe while a crawl runs.
    """
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.output import print_json, print_lines, separated
    from shoal.services.inspect.trace import trace, trace_json
    from shoal.services.store_address import public_address

    address = chosen_store(store, config=config)
    found = run(trace(address, crawl, url))
    if not found:
        where = f"crawl {crawl}" if crawl else public_address(address)
        raise Misconfigured(
            f"{url} was never accepted in {where}: no crawled page links to it,"
            " or --follow, --depth or --same-host exclude it"
        )
    if json:
        print_json({"store": public_address(address), "traces": [trace_json(one) for one in found]})
    else:
        print_lines(separated(trace_lines(one, time.time()) for one in found))


def trace_lines(trace: "Trace", now: float) -> Iterator[str]:
    """Yield the events of a URL in order, then its current state."""
    story = trace.story
    yield f"{trace.url or story.trace}   in crawl {story.crawl}, trace {story.trace}"
    if (origin := trace.found_on) is not None:
        yield f"  found on  {origin.url or f'{origin.fingerprint:016x} (URL no longer known)'}"
        if origin.at is not None:
            yield f"  accepted  {utc_time(origin.at)}"
    elif trace.url and (story.page or story.request or story.found_on is not None):
        yield "  found on  none: a start URL"
    for number, tried in enumerate(trace.tries, 1):
        yield f"  try {number:<5} {utc_time(tried.started_at)}  {_attempt(tried)}"
    if (page := story.page) is not None:
        yield (
            f"  archived  {page.ref.segment} at {page.ref.offset}, {plural(page.ref.length, 'byte')}"
            f" for {size(page.wire_bytes)} of body"
        )
        if trace.version is not None:
            used_since = utc_time(trace.version.since)
            yield f"  parsed    by version {trace.version.digest}, in use since {used_since}"
        if story.state == "done":
            yield f"  yielded   {plural(page.items, 'item')}, {plural(page.links, 'link')}"
    for again in trace.again:
        some = "" if again.limit is None else f" (if among the first {plural(again.limit, 'page')})"
        when, output = utc_time(again.at), quote_value(again.out)
        yield f"  reparsed  {when}  by version {again.digest} into {output}{some}"
    if trace.forgotten:
        yield "  now       ended: done, gone or filtered; a fleet keeps no record of ended requests"
        yield "            (the page of a done request is in the archive)"
        return
    yield f"  now       {_state(story, now)}"
    if trace.host is not None and story.state in ("waiting", "delayed", "leased"):
        yield f"  host      {host_line(trace.host, now)}"


def _attempt(tried: "Try") -> str:
    if not tried.kind:
        return f"{tried.status} in {duration(tried.elapsed)}"
    status = f" {tried.status}" if tried.status else ""
    reason = f"; {quote_value(tried.reason)}" if tried.reason else ""
    return f"{tried.kind}{status} after {duration(tried.elapsed)}{reason}"


def _state(story: "RequestHistory", now: float) -> str:
    match story.state:
        case "delayed" if story.due is not None:
            return f"delayed: retried in {duration(max(story.due - now, 0.0))}, at {utc_time(story.due)}"
        case "leased" | "parsing":
            since = "" if story.leased_at is None else f", since {utc_time(story.leased_at)}"
            return f"{story.state} by {story.holder}{since}"
        case "waiting":
            return "waiting for its host"
    reason = ": ".join(
        text for text in (story.rule, quote_value(story.reason) if story.reason else "") if text
    )
    status = f" {story.status}" if story.state == "gone" else ""
    when = f", {utc_time(story.ended_at)}" if story.ended_at is not None else ""
    return f"{story.state}{status}{f' ({reason})' if reason else ''}{when}"


def host_line(host: "HostView", now: float) -> str:
    """Return the pace of a host and what limits it."""
    pace = f"one request every {duration(host.interval)}" if host.interval > 0 else "no rate limit"
    if host.paused:
        pace = "paused: shoal host resume ends it"
    elif host.rest_until > now:
        pace += f", resting until {utc_time(host.rest_until)}"
    elif host.slow > 1.0:
        pace += f", slowed down {host.slow:.1f} times"
    return f"{host.host}: {plural(host.waiting, 'request')} waiting, {pace}"
