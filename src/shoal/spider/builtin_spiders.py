"""The spiders that need no code: every link is followed, and a record made of every page."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from shoal.model.errors import Misconfigured
from shoal.spider.html.css import compiled
from shoal.spider.html.lexbor import Document
from shoal.spider.page import Page
from shoal.spider.spider import Spider


def plain_spider(name: str, start: Iterable[str], items: Mapping[str, str]) -> Spider:
    """Make a spider whose records hold `items` (field -> CSS), or what every page has if there are none."""
    spider = Spider(name, start)
    for field, query in items.items():
        try:
            compiled(query)
        except ValueError as error:
            raise Misconfigured(f"item {field}: {error}") from None

    @spider.page(binary=True)
    def page(page: Page) -> Iterator[object]:
        links = page.links()
        yield _overview(page, len(links)) if not items else _record(page, items)
        yield links

    return spider


def _record(page: Page, items: Mapping[str, str]) -> dict[str, object]:
    return {"url": page.url} | {field: _text(page, query) for field, query in items.items()}


def _overview(page: Page, links: int) -> dict[str, object]:
    return {
        "url": page.url,
        "status": page.status,
        "title": _text(page, "title"),
        "depth": page.depth,
        "fetched_at": datetime.fromtimestamp(page.fetched_at, UTC).isoformat(timespec="milliseconds"),
        "links": links,
    }


def _text(page: Page, query: str) -> str | None:
    """Give the text of the first match, with that of the elements inside, stripped; None: no match."""
    root = page.root
    found = root.first(query) if isinstance(root, Document) else next(iter(root.css(query)), None)
    return None if found is None else found.text.strip()
