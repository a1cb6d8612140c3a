"""Items with a model: those that fit are kept, others are rejected with the reason."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any

import msgspec
import pydantic
import pytest
from tests.unit.spider.pages import task

from shoal.model.errors import Misconfigured
from shoal.model.limits import ParseLimits
from shoal.model.page import ParseResult
from shoal.model.scope import Scope
from shoal.spider.page import Page
from shoal.spider.run import OutputTooLarge, run
from shoal.spider.source import describe
from shoal.spider.spider import Spider

URL = "https://books.example/1"


@dataclass
class BookData:
    title: str
    price: Annotated[float, msgspec.Meta(ge=0)]
    published: date | None = None


class BookStruct(msgspec.Struct):
    title: str
    price: Annotated[float, msgspec.Meta(ge=0)]
    published: date | None = None


class BookModel(pydantic.BaseModel):
    title: str
    price: float = pydantic.Field(ge=0)
    published: date | None = None


MODELS = [BookData, BookStruct, BookModel]
models = pytest.mark.parametrize("model", MODELS)


def parsed(model: Any, *items: object, key: str = "") -> ParseResult:
    spider = Spider("books")

    @spider.page(item=model, key=key or ())
    def book(page: Page) -> Iterator[object]:
        yield from items
        yield page.follow("/next")

    return run(spider, task(url=URL), scope=Scope())


def kept(result: ParseResult) -> list[Any]:
    assert result.fault is None, result.fault
    return [json.loads(item.json) for item in result.items]


def set_aside(result: ParseResult) -> list[Any]:
    assert result.fault is None, result.fault
    return [json.loads(item.json) for item in result.rejected]


@models
def test_an_item_is_converted_to_its_model(model: Any) -> None:
    found = kept(parsed(model, {"title": "Nets", "price": "12.50", "published": "2024-02-01", "more": 1}))
    assert found == [{"title": "Nets", "price": 12.5, "published": "2024-02-01"}]


@models
@pytest.mark.parametrize(
    ("item", "named"),
    [
        ({"title": "Nets", "price": "twelve"}, "field price: "),
        ({"title": "Nets", "price": -1}, "field price: "),
        ({"title": "Nets"}, "field price: "),
        ({"title": None, "price": 1}, "field title: "),
        ({"title": "Nets", "price": 1, "published": "soon"}, "field published: "),
    ],
)
def test_an_item_that_does_not_fit_is_rejected_with_the_name_of_the_field(
    model: Any, item: dict[str, object], named: str
) -> None:
    result = parsed(model, item, {"title": "Good", "price": 1})

    [record] = set_aside(result)
    assert record["url"] == URL
    assert record["reason"].startswith(named)
    assert record["item"] == item
    assert [book["title"] for book in kept(result)] == ["Good"]
    assert len(result.requests) == 1


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (BookData("Nets", 1.0), BookData("Nets", "dear")),  # type: ignore[arg-type]
        (BookStruct("Nets", 1.0), BookStruct("Nets", "dear")),  # type: ignore[arg-type]
    ],
)
def test_an_item_of_the_model_itself_is_checked_too(good: object, bad: object) -> None:
    result = parsed(type(good), good, bad)
    assert len(kept(result)) == 1
    assert set_aside(result)[0]["reason"].startswith("field price: ")


def test_an_instance_of_a_pydantic_model_is_not_checked_again() -> None:
    assert kept(parsed(BookModel, BookModel(title="Nets", price=1)))[0]["price"] == 1.0


def test_the_reason_names_fields_inside_fields() -> None:
    @dataclass
    class Shelf:
        books: list[BookData] = field(default_factory=list)

    [record] = set_aside(parsed(Shelf, {"books": [{"title": "a", "price": 1}, {"title": "b"}]}))
    assert record["reason"] == "field books[1].price: missing"


def test_an_item_without_its_key_field_is_rejected() -> None:
    [record] = set_aside(parsed(BookData, {"title": "", "price": 1}, key="title"))
    assert record["reason"] == "key field title is empty"


def test_a_rejected_item_is_written_even_if_json_cannot_hold_a_value() -> None:
    [record] = set_aside(parsed(BookData, {"title": object, "price": float("nan"), "half": "\ud800"}))
    assert "object" in record["item"]["title"]
    assert record["item"]["price"] == "nan"
    assert record["item"]["half"] == "?"


def test_keys_of_items_do_not_depend_on_rejected_ones() -> None:
    good, bad = {"title": "t", "price": 1}, {"title": "t"}
    assert parsed(BookData, bad, good).items[0].key == parsed(BookData, good, good).items[1].key


def test_a_value_that_is_not_an_item_is_a_fault() -> None:
    fault = parsed(BookData, 42).fault
    assert fault is not None
    assert "item 1: a handler yields items and requests, not a int" in fault.reason


def test_rejected_items_count_towards_the_limit_of_a_page() -> None:
    spider = Spider("books")
    spider.page(item=BookData)(lambda page: [{}, {}, {}])
    with pytest.raises(OutputTooLarge):
        run(spider, task(), scope=Scope(), limits=ParseLimits(items=2))


def test_without_a_model_nothing_is_rejected_and_the_description_says_so() -> None:
    plain, strict = Spider("plain"), Spider("strict")
    plain.page()(lambda page: {"anything": 1})
    strict.page(item=BookData)(lambda page: None)
    assert run(plain, task(), scope=Scope()).rejected == ()
    assert not describe(plain).models
    assert describe(strict).models


@pytest.mark.parametrize("model", [dict, "BookData", BookData("t", 1.0)])
def test_an_unsupported_model_is_refused_when_the_spider_is_loaded(model: Any) -> None:
    with pytest.raises(Misconfigured, match="must be a dataclass"):
        Spider("s").page(item=model)
