"""Sources: a spider is loaded from where it is, and whatever is wrong with it is said on one line."""

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from shoal.model.errors import Misconfigured
from shoal.spider.source import (
    PlainSpider,
    SpiderDescription,
    SpiderFile,
    SpiderModule,
    SpiderSource,
    describe,
    load,
)

GOOD = """
import shoal
spider = shoal.Spider("books", ["https://books.example/"], follow="/x/", hosts=["books.example"], key="sku", rate=1)

@spider.page()
def listing(page):
    yield {"url": page.url}
"""


@pytest.fixture(autouse=True)
def _clean_imports() -> Iterator[None]:
    path, modules = sys.path[:], set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if "spider" in name and not name.startswith("shoal."):
            del sys.modules[name]


def written(folder: Path, code: str, name: str = "books.py") -> SpiderFile:
    path = folder / name
    path.write_text(code)
    return SpiderFile(str(path))


def test_a_file_is_loaded_and_described(tmp_path: Path) -> None:
    description = describe(load(written(tmp_path, GOOD)))
    assert description.name == "books"
    assert [request.url for request in description.start] == ["https://books.example/"]
    assert description.options == {"follow": "/x/", "rate": 1.0}
    assert description.hosts == ("books.example",)
    assert description.key == ("sku",)
    assert description.routes == ("listing",)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(description), type=SpiderDescription) == description


def test_the_version_changes_with_the_code(tmp_path: Path) -> None:
    one = load(written(tmp_path, GOOD)).version
    assert load(written(tmp_path, GOOD, "copy.py")).version == one
    assert load(written(tmp_path, GOOD + "\n# more")).version != one
    assert len(one) == 12


def test_a_spider_may_import_the_files_beside_it(tmp_path: Path) -> None:
    written(tmp_path, "PRICE = '.price'", "spider_tables.py")
    assert load(written(tmp_path, "from spider_tables import PRICE\n" + GOOD)).name == "books"


def test_dataclasses_find_their_module(tmp_path: Path) -> None:
    code = "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass Book:\n    title: str\n"
    assert load(written(tmp_path, code + GOOD)).name == "books"


def test_a_spider_is_found_in_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, GOOD, "my_spiders.py")
    monkeypatch.syspath_prepend(tmp_path)
    assert load(SpiderModule("my_spiders", "spider")).name == "books"
    assert (
        load(SpiderModule("my_spiders")).version == load(SpiderFile(str(tmp_path / "my_spiders.py"))).version
    )
    with pytest.raises(Misconfigured, match="my_spiders: listing is not a spider"):
        load(SpiderModule("my_spiders", "listing"))


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("import shoal\nx = (\n", r"books.py:2: SyntaxError: '\(' was never closed$"),
        ("\0", r"books.py:1: SyntaxError: source code string cannot contain null bytes$"),
        ("import no_such_thing", "books.py:1: ModuleNotFoundError: No module named 'no_such_thing'$"),
        ("\n\n1 / 0", "books.py:3: ZeroDivisionError: division by zero$"),
        ("import sys; sys.exit(3)", "books.py:1: it calls sys.exit\\(\\) while it is imported$"),
        ("raise ValueError('one\\ntwo')", "books.py:1: ValueError: one$"),
        ("import shoal\nshoal.Spider('s', rat=1)", "books.py:2: spider 's': unknown option 'rat'"),
        ("x = 1", "books.py: no spider in it: create one with"),
        ("import shoal\na = shoal.Spider('a')\nb = shoal.Spider('b')", r"books.py: 2 spiders in it \(a, b\)"),
        ("import shoal\na = shoal.Spider('a')", r"spider 'a' has no handler"),
    ],
)
def test_an_error_in_a_file_is_reported_on_one_line(tmp_path: Path, code: str, complaint: str) -> None:
    with pytest.raises(Misconfigured, match=complaint) as caught:
        load(written(tmp_path, code))
    assert "\n" not in str(caught.value)


def test_one_spider_under_two_names_is_one(tmp_path: Path) -> None:
    assert load(written(tmp_path, GOOD + "\nalias = spider")).name == "books"


def test_one_of_several_spiders_can_be_named(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD + "\nother = shoal.Spider('other')")
    assert load(SpiderFile(file.path, "spider")).name == "books"


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir()])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, make: object) -> None:
    make(tmp_path / "x.py")  # type: ignore[operator]
    with pytest.raises(Misconfigured, match=r"x\.py: cannot be read: "):
        load(SpiderFile(str(tmp_path / "x.py")))


def test_a_module_that_is_not_there_is_named() -> None:
    with pytest.raises(Misconfigured, match="no_such_module: ModuleNotFoundError"):
        load(SpiderModule("no_such_module", "spider"))


def test_a_file_named_like_a_library_does_not_replace_it(tmp_path: Path) -> None:
    import json

    load(written(tmp_path, GOOD, "json.py"))
    assert sys.modules["json"] is json


def test_a_plain_spider_needs_no_file() -> None:
    spider = load(PlainSpider("books.example", ("https://books.example/",), {"title": "h1"}))
    assert describe(spider).start[0].url == "https://books.example/"
    other = load(PlainSpider("books.example", ("https://books.example/",), {"title": "h2"}))
    assert spider.version != other.version


def test_an_invalid_css_selector_is_refused_before_the_crawl() -> None:
    with pytest.raises(Misconfigured, match=r"item title: not a CSS selector: 'h1\[\['"):
        load(PlainSpider("x", ("https://books.example/",), {"title": "h1[["}))


@pytest.mark.parametrize(
    "source", [SpiderFile("a.py"), SpiderModule("a", "b"), PlainSpider("n", ("u",), {"a": "b"})]
)
def test_sources_travel_to_other_processes(source: SpiderSource) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(source), type=SpiderSource) == source
