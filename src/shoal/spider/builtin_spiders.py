"""Spiders that need no code: they follow every link and yield one item per page."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from shoal.model.errors import Misconfigured
from shoal.spider.html.css import compile_query
from shoal.spider.html.lexbor import LexborDocument
from shoal.spider.html.selector import Selector
from shoal.spider.page import Page
from shoal.spider.spider import Spider


def plain_spider(name: str, start: Iterable[str], items: Mapping[str, str]) -> Spider:
    """Return a spider whose items have the fields `items` (field -> CSS).

    Without `items` they have url, status, title, depth, fetched_at and links.
    """
    spider = Spider(name, start)
    spider.describes_pages = not items
    for field, query in items.items():
        try:
            compile_query(query)
        except ValueError as error:
            raise Misconfigured(f"item {field}: {error}") from None

    @spider.page(binary=True)
    def page(page: Page) -> Iterator[object]:
        links = page.links()
        yield _default_item(page, len(links)) if not items else _item(page, items)
        yield links

    return spider


def _item(page: Page, items: Mapping[str, str]) -> dict[str, object]:
    item: dict[str, object] = {"url": page.url}
    root = page.root
    for field, query in items.items():
        item[field] = _text(root, query)
    return item


def _default_item(page: Page, links: int) -> dict[str, object]:
    return {
        "url": page.url,
        "status": page.status,
        "title": _text(page.root, "title"),
        "depth": page.depth,
        "fetched_at": datetime.fromtimestamp(page.fetched_at, UTC).isoformat(timespec="milliseconds"),
        "links": links,
    }


def _text(root: Selector, query: str) -> str | None:
    """Return the stripped text of the first match, nested elements included; None if nothing matches."""
    if isinstance(root, LexborDocument):
        text = root.first_text(query)
        return None if text is None else text.strip()
    found = next(iter(root.css(query)), None)
    return None if found is None else found.text.strip()
