"""Spiders in TOML: they behave like the same spider in Python, and every error names the line and key."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.spider.pages import task

from shoal.model.errors import Misconfigured
from shoal.model.scope import Scope
from shoal.spider.page import Page
from shoal.spider.run import run
from shoal.spider.source import SpiderFile, describe, load
from shoal.spider.spider import Spider
from shoal.spider.toml_spider import toml_spider

BOOKS = """\
name = "books"
start = "https://books.example/"
follow = "/catalogue/"
rate = 3
key = "url"

[[page]]
match = "/catalogue/[^/]+/book.html"
item = {title = "h1", price = ".price::text", cover = "img::attr(src)", tags = [".tag"], none = "h6"}

[[page]]
priority = 3
links = ["h3 a", {select = ".next a", priority = 1, follow = "page"}]
"""
BOOK = """<h1> A <b>Light</b> </h1><p class=price>£51.77</p><img src=/c.jpg>
<i class=tag>poetry</i><i class=tag> old </i><a href=/catalogue/elsewhere>elsewhere</a>"""
LIST = """<h3><a href=/catalogue/1/book.html>1</a></h3><h3><a href=/catalogue/2/book.html>2</a></h3>
<a href=/about>about</a><p class=next><a href=/catalogue/page-2.html>next</a><a href=/catalogue/x>x</a></p>"""


def twin() -> Spider:
    spider = Spider("books", "https://books.example/", follow="/catalogue/", rate=3, key="url")

    @spider.page(r"/catalogue/[^/]+/book.html")
    def book(page: Page) -> Iterator[object]:
        yield {
            "url": page.url,
            "title": page.css("h1")[0].text.strip(),
            "price": page.css(".price::text").get(),
            "cover": page.css("img::attr(src)").get(),
            "tags": [tag.text.strip() for tag in page.css(".tag")],
            "none": page.css("h6").get(),
        }

    @spider.page()
    def listing(page: Page) -> Iterator[object]:
        yield page.links("h3 a", priority=3)
        yield page.links(".next a", priority=1, follow="page")

    return spider


@pytest.mark.parametrize(
    ("body", "url"),
    [
        (BOOK, "https://books.example/catalogue/1/book.html"),
        (LIST, "https://books.example/catalogue/index.html"),
    ],
)
def test_a_spider_in_toml_does_what_its_twin_in_python_does(body: str, url: str) -> None:
    one, other = (
        run(spider, task(body, url=url), scope=Scope())
        for spider in (toml_spider(BOOKS, "books.toml"), twin())
    )
    assert one.fault is other.fault is None
    assert (one.items, one.requests, one.dropped) == (other.items, other.requests, other.dropped)
    assert one.items or one.requests


def test_it_is_described_like_its_twin(tmp_path: Path) -> None:
    path = tmp_path / "books.toml"
    path.write_text(BOOKS)
    loaded, described = describe(load(SpiderFile(str(path)))), describe(twin())
    assert (loaded.name, loaded.start, loaded.options, loaded.key) == (
        described.name,
        described.start,
        described.options,
        described.key,
    )
    path.write_text(BOOKS.replace("h1", "h2"))
    assert load(SpiderFile(str(path))).version != loaded.version


def test_each_makes_an_item_of_every_match_by_selectors_below_it() -> None:
    text = 'name="a"\n[[page]]\neach = "li"\nitem = {n = "b", link = "a::attr(href)"}\nlinks = true\n'
    body = "<b>no</b><ul><li><b>1</b><a href=/x>x</a></li><li><b>2</b></li></ul>"
    result = run(toml_spider(text, "a.toml"), task(body), scope=Scope())
    assert [
        b'"n":"1","link":"/x"' in result.items[0].json,
        b'"n":"2","link":null' in result.items[1].json,
    ] == [
        True,
        True,
    ]
    assert len(result.items) == 2
    assert len(result.requests) == 1


def test_a_handler_with_a_name_is_not_the_fallback() -> None:
    text = 'name="a"\n[[page]]\nname = "x"\nlinks = true\n[[page]]\nitem = {t = "p"}\n'
    assert len(run(toml_spider(text, "a.toml"), task("<p>t</p>"), scope=Scope()).items) == 1


def test_links_can_name_the_page_that_takes_them() -> None:
    text = (
        'name="a"\n[[page]]\nlinks = [{select = "a", route = "detail"}]\n'
        '[[page]]\nname = "detail"\nitem = {t = "h1"}\n'
    )
    spider = toml_spider(text, "a.toml")
    [packed] = run(spider, task("<a href=/x>x</a>"), scope=Scope()).requests
    assert b"detail" in packed
    assert set(spider.routes) == {"page 1", "detail"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name = \n", "not valid TOML: .*line 1"),
        (
            'name = "a"\nrat = 1\n[[page]]\nlinks = true',
            r"a\.toml:2: rat: unknown key; did you mean rate",
        ),
        (
            'name = "a"\nrate = -1\n[[page]]\nlinks = true',
            r"a\.toml:2: rate: must be 0, or a number from 0.0001 to 100,000",
        ),
        (
            'name = "a"\nallow_private = true\n[[page]]\nlinks = true',
            r"a\.toml:2: allow_private is not an option of a spider",
        ),
        ('name = "a"\n\nstart = ["nope"]\n[[page]]\nlinks = true', r"a\.toml:3: .*not an http\(s\) URL"),
        (
            'start = "https://a.test"\n[[page]]\nlinks = true',
            r"a\.toml: the name of a spider must be a non-empty string",
        ),
        ('name = "a"', r"a\.toml: page: there must be at least one"),
        ('name = "a"\n[[page]]\nmatch = "x"', r"a\.toml:2: page: it yields nothing"),
        (
            'name = "a"\n[[page]]\nlinks = true\n[[page]]\nmatch = "("\nlinks = true',
            r"a\.toml:5: page 2: match: ",
        ),
        ('name = "a"\n[[page]]\nitem = {t = "h1[["}', r"a\.toml:3: page 1: t: "),
        ('name = "a"\n[[page]]\n[page.item]\nt = 7', r"a\.toml:4: page 1: t: must be a CSS selector, not 7"),
        ('name = "a"\n[[page]]\nlinks = "a"', r"a\.toml:3: page 1: links: must be a list"),
        (
            'name = "a"\n[[page]]\nlinks = ["a"]\npriority = 11',
            r"a\.toml:4: page 1: priority: must be from 1",
        ),
        ('name = "a"\n[[page]]\nlinks = [{selct = "a"}]', r"a\.toml:3: page 1: selct: .*did you mean select"),
        (
            'name = "a"\n[[page]]\nlinks = true\n[[page]]\nitem = {t="p"}',
            r"a\.toml:4: page: an earlier \[\[page",
        ),
        (
            'name = "a"\n[[page]]\nname = "x"\nlinks = true\n[[page]]\nname = "x"\nlinks = true',
            r"a\.toml:6: page 2: name: .*two handlers",
        ),
    ],
)
def test_an_error_names_the_line_and_the_key(text: str, complaint: str) -> None:
    with pytest.raises(Misconfigured, match=complaint) as caught:
        toml_spider(text, "a.toml")
    assert "\n" not in str(caught.value)
