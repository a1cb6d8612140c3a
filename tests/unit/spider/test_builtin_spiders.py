"""Plain spiders: records without code."""

import json
from typing import Any

import pytest
from tests.unit.spider.pages import task

from shoal.model.page import ParseTask
from shoal.model.request import Request
from shoal.model.scope import Scope
from shoal.spider.builtin_spiders import plain_spider
from shoal.spider.run import run

BOOK = """<html><head><title> A  Book
</title></head><body><h1>The <b>Book</b></h1><p class="price"> 10 € </p><img src="/c.jpg" alt="">
<dl><dt>Stock</dt><dd>5</dd></dl><a href="/a">a</a><a href="/a#x">a</a><map><area href="/b"></map><link rel=next href="/c"></body></html>"""


def record(page: ParseTask, **items: str) -> dict[str, Any]:
    result = run(plain_spider("p", ["https://books.example/"], items), page, scope=Scope())
    assert result.fault is None
    [item] = result.items
    made: dict[str, Any] = json.loads(item.json)
    return made


def test_without_fields_an_item_has_the_default_fields() -> None:
    assert record(task(BOOK, status=203, request=Request(url="https://books.example/", depth=2))) == {
        "url": "https://books.example/catalogue/index.html",
        "status": 203,
        "title": "A  Book",
        "depth": 2,
        "fetched_at": "2023-11-14T22:13:20.500+00:00",
        "links": 3,
    }


def test_fields_hold_the_text_of_the_first_match() -> None:
    found = record(
        task(BOOK),
        name="h1",
        own="h1::text",
        price=".price",
        cover="img::attr(src)",
        stock="dt:contains('Stock') + dd",
        direct=":scope > body > h1",
        missing=".nope",
        none="h1::attr(id)",
    )
    assert found == {
        "url": "https://books.example/catalogue/index.html",
        "name": "The Book",
        "own": "The",
        "price": "10 €",
        "cover": "/c.jpg",
        "stock": "5",
        "direct": "The Book",
        "missing": None,
        "none": None,
    }


@pytest.mark.parametrize("body", [b"\xff\xd8\xff\xe0 jpeg", b"%PDF-1.7 <title>x</title>", b""])
def test_a_response_that_is_not_text_is_still_an_item(body: bytes) -> None:
    found = record(task(body))
    assert found["title"] is None
    assert found["links"] == 0


def test_xml_has_fields_too() -> None:
    feed = task("<rss><item><title>One <i>x</i></title></item></rss>", content_type="application/xml")
    assert record(feed, title="item > title") == {
        "url": "https://books.example/catalogue/index.html",
        "title": "One x",
    }


def test_every_link_is_followed() -> None:
    result = run(plain_spider("p", [], {"title": "h1"}), task(BOOK), scope=Scope())
    assert len(result.requests) == 3
