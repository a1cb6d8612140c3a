"""`shoal.testing`, as a user's own tests use it."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest

import shoal
from shoal.testing import HandlerFailed, page_from, run

spider = shoal.Spider("test", "https://start.example/")


@spider.page(r"/item/")
def item(page: shoal.Page) -> Iterator[object]:
    yield {"title": page.css("h1::text").get(), "day": date(2026, 1, 31)}


@spider.page(name="named")
def named(page: shoal.Page) -> dict[str, object]:
    return {"data": page.data, "depth": page.depth, "status": page.status}


@dataclass
class Size:
    width: int


@spider.page(name="sized", item=Size)
def sized(page: shoal.Page) -> dict[str, object]:
    return {"width": page.data["width"]}


@spider.page()
def rest(page: shoal.Page) -> object:
    return page.links()


def test_items_are_as_they_would_be_written() -> None:
    page = page_from("<h1>Größe</h1>", url="https://a.test/item/1")
    assert run(spider, page).items == [{"title": "Größe", "day": "2026-01-31"}]


def test_requests_come_with_what_they_carry_and_every_time_anew() -> None:
    page = page_from('<a href="/item/1">1</a>', url="https://a.test/", depth=2)
    for _ in range(2):
        items, [request] = run(spider, page)
        assert items == []
        assert (request.url, request.depth) == ("https://a.test/item/1", 3)


def test_a_page_is_given_to_the_handler_that_its_request_names() -> None:
    page = page_from("x", url="https://a.test/item/1", route="named", data={"a": 1}, depth=4, status=203)
    assert run(spider, page).items == [{"data": {"a": 1}, "depth": 4, "status": 203}]


def test_a_file_has_the_type_of_its_ending(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": [1]}')
    page = page_from(tmp_path / "a.json")
    assert page.headers["content-type"] == "application/json"
    assert page.json() == {"a": [1]}


def test_bytes_are_decoded_as_the_page_says() -> None:
    page = page_from(
        '<meta charset="iso-8859-1"><h1>Größe</h1>'.encode("latin-1"), url="https://a.test/item/1"
    )
    assert run(spider, page).items[0]["title"] == "Größe"


def test_a_handler_that_fails_says_where() -> None:
    with pytest.raises(HandlerFailed, match=r"https://a.test/x: no handler is called 'unknown'"):
        run(spider, page_from("x", url="https://a.test/x", route="unknown"))


def test_an_item_that_does_not_fit_its_model_fails_the_test() -> None:
    assert run(spider, page_from("x", route="sized", data={"width": 3})).items == [{"width": 3}]
    with pytest.raises(HandlerFailed, match=r"rejected item: .*width"):
        run(spider, page_from("x", route="sized", data={"width": "wide"}))


def test_pytest_is_not_needed() -> None:
    code = "import sys; sys.modules['pytest'] = None; import shoal.testing"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
