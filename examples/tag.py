"""A spider with arguments: shoal crawl examples/tag.py -a name=books -a pages=2"""

from collections.abc import Iterator

import shoal


def tag(name: str = "love", pages: int = 1) -> shoal.Spider:
    spider = shoal.Spider("tag", f"https://quotes.toscrape.com/tag/{name}/page/1/")

    @spider.page()
    def quotes(page: shoal.Page) -> Iterator[object]:
        for text in page.css(".text::text").getall():
            yield {"tag": name, "text": text}
        if page.depth + 1 < pages:
            yield page.links(".next")

    return spider
