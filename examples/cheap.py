"""Item hooks: every item is changed, checked or dropped before it is written."""

from collections.abc import Iterator
from typing import Any

import shoal

spider = shoal.Spider("cheap", "https://books.toscrape.com/", depth=1)


@spider.page()
def shelf(page: shoal.Page) -> Iterator[object]:
    for book in page.css("article"):
        yield {"title": book.css("h3 a::attr(title)").get(), "price": book.css(".price_color::text").get()}
    yield page.links(".side_categories ul ul")


@spider.item
def number(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "price": float(item["price"].lstrip("£Â"))}


@spider.item
def affordable(item: dict[str, Any]) -> dict[str, Any]:
    if item["price"] > 20:
        raise shoal.Drop("too expensive")
    return item
