"""The handler of sitemaps and feeds, which every spider has: what they list is followed like other links."""

from collections.abc import Iterator

from shoal.model.errors import Bomb, Rejected
from shoal.model.failure import FailureClass
from shoal.model.request import FIRST, Request
from shoal.spider.feeds.sitemap import EntryKind, Sitemap
from shoal.spider.page import Page
from shoal.spider.spider import SITEMAP

_LEVEL = "level"  # of an index below others, in a request's data


def read_listing(page: Page) -> Iterator[object]:
    """Follow what a sitemap, an index of sitemaps or a feed lists; one that cannot be read is a fault."""
    sitemap = Sitemap(page.body, page.headers.get("content-type", ""))
    level = page.data.get(_LEVEL, 1)
    found = False
    for entry in sitemap:
        url = page.urljoin(entry.loc)
        if url is None:
            continue
        found = True
        if entry.kind is EntryKind.PAGE:
            yield Request(url=url)
        elif level < sitemap.limits.depth:
            yield Request(url=url, route=SITEMAP, data={_LEVEL: level + 1}, priority=FIRST)
    if sitemap.failure is not None and not found:
        error = Bomb if sitemap.failure.kind is FailureClass.BOMB else Rejected
        raise error(sitemap.failure.reason)
