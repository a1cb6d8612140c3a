"""Test a spider on saved pages, inside the test's own process: no network, no child processes, no store.

    from shoal.testing import page_from, run

    def test_a_book_becomes_one_item():
        items, requests = run(spider, page_from(Path("pages/book.html"), url="https://shop.example/book/1"))
        assert items == [{"title": "A Light in the Attic"}]

Handlers run as they do in a crawl: `items` are the items as they would be written, after JSON, and `requests`
are the requests that the crawl would consider. The crawl's own rules (`hosts`, `follow`, `depth`) are not
applied.
"""

from mimetypes import guess_type
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from shoal.model.failure import FailureClass
from shoal.model.page import FinalFailure, ParseTask
from shoal.model.request import Request, unpack
from shoal.model.scope import Scope
from shoal.model.url import canonical, fingerprint_of
from shoal.spider.failed import FailedRequest
from shoal.spider.page import Page
from shoal.spider.run import run as _run
from shoal.spider.spider import Spider

__all__ = ["HandlerFailed", "Yielded", "failed", "page_from", "run"]


class HandlerFailed(AssertionError):
    """Raised by `run` if the handler raised, or yielded an item that cannot be written or fails its model.

    In a crawl this would be a dead letter or a rejected item.
    """


class Yielded(NamedTuple):
    """The items and requests that a handler yielded for one page."""

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
    """Return a page with the content of a file (pass a `Path`) or with the given text or bytes.

    `url` and `status` are those of the response. Without a `content_type`, the type of a file follows from
    its suffix, and everything else is HTML. `route`, `data` and `depth` are those of the request.
    """
    body = source.read_bytes() if isinstance(source, Path) else source
    mime = content_type or (guess_type(source)[0] if isinstance(source, Path) else None) or "text/html"
    if isinstance(body, str):
        body, mime = body.encode(), mime if content_type else f"{mime}; charset=utf-8"
    address = canonical(url)
    request = Request(url=address, route=route, data=data or {}, depth=depth)
    return Page(ParseTask(0, 0, request, address, status, (("content-type", mime),), body, 0.0))


def failed(
    failure_class: str,
    *,
    url: str = "https://page.example/",
    status: int = 0,
    reason: str = "because",
    attempts: int = 1,
    data: dict[str, Any] | None = None,
) -> FailedRequest:
    """Return a failed request to run an `on_error` hook on, such as `failed("timeout", attempts=4)`.

    `status` is that of the last response, 0 if there was no response. `data` is that of the request.
    """
    request = Request(url=canonical(url), data=data or {})
    return FailedRequest(request, FailureClass(failure_class), reason, status, attempts)


def run(spider: Spider, subject: Page | FailedRequest) -> Yielded:
    """Run a spider's handler on a page, or its `on_error` hook on a failed request.

    The handler is chosen as in a crawl: by the request's `route`, else by the URL. Returns empty lists if the
    spider has no handler for the page. Raises `HandlerFailed` if a crawl could not use everything it yields.
    """
    # A new scope for each call: `SeenLinks` drops links that it has already seen under the same scope.
    result = _run(spider, _task(subject), scope=Scope())
    if result.fault is not None:
        raise HandlerFailed(f"{subject.url}: {result.fault.reason}\n{result.fault.detail}".rstrip())
    for rejected in result.rejected:
        raise HandlerFailed(f"{subject.url}: rejected item: {msgspec.json.decode(rejected.json)['reason']}")
    return Yielded(
        [msgspec.json.decode(item.json) for item in result.items],
        [unpack(packed) for packed in result.requests],
    )


def _task(subject: Page | FailedRequest) -> ParseTask:
    request = subject.request
    fingerprint = fingerprint_of(request.method, request.url, request.body, unique=request.unique)
    if isinstance(subject, FailedRequest):
        final = FinalFailure(subject.failure_class, subject.reason, subject.attempts)
        return ParseTask(1, fingerprint, request, request.url, subject.status, (), b"", 0.0, final)
    headers = tuple((name, value) for name in subject.headers for value in subject.headers.getall(name))
    return ParseTask(
        1, fingerprint, request, subject.url, subject.status, headers, subject.body, subject.fetched_at
    )
