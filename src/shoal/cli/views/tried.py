"""What a spider made of one page, as text."""

import json
from collections.abc import Iterator, Mapping, Sequence

from shoal.cli.views.format import by_reason, plural, size
from shoal.services.inspect.try_page import TriedPage

MAX_LISTED = 20  # items, requests and skipped links each; --json has all of them


def tried_lines(tried: TriedPage) -> Iterator[str]:
    """Yield the page, the handler, what it yielded, what matched nothing, and the time by phase."""
    for url in tried.redirects:
        yield f"{url} redirects"
    kind = tried.content_type or "no content type"
    how = ", rendered" if tried.rendered else ""
    yield f"{tried.url}: status {tried.status}, {kind}, {size(tried.body_bytes)}{how}"
    if tried.empty_without_javascript:
        yield f"empty without JavaScript: {tried.empty_without_javascript}; --render fills it in a browser"
    yield f"handler: {tried.handler or 'not run'} (spider {tried.spider})"
    if tried.problem:
        yield f"problem: {tried.problem}"
    for line in tried.traceback.splitlines():
        yield f"    {line}"
    yield from _listed("item", [_fields(item) for item in tried.items])
    yield from _listed("rejected item", [_fields(item) for item in tried.rejected])
    if tried.dropped_items:
        yield f"dropped by item hooks: {by_reason(tried.dropped_items)}"
    yield from _listed("request", [_request(tried, at) for at in range(len(tried.requests))])
    yield from _listed("skipped link", [f"{rule:<9} {url}" for url, rule in tried.skipped])
    if tried.unmatched:
        yield f"{plural(len(tried.unmatched), 'selector')} that matched nothing:"
        yield from (f"    {query}" for query in tried.unmatched)
    spent = ", ".join(f"{phase} {seconds * 1000:,.0f} ms" for phase, seconds in tried.seconds.items())
    yield f"time: {spent}"


def _listed(noun: str, lines: Sequence[str]) -> Iterator[str]:
    if noun in ("item", "request") or lines:
        yield f"{plural(len(lines), noun)}{':' if lines else ''}"
    yield from (f"    {line}" for line in lines[:MAX_LISTED])
    if len(lines) > MAX_LISTED:
        yield f"    and {len(lines) - MAX_LISTED:,} more; --json has all of them"


def _fields(item: Mapping[str, object]) -> str:
    return json.dumps(item, ensure_ascii=False)


def _request(tried: TriedPage, at: int) -> str:
    request = tried.requests[at]
    method = "" if request.method == "GET" else f"{request.method} "
    route = f"  handler {request.route}" if request.route else ""
    return f"{method}{request.url}{route}"
