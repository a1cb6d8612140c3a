"""Arguments of spiders: typed by a signature, checked by name, and part of the crawl's name."""

from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest

import shoal
from shoal.model.errors import Misconfigured
from shoal.spider.arguments import bind, name_with_arguments, parse_arguments
from shoal.spider.source import SpiderFile, SpiderModule, SpiderSource, describe, load


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


def factory(  # type: ignore[no-untyped-def]
    category: str,
    pages: int = 3,
    price: float = 0.5,
    *,
    deep: bool = False,
    since: date | None = None,
    size: Size = Size.SMALL,
    order: Literal["new", "old"] = "new",
    tags: list[str] = [],  # noqa: B006
    ids: tuple[int, ...] = (),
    plain=7,
) -> shoal.Spider:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("typed", "name", "value"),
    [
        (["pages=12"], "pages", 12),
        (["price=2"], "price", 2.0),
        (["deep=yes"], "deep", True),
        (["deep=0"], "deep", False),
        (["since=2026-11-17"], "since", date(2026, 11, 17)),
        (["size=l"], "size", Size.LARGE),
        (["order=old"], "order", "old"),
        (["tags=a", "tags=b=c"], "tags", ["a", "b=c"]),
        (["ids=1", "ids=2"], "ids", (1, 2)),
        (["plain=8"], "plain", 8),
    ],
)
def test_values_have_the_types_of_the_signature(typed: list[str], name: str, value: object) -> None:
    values, _ = bind(factory, parse_arguments(["category=x", *typed]), "books.py")
    assert values == {"category": "x", name: value}


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (
            [],
            "argument category is missing: add -a category=.*category \\(str\\), pages \\(int, default '3'\\)",
        ),
        (["category=x", "page=3"], "unknown argument 'page'; did you mean pages\\? it takes category"),
        (["category=x", "pages=many"], "argument pages: expected `int`.*not 'many'"),
        (["category=x", "deep=maybe"], "argument deep: must be true or false, not 'maybe'"),
        (["category=x", "order=best"], "argument order: invalid enum value.*not 'best'"),
        (["category=x", "pages=1", "pages=2"], "argument pages: given 2 times"),
        (["category"], "must be NAME=VALUE"),
        (["1x=2"], "must be NAME=VALUE"),
    ],
)
def test_wrong_arguments_are_refused_with_those_that_there_are(typed: list[str], message: str) -> None:
    with pytest.raises(Misconfigured, match=message):
        bind(factory, parse_arguments(typed), "books.py")


def test_arguments_that_are_not_defaults_are_part_of_the_name() -> None:
    _, changed = bind(factory, parse_arguments(["category=x", "pages=3", "price=2", "deep=no"]), "books.py")
    assert changed == {"category": "x", "price": "2.0"}
    assert name_with_arguments("books", changed) == "books@category=x,price=2.0"
    assert name_with_arguments("books", {}) == "books"
    assert len(name_with_arguments("books", {"a": "x" * 500})) < 30
    assert name_with_arguments("books", {"a": "\x1b[2J"}).isprintable()


MANY = """
import shoal

def _spider(name, url):
    spider = shoal.Spider(name, url)
    spider.page(lambda page: None)
    return spider

a = _spider("a", "https://a.example/")
b = _spider("b", "https://b.example/")

def c(section: str = "all") -> shoal.Spider:
    return _spider("c", f"https://c.example/{section}")

def nothing():
    return 7

def wrong() -> shoal.Spider:
    return 7
"""
ONE = """
import shoal

def books(category: str = "all", pages: int = 3) -> "shoal.Spider":
    spider = shoal.Spider("books", f"https://books.example/{category}/{pages}")

    @spider.page
    def page(page):
        yield {"category": category}

    return spider
"""


def description(tmp_path: Path, code: str, attribute: str = "", **given: str) -> Any:
    file = tmp_path / "spiders.py"
    file.write_text(code)
    return describe(load(SpiderFile(str(file), attribute, {name: (text,) for name, text in given.items()})))


def test_a_function_that_returns_a_spider_is_called_with_the_arguments(tmp_path: Path) -> None:
    plain, given = description(tmp_path, ONE), description(tmp_path, ONE, category="travel", pages="9")
    assert (plain.start[0].url, plain.crawl) == ("https://books.example/all/3", "books")
    assert (given.start[0].url, given.crawl) == (
        "https://books.example/travel/9",
        "books@category=travel,pages=9",
    )
    assert given.version == plain.version


def test_one_of_several_spiders_is_chosen_by_name(tmp_path: Path) -> None:
    assert description(tmp_path, MANY, "b").name == "b"
    assert description(tmp_path, MANY, "c", section="x").start[0].url == "https://c.example/x"
    only_one = MANY.partition("def wrong")[0]  # that takes arguments
    assert description(tmp_path, only_one, section="x").name == "c"


@pytest.mark.parametrize(
    ("attribute", "given", "message"),
    [
        ("", {}, r"4 spiders in it \(a, b, c, wrong\): choose one with .*spiders.py:a"),
        ("d", {}, "d is not a spider; it has a, b, c"),
        ("nothing", {}, "nothing is not a spider: a function that makes one says so"),
        ("wrong", {}, "must return a Spider, not a int"),
        ("a", {"x": "1"}, r"takes no arguments \(-a x=\.\.\.\)"),
    ],
)
def test_a_choice_that_is_not_clear_names_the_spiders(
    tmp_path: Path, attribute: str, given: dict[str, str], message: str
) -> None:
    with pytest.raises(Misconfigured, match=message):
        description(tmp_path, MANY, attribute, **given)


TOML = """
name = "books"
start = ["https://books.example/{category}?n={pages}"]
hosts = ["books.example"]
[arguments]
category = "all"
pages = 3
[[page]]
match = "x{2}"
links = true
statuses = [404]
"""


def test_a_toml_spider_has_arguments_with_defaults(tmp_path: Path) -> None:
    file = tmp_path / "books.toml"
    file.write_text(TOML)

    def loaded(**given: str) -> Any:
        return describe(load(SpiderFile(str(file), "", {name: (text,) for name, text in given.items()})))

    assert loaded().start[0].url == "https://books.example/all?n=3"
    assert loaded(category="a b/c", pages="4").start[0].url == "https://books.example/a%20b%2Fc?n=4"
    assert loaded(pages="4").crawl == "books@pages=4"
    assert loaded().statuses == {404}
    with pytest.raises(Misconfigured, match="unknown argument 'page'; did you mean pages"):
        loaded(page="4")
    with pytest.raises(Misconfigured, match="argument pages: expected `int`"):
        loaded(pages="x")


def test_arguments_for_a_spider_without_any_say_how_it_gets_some() -> None:
    source: SpiderSource = SpiderModule("tests.spiders.graph", "", {"a": ("1",)})
    with pytest.raises(Misconfigured, match=r"def books\(category: str\) -> shoal.Spider"):
        load(source)
