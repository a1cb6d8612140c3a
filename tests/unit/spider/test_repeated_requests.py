"""Requests that are made again, pages of failed statuses, and where a page was found."""

import functools
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.unit.spider.pages import page, task

import shoal
from shoal.archive.request_metadata import format_metadata, parse_metadata
from shoal.engine.scope_state import ScopeState
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.failure import FailureClass
from shoal.model.limits import LinkLimits
from shoal.model.page import ParseResult
from shoal.model.request import Link, Request, pack, unpack
from shoal.model.scope import Scope
from shoal.spider.run import run
from shoal.spider.spider import Handler

URL = "https://shop.example/job"


def spider_of(handler: Handler, **given: Any) -> shoal.Spider:
    spider = shoal.Spider("s", **given)
    spider.page(handler)
    return spider


def requests(result: ParseResult) -> list[Request]:
    assert result.fault is None, result.fault
    return [unpack(packed) for packed in result.requests]


def polls(page: shoal.Page) -> Iterator[Request]:
    yield Request(page.url, again=True)


def test_a_page_may_ask_for_itself_again_and_asks_for_the_same_request_when_it_is_parsed_again() -> None:
    spider = spider_of(polls)
    first, repeated = (requests(run(spider, task(url=URL), scope=Scope()))[0] for _ in range(2))
    assert first == repeated
    assert (first.url, first.again) == (URL, 1)
    assert Link.to(first).fingerprint != Link.to(Request(URL)).fingerprint
    [second] = requests(run(spider, task(url=URL, request=first, fingerprint=0xDEF), scope=Scope()))
    assert second.again == 2
    assert Link.to(second).fingerprint != Link.to(first).fingerprint


def test_a_chain_of_requests_that_are_made_again_ends_at_the_limit() -> None:
    scope = Scope(limits=LinkLimits(again=3))
    spider, request, fingerprint = spider_of(polls), Request(URL), 1
    for _ in range(3):
        [request] = requests(
            run(spider, task(url=URL, request=request, fingerprint=fingerprint), scope=scope)
        )
        fingerprint = Link.to(request).fingerprint
    result = run(spider, task(url=URL, request=request, fingerprint=fingerprint), scope=scope)
    assert result.requests == ()
    assert result.dropped == {FailureClass.TRAP: 1}


def test_unique_texts_tell_requests_of_one_url_apart() -> None:
    def lists(page: shoal.Page) -> Iterator[Request]:
        for day in ("mon", "tue", "mon"):
            yield Request(URL, unique=day)
        yield Request(URL)

    found = requests(run(spider_of(lists), task(url="https://shop.example/"), scope=Scope()))
    assert [(one.unique, one.again) for one in found] == [("mon", 1), ("tue", 1), ("", 0)]


class NoChildren:
    def configure(self, scope: Scope) -> None: ...

    def submit(self, task: object, on_answer: object) -> None: ...

    async def watch(self) -> None: ...


@pytest.mark.parametrize(
    ("again", "unique", "reason"),
    [(0, "x", "not counted"), (1, "", "not counted"), (3, "x", "not counted"), (2, "x", "more than 1")],
)
def test_the_parent_does_not_rely_on_what_a_child_counts(again: int, unique: str, reason: str) -> None:
    state = ScopeState(Scope(limits=LinkLimits(again=1)), NoChildren())
    packed = pack(Request(URL, depth=1, found_on=5, again=again, unique=unique))
    with pytest.raises(Rejected, match=reason):
        state.links_of([packed], found_on=5, page=Request(URL, again=1, unique="y"))


def test_the_archive_keeps_what_tells_a_request_apart_and_where_it_was_found() -> None:
    request = Request(URL, unique="mon", found_on=3, found_on_url="https://shop.example/", depth=1)
    line = format_metadata(request).decode()
    assert parse_metadata(URL, line.removeprefix("Shoal-Request: ").strip()) == request


def test_a_seed_may_be_unique_too() -> None:
    spider = shoal.Spider("s", [Request(URL, again=True), Request(URL, unique="x"), URL])
    assert [(one.unique, one.again) for one in spider.start] == [("again", 1), ("x", 1), ("", 0)]


# --- statuses ------------------------------------------------------------------------------------------


def test_a_failed_page_goes_to_the_first_handler_that_names_its_status() -> None:
    spider = shoal.Spider("s")
    spider.page(r"/a", name="plain")(lambda page: {"by": "plain"})
    spider.page(r"/a", name="missing", statuses=[404, 410])(lambda page: {"by": page.status})
    spider.page(name="named", statuses=[500])(lambda page: {"by": "named"})
    spider.page()(lambda page: {"by": "fallback"})

    def by(path: str, status: int, route: str = "") -> str | None:
        chosen = spider.route_for(Request(f"https://a.example{path}", route=route), path, status)
        return None if chosen is None else chosen.name

    assert by("/a", 200) == "plain"
    assert by("/a", 404) == by("/a", 410) == "missing"
    assert by("/a", 500) is None
    assert by("/b", 404) is None
    assert by("/b", 500, "named") == "named"
    assert by("/b", 500, "unknown") is None


@pytest.mark.parametrize(
    ("status", "named", "taken"), [(404, [404], True), (404, [], False), (403, [404], False)]
)
def test_a_child_answers_whether_a_handler_takes_a_status(status: int, named: list[int], taken: bool) -> None:
    spider = shoal.Spider("s")
    spider.page(statuses=named)(lambda page: None)
    asked = msgspec.structs.replace(task(url=URL, status=status), route_only=True)
    result = run(spider, asked, scope=Scope())
    assert (not result.dropped) is taken


@pytest.mark.parametrize("status", [200, 302, 429, 503, 600, "404"])
def test_statuses_that_no_handler_can_have_are_refused(status: Any) -> None:
    with pytest.raises(Misconfigured, match="statuses"):
        shoal.Spider("s").page(statuses=[status])


# --- where a page was found ----------------------------------------------------------------------------


def test_found_on_is_the_page_of_a_link_if_the_spider_asks_for_it() -> None:
    def follows(page: shoal.Page) -> Iterator[object]:
        yield page.links()
        yield page.follow("/b")

    for asked in (True, False):
        spider = spider_of(follows, found_on=asked)
        found = requests(run(spider, task("<a href=/a>a</a>", url=URL), scope=Scope()))
        assert [one.found_on_url for one in found] == [URL if asked else ""] * 2


def helper_of_a_handler(page: shoal.Page) -> str | None:
    return page.found_on


def in_a_helper(page: shoal.Page) -> Iterator[object]:
    yield {"from": helper_of_a_handler(page)}
    yield page.links()


def in_a_nested_function(page: shoal.Page) -> Iterator[object]:
    def item() -> object:
        return {"from": page.found_on}

    yield item()
    yield page.links()


def by_name(page: shoal.Page) -> Iterator[object]:
    yield {"from": getattr(page, "found_on")}  # noqa: B009
    yield page.links()


@functools.cache
def decorated(page: shoal.Page) -> list[object]:
    return [{"from": page.found_on}, page.links()]


@pytest.mark.parametrize("handler", [in_a_helper, in_a_nested_function, by_name, decorated])
def test_found_on_is_stored_if_a_handler_mentions_it(handler: Any) -> None:
    result = run(spider_of(handler), task("<a href=/a>a</a>", url=URL), scope=Scope())
    assert result.fault is None
    assert [one.found_on_url for one in requests(result)] == [URL]


def test_found_on_that_shoal_cannot_see_is_an_error_that_says_what_to_change() -> None:
    hidden = "found_{}".format("on")
    result = run(spider_of(lambda page: {"from": getattr(page, hidden)}), task(url=URL), scope=Scope())
    assert result.fault is not None
    assert "found_on=True" in result.fault.reason
    assert page("").found_on is None


@pytest.mark.parametrize(
    ("href", "url"),
    [
        ("#top", "https://books.example/catalogue/index.html#top"),
        ("a.html#b c", "https://books.example/catalogue/a.html#b%20c"),
        ("/x?y#", "https://books.example/x?y"),
        ("https://o.example/#/route", "https://o.example/#/route"),
    ],
)
def test_urljoin_keeps_the_fragment_and_requests_do_not(href: str, url: str) -> None:
    assert page("").urljoin(href) == url
    followed = page("").follow(href)
    assert followed is not None
    assert followed.url == url.partition("#")[0]
