"""Canonical addresses: where a page says which address is its own, and what a crawl makes of that."""

from collections.abc import Iterator

import pytest
from tests.unit.spider.pages import page, task

from shoal.model.page import ParseResult
from shoal.model.request import Request, unpack
from shoal.model.scope import Scope
from shoal.spider.page import Page
from shoal.spider.run import run
from shoal.spider.spider import Spider

URL = "https://books.example/catalogue/index.html"
HERE = frozenset({"books.example"})


@pytest.mark.parametrize(
    ("markup", "link", "canonical"),
    [
        ("", "", None),
        ('<link rel=canonical href="/c">', "", "https://books.example/c"),
        ('<link rel="shortlink CANONICAL" href="c">', "", "https://books.example/catalogue/c"),
        ('<base href="/x/"><link rel=canonical href="c">', "", "https://books.example/x/c"),
        ("<link rel=canonical href=javascript:1><link rel=canonical href=/2>", "", "https://books.example/2"),
        ("<link rel=alternate href=/de>", "</>; rel=preload", None),
        ("", "</c>; rel=canonical", "https://books.example/c"),
        ("<base href=/x/>", '<c>; rel="canonical"', "https://books.example/catalogue/c"),
        ("", '</a>; rel="next", </c>; title="a, b"; REL="start canonical"', "https://books.example/c"),
        ("", "</c>; rel=canonical-ish", None),
        ("", '</c>; rel=""', None),
        ("", '</b>; rel="", </c>; rel=canonical', "https://books.example/c"),
        ("", "<ftp://books.example/c>; rel=canonical", None),
        ("", "</c; rel=canonical", None),
        ("<link rel=canonical href=/markup>", "</header>; rel=canonical", "https://books.example/markup"),
    ],
)
def test_the_canonical_url_is_found_in_markup_and_headers(
    markup: str, link: str, canonical: str | None
) -> None:
    assert page(markup, headers=(("link", link),)).canonical == canonical


def test_a_document_that_is_not_html_can_be_canonical_by_header() -> None:
    pdf = page(b"%PDF-1.7", content_type="application/pdf", headers=(("link", "</c>; rel=canonical"),))
    assert pdf.canonical == "https://books.example/c"


def test_the_canonical_page_is_one_of_the_links() -> None:
    def urls(markup: str, link: str = "") -> list[str]:
        return page(markup, headers=(("link", link),)).links().urls  # type: ignore[return-value]

    assert urls("<a href=/a><link rel=canonical href=/c>") == [
        "https://books.example/a",
        "https://books.example/c",
    ]
    assert urls("<a href=/a>", "</c>; rel=canonical") == [
        "https://books.example/a",
        "https://books.example/c",
    ]
    assert urls("<a href=/c>", "</c>; rel=canonical") == ["https://books.example/c"]
    assert urls("<meta name=robots content=nofollow>", "</c>; rel=canonical") == []


def outcome(markup: str, scope: Scope, request: Request | None = None) -> ParseResult:
    spider = Spider("s")

    @spider.page()
    def two_items(page: Page) -> Iterator[object]:
        yield {"n": 1}
        yield {"n": 2}

    return run(spider, task(markup, request=request), scope=scope)


def test_by_default_every_page_yields_its_items() -> None:
    result = outcome("<link rel=canonical href=/c>", Scope(hosts=HERE))
    assert (len(result.items), result.withheld, result.requests) == (2, 0, ())


def test_with_canonical_only_items_are_dropped_and_the_canonical_page_is_followed() -> None:
    result = outcome("<link rel=canonical href=/c>", Scope(hosts=HERE, canonical_only=True))
    assert (len(result.items), result.withheld) == (0, 2)
    assert [unpack(packed).url for packed in result.requests] == ["https://books.example/c"]


@pytest.mark.parametrize(
    "markup",
    ["", f"<link rel=canonical href={URL}>", "<link rel=canonical href=https://elsewhere.example/>"],
)
def test_a_page_whose_canonical_version_is_itself_or_out_of_scope_keeps_its_items(markup: str) -> None:
    result = outcome(markup, Scope(hosts=HERE, canonical_only=True))
    assert (len(result.items), result.withheld, result.requests) == (2, 0, ())


def test_a_link_to_the_page_itself_is_dropped_unless_its_request_was_different() -> None:
    spider = Spider("s")
    spider.page()(lambda page: page.links())
    markup = f"<link rel=canonical href={URL}>"
    by_get = run(spider, task(markup), scope=Scope())
    by_post = run(spider, task(markup, request=Request(url=URL, method="POST")), scope=Scope())
    assert (len(by_get.requests), by_get.repeats) == (0, 1)
    assert len(by_post.requests) == 1
