"""A shop: categories link to lists, lists to products, and every product becomes one item.

`shoal demo` runs it on a demo shop; `shoal crawl examples/shop.py https://your.shop/` on another one.
"""

from collections.abc import Iterator

import shoal

spider = shoal.Spider("shop", "https://shop.example/", key="sku")


@spider.page(r"/product/")
def product(page: shoal.Page) -> Iterator[object]:
    stock = page.css(".stock::text").re_first(r"\d+", default="0")
    yield {
        "sku": page.css("[data-sku]::attr(data-sku)").get(),
        "title": page.css("h1::text").get(),
        "price": page.css(".price::text").re_first(r"[\d.]+"),
        "stock": int(stock),
        "rating": float(page.css(".rating::attr(data-rating)").get("0")),
        "url": page.url,
    }


@spider.page()  # all other pages
def listing(page: shoal.Page) -> Iterator[object]:
    yield from page.links("a.category, a.next", priority=3)  # 1 is first, 10 last: find all products early
    yield from page.links("ul.products a.product")
