"""Pass data from one page to the next: a request names its handler and carries `data` to it."""

from collections.abc import Iterator
from dataclasses import dataclass

import shoal

spider = shoal.Spider("books", "https://books.toscrape.com/", follow=r"/catalogue/")


@dataclass
class Book:
    title: str
    category: str
    price: str
    upc: str


@spider.page()
def shelf(page: shoal.Page) -> Iterator[object]:
    category = page.css("h1::text").get("")
    yield page.links(".side_categories ul ul")
    yield page.links(".next")
    if category != "All products":
        yield page.links("article h3", route="book", data={"category": category})


@spider.page(name="book", key="upc")
def book(page: shoal.Page) -> Book:
    return Book(
        title=page.css("h1::text").get(""),
        category=page.data["category"],
        price=page.css(".price_color::text").get(""),
        upc=page.xpath("//th[text() = 'UPC']/following-sibling::td/text()").get(""),
    )
