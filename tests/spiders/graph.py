"""Takes every offer of a page of the test graph, and follows every link."""

from collections.abc import Iterator
from typing import Any

import shoal

spider = shoal.Spider("graph")


@spider.page()
def page(page: shoal.Page) -> Iterator[Any]:
    for article in page.css("article"):
        yield {
            "url": page.url,
            "offer": article.attrib["id"],
            "title": article.css("h2::text").get(),
            "price": article.css(".price::text").get(),
        }
    yield from page.links()
