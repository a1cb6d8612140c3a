"""A shop behind a wall: which pages need a browser is learned, but not what has to be clicked there."""

from collections.abc import Iterator

import shoal
from shoal import Click, Rendering

spider = shoal.Spider("wall", start="http://127.0.0.1:8000/", key="sku")
SHOW_ALL = Rendering(actions=(Click("button.more"),))


@spider.page()
def product_page(page: shoal.Page) -> Iterator[object]:
    for product in page.css("article[data-sku]"):
        yield {
            "sku": product.attrib["data-sku"],
            "name": product.css("h1::text").get(),
            "price": product.css(".price::text").get(),
        }
    yield page.links("a.clicked", render=SHOW_ALL, priority=1)
    yield page.links("a:not(.clicked)")
