"""The spider of a scraped page. It runs in a parse process, like every other one: pages are hostile."""

from collections.abc import Iterator

from shoal.spider.page import Page
from shoal.spider.spider import Spider

spider = Spider("scrape")


@spider.page()
def markdown(page: Page) -> Iterator[dict[str, object]]:
    yield {"title": _title(page), "content": page.markdown(whole=True)}


@spider.page()
def html(page: Page) -> Iterator[dict[str, object]]:
    yield {"title": _title(page), "content": page.html}


@spider.page()
def text(page: Page) -> Iterator[dict[str, object]]:
    parts = page.xpath("//body//text()[not(parent::script or parent::style)]").getall()
    yield {"title": _title(page), "content": " ".join(" ".join(parts).split())}


def _title(page: Page) -> str:
    return (page.css("title::text").get() or "").strip()
