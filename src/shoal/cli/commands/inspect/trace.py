"""`shoal trace`: the history of one URL."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import Config, Crawl, Json, Store, examples
from shoal.cli.views.exits import refusal_text
from shoal.cli.views.format import duration, plural, quote_value, size, utc_time
from shoal.cli.views.levels import level_text
from shoal.model.errors import Misconfigured

if TYPE_CHECKING:
    from shoal.model.page import Rendered
    from shoal.services.inspect.trace import HostView, RequestHistory, Trace, Try

EXAMPLES = examples(
    ("Why is this page not in my data?", "shoal trace https://shop.example/item/7"),
    ("By the trace id of a log line", "shoal trace 1f0c2b3a4d5e6f70 --crawl shop"),
)


MAX_KEYS = 10  # of items, shown


def command(
    url: Annotated[
        str, typer.Argument(metavar="URL|TRACE", help="A URL, or its trace id.", show_default=False)
    ],
    store: Store = None,
    crawl: Crawl = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Show the history of one URL, in a folder or in a fleet.

    Where it was found, every attempt with its worker and timing, where its page is archived, which version of
    the spider parsed it, its items and links, and where the items went. Safe while a crawl runs.
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
    method = "" if trace.method == "GET" else f"{trace.method} "
    yield f"{method}{trace.url or story.trace}   in crawl {story.crawl}, trace {story.trace}"
    if (origin := trace.found_on) is not None:
        yield f"  found on  {origin.url or f'{origin.fingerprint:016x} (URL no longer known)'}"
        if origin.at is not None:
            yield f"  accepted  {utc_time(origin.at)}"
    elif trace.chain:
        yield f"  found on  none: the start URL {trace.chain[0]} redirected here"
    elif trace.url and (story.page or story.request or story.found_on is not None):
        yield "  found on  none: a start URL"
    if trace.chain:
        yield f"  from      {trace.chain[-1]}   (redirected here)"
    for number, tried in enumerate(trace.tries, 1):
        if tried.missing:
            missing = plural(tried.missing, "attempt")
            yield f"  try ?     {missing} not logged: its worker died, or logs elsewhere"
        yield f"  try {number:<5} {utc_time(tried.started_at)}  {_attempt(tried)}"
        if details := _details(tried):
            yield f"            {details}"
    if trace.rendered is not None:
        yield f"  rendered  {describe_rendered(trace.rendered)}"
    if trace.leads_to:
        yield f"  leads to  {trace.leads_to}"
    if (page := story.page) is not None:
        yield (
            f"  archived  {page.ref.segment} at {page.ref.offset}, {plural(page.ref.length, 'byte')}"
            f" for {size(page.wire_bytes)} of body"
        )
        if trace.version is not None:
            yield f"  parsed    {_parsed(trace)}"
        if story.state == "done":
            yield f"  yielded   {plural(page.items, 'item')}, {plural(page.links, 'link')}"
            yield from _items(trace)
    for again in trace.again:
        some = "" if again.limit is None else f" (if among the first {plural(again.limit, 'page')})"
        when, output = utc_time(again.at), quote_value(again.out)
        yield f"  reparsed  {when}  by version {again.digest} into {output}{some}"
    if trace.forgotten:
        yield "  now       ended: done, gone or filtered; a fleet's store keeps no more of it"
        yield f"            {trace.log_problem or 'and no attempt of it is logged'}"
        return
    if trace.log_problem:
        yield f"  log       {trace.log_problem}"
    yield f"  now       {_state(story, now)}"
    if trace.level_set:
        yield f"  level     {trace.level_set}, set by hand"
    elif trace.level is not None and trace.level.has_changed:
        yield f"  level     {level_text(trace.level, now)}"
    if trace.host is not None and story.state in ("waiting", "delayed", "leased"):
        yield f"  host      {host_line(trace.host, now)}"
    if trace.host_exits is not None:
        yield f"  exits     its host {refusal_text(trace.host_exits, now)}"


def describe_rendered(rendered: "Rendered") -> str:
    """Return what a browser made of a page, in one line."""
    parts = [f"by {rendered.browser}"]
    parts += [f"screenshot of {size(len(rendered.screenshot))}"] if rendered.screenshot else []
    parts += [f"PDF of {size(len(rendered.pdf))}"] if rendered.pdf else []
    parts += [plural(len(rendered.console), "console error")] if rendered.console else []
    parts += [f"cut short by: {', '.join(rendered.partial)}"] if rendered.partial else []
    return ", ".join(parts)


def _attempt(tried: "Try") -> str:
    if not tried.kind:
        return f"{tried.status} in {duration(tried.elapsed)}"
    if not tried.sent:
        return f"{tried.kind}, not sent{f'; {quote_value(tried.reason)}' if tried.reason else ''}"
    status = f" {tried.status}" if tried.status else ""
    reason = f"; {quote_value(tried.reason)}" if tried.reason else ""
    return f"{tried.kind}{status} after {duration(tried.elapsed)}{reason}"


def _details(tried: "Try") -> str:
    """Return who made an attempt and what took its time; empty: it is not logged."""
    from shoal.services.inspect.trace import PHASES

    if not tried.worker:
        return ""
    phases = zip(PHASES, tried.phases, strict=True)
    took = ", ".join(
        f"{name.replace('_', ' ')} {duration(spent)}" for name, spent in phases if spent >= 0.0005
    )
    received = f"; {size(tried.wire_bytes)}" if tried.wire_bytes else ""
    via = f" through {tried.exit}" if tried.exit else ""
    level = f" at level {tried.level}" if tried.level not in ("", "plain") else ""
    return f"by {tried.worker}{via}{level}{f': {took}' if took else ''}{received}"


def _parsed(trace: "Trace") -> str:
    assert trace.version is not None
    since = f", in use since {utc_time(trace.version.since)}" if trace.version.since else ""
    by = f" at {trace.parse.worker}" if trace.parse is not None else ""
    return f"by version {trace.version.digest}{by}{since}"


def _items(trace: "Trace") -> Iterator[str]:
    """Yield the keys of the items, and where the items went."""
    if trace.parse is not None and trace.parse.keys:
        keys = [quote_value(key) for key in trace.parse.keys[:MAX_KEYS]]
        more = trace.parse.items - len(keys)
        yield f"  keys      {', '.join(keys)}{f' and {more:,} more' if more > 0 else ''}"
    if trace.outputs:
        behind = (
            f"; {plural(trace.unwritten, 'page')} of the crawl not written yet" if trace.unwritten else ""
        )
        yield f"  output    {', '.join(map(quote_value, trace.outputs))}{behind}"


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
    if (spike := host.spike) is not None:
        pace += f", {spike.count} of its last {spike.responses} responses {spike.kind}"
    return f"{host.host}: {plural(host.waiting, 'request')} waiting, {pace}"
