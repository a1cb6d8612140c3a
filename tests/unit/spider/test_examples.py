"""The examples, run: each on the pages it was written for, with no network."""

import json
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import shoal
from shoal.cli.demo.shop import Shop
from shoal.model.page import ParseTask
from shoal.model.request import Request, unpack
from shoal.model.scope import Scope
from shoal.model.settings import CrawlSettings
from shoal.model.url import fingerprint_of
from shoal.spider.run import run
from shoal.spider.source import SpiderFile, describe, load
from shoal.testing import page_from
from shoal.testing import run as run_handler

EXAMPLES = Path(__file__).parents[3] / "examples"
Answer = tuple[int, str, str]  # status, content type, body


def crawl(example: str, serve: Callable[[str], Answer]) -> tuple[dict[str, Any], set[str]]:
    """Crawl what `serve` answers for a path; give the items by key, and the paths that were asked for."""
    spider = load(SpiderFile(str(EXAMPLES / example)))
    settings = CrawlSettings(follow=spider.options.get("follow", ""))  # type: ignore[arg-type]
    scope = Scope.of(settings, [request.url for request in spider.start])
    waiting, seen, items = deque(spider.start), {request.url for request in spider.start}, {}
    while waiting:
        request: Request = waiting.popleft()
        parts = urlsplit(request.url)
        status, kind, body = serve(parts.path + (f"?{parts.query}" if parts.query else ""))
        if status != 200:
            continue
        fingerprint = fingerprint_of(request.method, request.url, request.body)
        task = ParseTask(
            1, fingerprint, request, request.url, status, (("content-type", kind),), body.encode(), 0.0
        )
        result = run(spider, task, scope=scope)
        assert result.fault is None, result.fault
        items.update({item.key: json.loads(item.json) for item in result.items})
        new = [
            found for found in map(unpack, (packed for packed in result.requests)) if found.url not in seen
        ]
        seen.update(found.url for found in new)
        waiting.extend(new)
    return items, {urlsplit(url).path for url in seen}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_every_example_is_short_and_loads(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 40
    described = describe(load(SpiderFile(str(path))))
    assert described.name == path.stem
    assert described.start


def test_the_shop_spider_finds_every_product_of_the_demo_shop() -> None:
    shop = Shop()

    def serve(path: str) -> Answer:
        reply = shop.reply(path)
        if reply.status == 503:  # busy the first time
            reply = shop.reply(path)
        return reply.status, reply.kind, reply.body

    items, paths = crawl("shop.py", serve)
    assert {
        item["sku"]: (item["title"], float(item["price"]), item["stock"], item["rating"])
        for item in items.values()
    } == {
        product.sku: (product.name, product.pence / 100, product.stock, round(product.rating, 1))
        for product in shop.products.values()
    }
    assert set(items) == {product.sku for product in shop.products.values()}
    assert not any(path.startswith("/cart") for path in paths)


def test_the_quotes_spider_follows_the_api_to_its_end() -> None:
    def serve(path: str) -> Answer:
        page = int(path.rpartition("=")[2])
        quotes = [{"author": {"name": f"A{page}"}, "text": f"q{page}", "tags": ["t"]}]
        return 200, "application/json", json.dumps({"page": page, "has_next": page < 3, "quotes": quotes})

    items, _ = crawl("quotes.py", serve)
    assert sorted(item["text"] for item in items.values()) == ["q1", "q2", "q3"]


BOOK_SHELVES = {
    "/": "<h1>All products</h1><div class=side_categories><ul><li><ul><li><a href='catalogue/c/poetry/'>Poetry</a></ul></ul></div>"
    "<article><h3><a href='catalogue/a/'>A</a></h3></article>",
    "/catalogue/c/poetry/": "<h1>Poetry</h1><article><h3><a href='/catalogue/a/'>A</a></h3></article><li class=next><a href='2'>next</a>",
    "/catalogue/c/poetry/2": "<h1>Poetry</h1><article><h3><a href='/catalogue/b/'>B</a></h3></article>",
    "/catalogue/a/": "<h1>A</h1><p class=price_color>£1</p><table><tr><th>UPC</th><td>u-a</td></tr></table>",
    "/catalogue/b/": "<h1>B</h1><p class=price_color>£2</p><table><tr><th>UPC</th><td>u-b</td></tr></table>",
}


def test_the_books_spider_takes_the_category_along() -> None:
    items, _ = crawl("books.py", lambda path: (200, "text/html", BOOK_SHELVES[path]))
    assert items == {
        "u-a": {"title": "A", "category": "Poetry", "price": "£1", "upc": "u-a"},
        "u-b": {"title": "B", "category": "Poetry", "price": "£2", "upc": "u-b"},
    }


def loaded(example: str, **arguments: str) -> shoal.Spider:
    return load(SpiderFile(str(EXAMPLES / example), "", {name: (text,) for name, text in arguments.items()}))


def test_the_log_in_sends_the_form_of_the_site_and_follows_the_quotes() -> None:
    form = "<form method=post action=/login><input type=hidden name=csrf_token value=abc>"
    login = page_from(
        f"{form}<input name=username><input name=password type=password><input type=submit value=Login></form>",
        url="https://quotes.toscrape.com/login",
    )
    [request] = run_handler(loaded("login.py"), login).requests
    assert (request.method, request.url, request.route) == ("POST", login.url, "quotes")
    assert request.body == b"csrf_token=abc&username=me&password=any"
    quote = "<div class=quote><span class=text>T</span><a href=/author/a>a</a> <a href=http://g.example/>g</a></div>"
    page = page_from(f"{quote}<li class=next><a href=/page/2/>Next</a>", route="quotes")
    items, requests = run_handler(loaded("login.py"), page)
    assert items == [{"text": "T", "source": "http://g.example/"}]
    assert [request.route for request in requests] == ["quotes"]


def test_the_arguments_choose_tag_and_pages() -> None:
    spider = loaded("tag.py", name="books", pages="2")
    assert spider.start[0].url == "https://quotes.toscrape.com/tag/books/page/1/"
    html = "<span class=text>T</span><li class=next><a href=/tag/books/page/2/>Next</a>"
    for depth, followed in ((0, 1), (1, 0)):
        items, requests = run_handler(spider, page_from(html, url=spider.start[0].url, depth=depth))
        assert (items, len(requests)) == ([{"tag": "books", "text": "T"}], followed)


def test_the_hooks_make_prices_numbers_and_drop_what_is_expensive() -> None:
    html = "".join(
        f"<article><h3><a title=B{price}>..</a></h3><p class=price_color>£{price}.50</p></article>"
        for price in (9, 51)
    )
    assert run_handler(loaded("cheap.py"), page_from(html)).items == [{"title": "B9", "price": 9.5}]
