"""Testing a spider on pages at hand, in the test's own process: no network, no children, no store.

    from shoal.testing import page_from, run

    def test_a_book_becomes_one_item():
        items, requests = run(spider, page_from(Path("pages/book.html"), url="https://shop.example/book/1"))
        assert items == [{"title": "A Light in the Attic"}]

Handlers run as they do in a crawl: items are what would be written, after JSON, and requests are those that
would be offered to the crawl. Whether the crawl takes them (its hosts, `follow`, `depth`) is not asked here.
"""

from mimetypes import guess_type
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from shoal.model.failure import FailureClass
from shoal.model.page import GivenUp, ParseTask
from shoal.model.request import Request, unpack
from shoal.model.scope import Scope
from shoal.model.url import canonical, fingerprint_of
from shoal.spider.failed import FailedRequest
from shoal.spider.page import Page
from shoal.spider.run import run as _run
from shoal.spider.spider import Spider

__all__ = ["HandlerFailed", "Yielded", "failed", "page_from", "run"]


class HandlerFailed(AssertionError):
    """A handler raised or yielded what cannot be written: in a crawl, a dead letter or a rejected item."""


class Yielded(NamedTuple):
    """What a page yielded."""

    items: list[dict[str, Any]]
    requests: list[Request]


def page_from(
    source: str | bytes | Path,
    *,
    url: str = "https://page.example/",
    status: int = 200,
    content_type: str = "",
    route: str = "",
    data: dict[str, Any] | None = None,
    depth: int = 0,
) -> Page:
    """Make a page of a file (a `Path`) or of its content.

    Without a `content_type`, a file has that of its ending, and everything else is HTML. `route`, `data` and
    `depth` are what the request for it carried.
    """
    body = source.read_bytes() if isinstance(source, Path) else source
    kind = content_type or (guess_type(source)[0] if isinstance(source, Path) else None) or "text/html"
    if isinstance(body, str):
        body, kind = body.encode(), kind if content_type else f"{kind}; charset=utf-8"
    address = canonical(url)
    request = Request(url=address, route=route, data=data or {}, depth=depth)
    return Page(ParseTask(0, 0, request, address, status, (("content-type", kind),), body, 0.0))


def failed(
    kind: str,
    *,
    url: str = "https://page.example/",
    status: int = 0,
    reason: str = "because",
    attempts: int = 1,
    data: dict[str, Any] | None = None,
) -> FailedRequest:
    """Make a request that was given up, or is gone, for an `on_error` hook."""
    request = Request(url=canonical(url), data=data or {})
    return FailedRequest(request, FailureClass(kind), reason, status, attempts)


def run(spider: Spider, subject: Page | FailedRequest) -> Yielded:
    """Run a spider's handler on a page, or its hook on a failed request.

    Raises `HandlerFailed` if a crawl could not use all of what it yields.
    """
    # A new scope for each call: with the same one, links that were returned before are left out.
    result = _run(spider, _task(subject), scope=Scope())
    if result.fault is not None:
        raise HandlerFailed(f"{subject.url}: {result.fault.reason}\n{result.fault.detail}".rstrip())
    for rejected in result.rejected:
        raise HandlerFailed(f"{subject.url}: rejected item: {msgspec.json.decode(rejected.json)['reason']}")
    return Yielded(
        [msgspec.json.decode(item.json) for item in result.items],
        [unpack(link.packed) for link in result.links],
    )


def _task(subject: Page | FailedRequest) -> ParseTask:
    request = subject.request
    fingerprint = fingerprint_of(request.method, request.url, request.body)
    if isinstance(subject, FailedRequest):
        end = GivenUp(subject.kind, subject.reason, subject.attempts)
        return ParseTask(1, fingerprint, request, request.url, subject.status, (), b"", 0.0, end)
    headers = tuple((name, value) for name in subject.headers for value in subject.headers.getall(name))
    return ParseTask(
        1, fingerprint, request, subject.url, subject.status, headers, subject.body, subject.fetched_at
    )
