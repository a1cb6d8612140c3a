"""The handler for sitemaps and feeds that every spider has: the URLs that they list are followed."""

from collections.abc import Iterator

from shoal.model.errors import Bomb, Rejected
from shoal.model.failure import FailureClass
from shoal.model.request import FIRST, Request
from shoal.spider.feeds.sitemap import EntryKind, Sitemap
from shoal.spider.page import Page
from shoal.spider.spider import SITEMAP

MAX_SITEMAPS = 100  # named by one robots.txt
_LEVEL = "level"  # key in `Request.data`: how many sitemap indexes are above this one


def read_robots(page: Page) -> Iterator[object]:
    """Yield a request for each sitemap that a robots.txt names."""
    found = 0
    for line in page.body.splitlines():
        name, _, value = line.partition(b"#")[0].partition(b":")
        if name.strip(b" \t\xef\xbb\xbf").lower() != b"sitemap":
            continue
        url = page.urljoin(value.strip().decode(errors="replace"))
        if url is None or not value.strip():
            continue
        found += 1
        if found > MAX_SITEMAPS:
            page.mark_partial(f"a robots.txt that names more than {MAX_SITEMAPS} sitemaps")
            return
        yield Request(url=url, route=SITEMAP, priority=FIRST)


def read_listing(page: Page) -> Iterator[object]:
    """Yield a request for each URL in a sitemap, a sitemap index or a feed.

    Raises `Rejected` (`Bomb` for an XML or gzip bomb) if the document is unreadable and listed no URL. A
    document that was read in part is marked as such.
    """
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
        else:
            page.mark_partial(f"sitemap indexes nested more than {sitemap.limits.depth} deep")
    if sitemap.failure is not None and not found:
        error = Bomb if sitemap.failure.failure_class is FailureClass.BOMB else Rejected
        raise error(sitemap.failure.reason)
    if sitemap.partial:
        page.mark_partial(sitemap.partial)
