"""The public API as users type it: mypy checks this file with the rest, so a change of a public type fails here."""

import re
from collections.abc import Iterator
from typing import Any, assert_type

import shoal
from shoal.testing import HandlerFailed, Yielded, failed, page_from, run

spider = shoal.Spider(
    "books",
    start=["https://books.example/", shoal.Request(url="https://books.example/all", priority=1)],
    sitemaps="https://books.example/sitemap.xml",
    hosts=["books.example"],
    found_on=True,
    key="title",
    rate=0.5,
)


@spider.page(r"/book/", name="book", key=("title",), binary=False)
def book(page: shoal.Page) -> Iterator[dict[str, Any] | shoal.Request | None]:
    assert_type(page.url, str)
    assert_type(page.status, int)
    assert_type(page.body, bytes)
    assert_type(page.text, str)
    assert_type(page.html, str)
    assert_type(page.depth, int)
    assert_type(page.data, dict[str, Any])
    assert_type(page.request, shoal.Request)
    assert_type(page.css("h1"), shoal.SelectorList)
    assert_type(page.css("h1")[0], shoal.Selector)
    assert_type(page.css("h1::text").get(), str | None)
    assert_type(page.css("h1::text").get(default=""), str)
    assert_type(page.xpath("//h1").getall(), list[str])
    assert_type(page.css("h1").attrib, dict[str, str])
    assert_type(page.re(re.compile(r"\d+")), list[str])
    assert_type(page.urljoin("next"), str | None)
    assert_type(page.canonical, str | None)
    assert_type(page.markdown(), str)
    assert_type(page.markdown(whole=True), str)
    assert_type(page.found_on, str | None)
    assert_type(page.form("#login"), shoal.Form)
    assert_type(page.form("#login", route="home").fill({"a[b]": 1}, click="go", user="me"), shoal.Request)
    assert_type(page.form().values, dict[str, list[str]])
    assert_type(page.follow("/api", json={"a": 1}, auth=("user", "password")), shoal.Request | None)
    yield shoal.Request("https://books.example/", params={"q": "fish"}, cookies={"a": "b"}, again=True)
    yield shoal.Request("https://books.example/", form=[("a", 1)], unique="x", pool="http", method="PUT")
    yield {"title": page.css("h1::text").get()}
    yield page.follow(page.css("a.next"), priority=3, data={"from": page.url})
    yield from page.links("h3 a", follow=r"/book/", priority=2, route="book", pool="http")


@spider.page(statuses=[404])
def missing(page: shoal.Page) -> dict[str, str | None]:
    return {"url": page.url, "on": page.found_on}


@spider.item
def clean(item: dict[str, Any], page: shoal.Page) -> dict[str, Any]:
    if not item:
        raise shoal.Drop(f"empty {shoal.secret('API_KEY')}")
    return item


@spider.on_error("timeout", "http_error")
def lost(request: shoal.FailedRequest) -> Iterator[dict[str, Any]]:
    assert_type(request.url, str)
    assert_type(request.reason, str)
    assert_type(request.status, int)
    assert_type(request.attempts, int)
    yield {"url": request.url}


def check_testing() -> None:
    yielded = run(spider, page_from("<h1>A</h1>", url="https://books.example/book/1"))
    assert_type(yielded, Yielded)
    assert_type(yielded.items, list[dict[str, Any]])
    assert_type(yielded.requests, list[shoal.Request])
    assert_type(failed("timeout"), shoal.FailedRequest)
    assert issubclass(HandlerFailed, AssertionError)
    assert_type(shoal.__version__, str)


async def check_programs() -> None:
    result = shoal.run(spider, store="memory:", out=["books.csv", "books.jsonl"], max_pages=3, rate=0.5)
    assert_type(result, shoal.Result)
    assert_type(result.items, list[dict[str, Any]])
    assert_type(result.finished, bool)
    assert_type(result.counts["done"], int)
    assert_type(await shoal.arun("https://books.example/", progress=False), shoal.Result)
    async with shoal.stream(spider, store="data", buffer=10, settings={"retry.max_retries": 0}) as items:
        async for item in items:
            assert_type(item, dict[str, Any])
    for item in shoal.stream("books.py", fresh=True):
        assert_type(item, dict[str, Any])
    try:
        assert_type(items.result, shoal.Result)
    except shoal.errors.Misconfigured as error:
        assert_type(error, shoal.errors.Misconfigured)
