"""Running: one page through one spider gives everything its handler made, or a fault and nothing."""

import json
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.spider.pages import task

from shoal.model.errors import Bomb
from shoal.model.failure import FailureClass
from shoal.model.limits import LinkLimits, ParseLimits
from shoal.model.page import ParseResult
from shoal.model.request import Request, unpack
from shoal.model.scope import Scope
from shoal.model.traps.page_evidence import SAMPLE
from shoal.model.traps.simhash import SAMPLE as SIMHASH_SAMPLE
from shoal.model.url import fingerprint_of
from shoal.spider.html.links import Links
from shoal.spider.page import Page
from shoal.spider.run import OutputTooLarge, run
from shoal.spider.spider import Handler, Spider

ANYWHERE = Scope()
LINKS = "".join(f'<a href="/{n}">{n}</a>' for n in range(5))


def spider_of(handler: Handler, **route: Any) -> Spider:
    spider = Spider("s")
    spider.page(**route)(handler)
    return spider


def outcome(
    handler: Handler, body: str | bytes = LINKS, scope: Scope = ANYWHERE, **wishes: Any
) -> ParseResult:
    return run(spider_of(handler), task(body, **wishes), scope=scope)


def rows(result: ParseResult) -> list[Any]:
    assert result.fault is None, result.fault
    return [json.loads(item.json) for item in result.items]


@dataclass
class Book:
    title: str


def test_a_handler_may_yield_return_or_do_nothing() -> None:
    def yields(page: Page) -> Iterator[object]:
        yield {"n": 1}
        yield None
        yield Book("t")

    assert rows(outcome(yields)) == [{"n": 1}, {"title": "t"}]
    assert rows(outcome(lambda page: [{"n": 1}, {"n": 2}])) == [{"n": 1}, {"n": 2}]
    assert rows(outcome(lambda page: {"n": 1})) == [{"n": 1}]
    assert rows(outcome(lambda page: Book("t"))) == [{"title": "t"}]
    assert rows(outcome(lambda page: None)) == []
    assert len(outcome(lambda page: page.follow("/x")).requests) == 1
    assert len(outcome(lambda page: page.links()).requests) == 5


def test_links_carry_where_they_were_found_and_how_deep() -> None:
    [packed] = outcome(
        lambda page: page.follow("/x?b=1&a=2", priority=2, route="r", data={"k": 1}, pool="browser"),
        request=Request(url="https://books.example/", depth=4),
        fingerprint=99,
    ).requests
    assert unpack(packed) == Request(
        url="https://books.example/x?b=1&a=2",
        priority=2,
        route="r",
        data={"k": 1},
        pool="browser",
        depth=5,
        found_on=99,
    )


def test_links_yielded_one_by_one_or_as_a_whole_are_the_same() -> None:
    def one_by_one(page: Page) -> Iterator[object]:
        yield from page.links(priority=3)

    def as_a_whole(page: Page) -> Iterator[object]:
        yield page.links(priority=3)

    assert outcome(one_by_one).requests == outcome(as_a_whole).requests != ()


def test_a_link_that_is_twice_on_a_page_is_returned_once() -> None:
    def twice(page: Page) -> Iterator[object]:
        yield page.links()
        yield from page.links()
        yield Request(url="https://books.example/0?utm_source=x")

    result = outcome(twice)
    assert len(result.requests) == 5
    assert result.repeats == 0


def test_requests_differ_by_method_and_body() -> None:
    def posts(page: Page) -> Iterator[object]:
        for body in (b"a", b"b", b"a"):
            yield page.follow("/search", method="post", body=body)
        yield page.follow("/search")

    links = outcome(posts).requests
    assert [(r.method, r.body) for r in map(unpack, links)] == [
        ("POST", b"a"),
        ("POST", b"b"),
        ("GET", b""),
    ]


def test_links_out_of_scope_are_counted_by_rule() -> None:
    def everywhere(page: Page) -> Iterator[object]:
        yield page.links()
        yield Request(url="https://other.example/")
        yield Request(url="mailto:a@b.example")
        yield page.follow("/a/a/a/a")

    scope = Scope(hosts=frozenset({"books.example"}), limits=LinkLimits(per_page=3))
    result = outcome(everywhere, scope=scope)
    assert len(result.requests) == 3
    assert result.dropped == {"trap": 3, "scope": 2}
    assert outcome(everywhere, scope=Scope(depth=0)).dropped == {"depth": 7, "scope": 1}


def test_a_link_that_was_returned_is_not_returned_again() -> None:
    spider = spider_of(lambda page: page.links())
    first = run(spider, task(LINKS), scope=ANYWHERE)
    again = run(spider, task(LINKS + '<a href="/new">', url="https://books.example/b/"), scope=ANYWHERE)
    assert (len(first.requests), first.repeats) == (5, 0)
    assert (len(again.requests), again.repeats) == (1, 5)


def test_links_of_a_page_that_failed_do_not_count_as_seen() -> None:
    def fails_once(page: Page) -> Iterator[object]:
        yield from page.links()
        if page.status == 500:
            raise ValueError

    spider = spider_of(fails_once)
    assert run(spider, task(LINKS, status=500), scope=ANYWHERE).requests == ()
    assert len(run(spider, task(LINKS), scope=ANYWHERE).requests) == 5


def test_a_child_that_receives_its_scope_again_empties_its_seen_links() -> None:
    spider = spider_of(lambda page: page.links())
    assert len(run(spider, task(LINKS), scope=Scope()).requests) == 5
    assert len(run(spider, task(LINKS), scope=Scope()).requests) == 5


def test_one_page_in_a_few_that_leads_on_is_digested_and_every_page_of_a_watched_shape() -> None:
    text = " ".join(f"word{n}" for n in range(50))
    watching = Scope(watched_shapes=frozenset({"books.example/catalogue/*"}))

    def digested(fingerprint: int, scope: Scope = ANYWHERE, body: str = text, **wishes: Any) -> str:
        body += f'<a href="/next/{fingerprint}">'
        found = outcome(lambda page: page.links(), body, scope=scope, fingerprint=fingerprint, **wishes)
        if found.evidence is None:
            return ""
        return "digested" if found.evidence.simhash is None else f"hashed {found.evidence.simhash > 0}"

    def url(path: str) -> dict[str, str]:
        return {"url": f"https://books.example/{path}"}

    assert [number for number in range(1, 3 * SAMPLE) if digested(number)] == [SAMPLE, 2 * SAMPLE]
    assert digested(SAMPLE) == "digested"
    assert digested(SIMHASH_SAMPLE) == "hashed True"
    assert digested(SIMHASH_SAMPLE, body="too short") == "hashed False"
    assert digested(1, watching, **url("catalogue/7.html")) == "hashed True"
    assert not digested(1, watching, **url("about/7.html"))
    assert not digested(SAMPLE, Scope(limits=LinkLimits(nothing_new=0)))
    assert outcome(lambda page: page.links(), text, fingerprint=SAMPLE).evidence is None, "it leads nowhere"


def test_links_in_a_row_between_urls_that_differ_in_numbers_only_are_counted() -> None:
    body = '<a href="/page/8"></a><a href="/page/x8"></a><a href="/other/8"></a>'
    found = run(
        spider_of(lambda page: page.links()),
        task(body, url=(url := "https://books.example/page/7"), request=Request(url=url, series=4)),
        scope=ANYWHERE,
    )
    series = {unpack(packed).url.partition("example")[2]: unpack(packed).series for packed in found.requests}
    assert series == {"/page/8": 5, "/page/x8": 0, "/other/8": 0}


def test_nofollow_is_the_scopes_decision() -> None:
    body = '<a rel=nofollow href="/x">'
    assert len(outcome(lambda page: page.links(), body).requests) == 0
    assert len(outcome(lambda page: page.links(), body, scope=Scope(obey_nofollow=False)).requests) == 1


def test_items_without_key_fields_are_keyed_by_page_and_ordinal() -> None:
    result = outcome(lambda page: [{"same": 1}, {"same": 1}], fingerprint=0xAB)
    page = fingerprint_of(
        "GET", "https://books.example/catalogue/index.html"
    )  # unkeyed: the same in every crawl
    assert [item.key for item in result.items] == [f"{page:016x}-0", f"{page:016x}-1"]


def test_items_with_key_fields_are_keyed_by_them() -> None:
    spider = spider_of(lambda page: {"sku": "B-7", "price": 1}, key="sku")
    assert [item.key for item in run(spider, task(""), scope=ANYWHERE).items] == ["B-7"]


def raising(page: Page) -> Iterator[object]:
    yield {"n": 1}
    yield page.follow("/x")
    raise KeyError("price")


def test_a_page_whose_handler_raises_has_a_fault_and_nothing_else() -> None:
    result = outcome(raising)
    assert (result.id, result.items, result.requests) == (7, (), ())
    assert result.fault is not None
    assert result.fault.reason.startswith("KeyError: 'price' (test_run.py:")
    assert 'raise KeyError("price")' in result.fault.detail
    assert "shoal/spider" not in result.fault.detail


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def throw(error: Exception) -> Handler:
    def handler(page: Page) -> object:
        raise error

    return handler


@pytest.mark.parametrize(
    ("handler", "complaint"),
    [
        (lambda page: [{"a": 1}, {"price": float("nan")}], "item 2: field price: nan"),
        (lambda page: [7], "item 1: a handler yields items and requests, not a int"),
        (lambda page: ["text"], "item 1: a handler yields items and requests, not a str"),
        (lambda page: "text", "handler <lambda>: it must yield items and requests, but returned a str"),
        (lambda page: 7, "but returned a int"),
        (lambda page: Request(url="relative/x"), "not a valid URL: 'relative/x'"),
        (
            lambda page: Request(url="https://a.example/", data={"f": print}),
            "request for https://a.example/: it cannot",
        ),
        (lambda page: page.css("p[["), "ValueError: not a CSS selector: 'p[['"),
        (lambda page: page.xpath("//["), "ValueError: not an XPath: '//['"),
        (lambda page: {"n": page.css("h1").get().strip()}, "AttributeError: 'NoneType'"),
        (throw(Unspeakable()), "Unspeakable: (its text cannot be shown)"),
        (throw(ValueError("a\nb \ud800")), "ValueError: a b ?"),
        (throw(RecursionError("deep")), "RecursionError: deep"),
    ],
)
def test_faults_say_what_is_wrong_on_one_line(handler: Handler, complaint: str) -> None:
    fault = outcome(handler).fault
    assert fault is not None
    assert complaint in fault.reason
    assert "\n" not in fault.reason
    assert msgspec.msgpack.encode(fault)


def test_a_bomb_is_a_fault_of_class_bomb_and_not_of_the_spider() -> None:
    mistake, bomb = outcome(throw(ValueError("x"))).fault, outcome(throw(Bomb("x"))).fault
    assert mistake is not None
    assert bomb is not None
    assert (mistake.failure_class, bomb.failure_class) == (FailureClass.PARSE_ERROR, FailureClass.BOMB)


def test_an_async_handler_is_refused() -> None:
    async def handler(page: Page) -> None: ...

    made = handler(Page(task("")))
    made.close()
    fault = outcome(lambda page: made).fault
    assert fault is not None
    assert "but returned a coroutine" in fault.reason


def test_a_request_for_a_handler_that_is_not_there_is_a_fault() -> None:
    fault = outcome(lambda page: None, request=Request(url="https://a.example/", route="nope")).fault
    assert fault is not None
    assert "no handler is called 'nope'" in fault.reason


@pytest.mark.parametrize(
    ("limits", "complaint"),
    [
        (ParseLimits(items=50), "more than 50 items"),
        (ParseLimits(output_bytes=10_000), "more than 10000 bytes"),
    ],
)
def test_too_much_output_raises_and_is_not_a_fault(limits: ParseLimits, complaint: str) -> None:
    def endless(page: Page) -> Iterator[object]:
        while True:
            yield {"x": "y" * 1000}

    with pytest.raises(OutputTooLarge, match=complaint):
        run(spider_of(endless), task(""), scope=ANYWHERE, limits=limits)


@pytest.mark.parametrize("end", [MemoryError, SystemExit, KeyboardInterrupt])
def test_an_exception_that_ends_the_process_is_not_a_fault(end: type[BaseException]) -> None:
    def ends(page: Page) -> object:
        raise end

    with pytest.raises(end):
        outcome(ends)


def test_binary_responses_go_only_to_handlers_with_binary() -> None:
    def handler(page: Page) -> object:
        return {"bytes": len(page.body)}

    pdf = task(b"%PDF-1.7", content_type="text/html")
    assert run(spider_of(handler), pdf, scope=ANYWHERE).items == ()
    assert rows(run(spider_of(handler, binary=True), pdf, scope=ANYWHERE)) == [{"bytes": 8}]


def test_a_page_that_no_handler_matches_yields_nothing() -> None:
    spider = Spider("s")
    spider.page(r"/elsewhere")(lambda page: {"n": 1})
    result = run(spider, task(""), scope=ANYWHERE)
    assert (result.items, result.requests, result.fault) == ((), (), None)


def test_deep_markup_does_not_exhaust_the_stack() -> None:
    def handler(page: Page) -> Iterator[object]:
        yield {
            "css": len(page.css("div::text").getall()),
            "xpath": page.css("div")[0].xpath("count(.//div)").get(),
        }
        yield page.links()

    body = "<div>" * 5_000 + "x<a href=/y>" + "</div>" * 5_000
    result = outcome(handler, body)
    assert rows(result) == [{"css": 1, "xpath": "4999.0"}]
    assert len(result.requests) == 1


@given(
    st.binary(max_size=300),
    st.sampled_from(["text/html", "text/html; charset=utf-7", "", "text/xml", "application/json"]),
)
def test_decoding_never_raises(body: bytes, content_type: str) -> None:
    def handler(page: Page) -> Iterator[object]:
        yield {
            "text": page.text,
            "css": page.css("* ::text").getall(),
            "title": page.css("title::text").get(),
            "attributes": [one.attrib for one in page.css("*")],
            "below": page.css("body *").css("a::attr(href)").getall(),
        }
        yield page.links()

    result = outcome(handler, b"<a href='" + body + b"'>" + body, content_type=content_type)
    assert result.fault is None, "".join(traceback.format_list([])) + str(result.fault)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(result), type=ParseResult) == result


def test_links_are_not_searched_for_if_none_can_be_admitted() -> None:
    def refuse() -> list[str]:
        raise AssertionError("not called")

    shut = Scope(hosts=frozenset())
    result = outcome(lambda page: [Links(refuse), page.links(), {"n": 1}], scope=shut)
    assert rows(result) == [{"n": 1}]
    assert (result.requests, result.dropped) == ((), {})


@pytest.mark.parametrize("wishes", [{"selector": "a["}, {"follow": "("}])
def test_an_invalid_selector_of_links_is_a_fault_even_if_no_link_is_admitted(wishes: dict[str, Any]) -> None:
    result = outcome(lambda page: page.links(**wishes), scope=Scope(hosts=frozenset()))
    assert result.fault is not None
