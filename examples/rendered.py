"""Pages that need scripts: a browser renders them, and only them. Needs Chromium; see docs/browser.md."""

from collections.abc import Iterator

import shoal
from shoal import Rendering, ScrollToEnd

spider = shoal.Spider("rendered", start="https://quotes.toscrape.com/")


@spider.page(r"/js/")
def quotes(page: shoal.Page) -> Iterator[object]:
    for quote in page.css(".quote"):
        yield {"text": quote.css(".text::text").get(), "author": quote.css(".author::text").get()}


@spider.page(r"/scroll")
def scrolled(page: shoal.Page) -> Iterator[object]:
    yield {"quotes": len(page.css(".quote")), "screenshot_bytes": len(page.screenshot or b"")}


@spider.page()
def front(page: shoal.Page) -> Iterator[object]:
    yield page.follow("/js/", render=True)
    yield page.follow("/scroll", render=Rendering(actions=(ScrollToEnd(),), screenshot=True))
