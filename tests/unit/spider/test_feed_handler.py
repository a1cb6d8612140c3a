"""Sitemaps and feeds as places to start from: what they list is followed like any other link."""

import gzip

import pytest
from tests.unit.spider.pages import task

from shoal.model.limits import LinkLimits
from shoal.model.page import ParseResult
from shoal.model.request import FIRST, NORMAL, Request, unpack
from shoal.model.scope import Scope
from shoal.spider.run import run
from shoal.spider.source import describe
from shoal.spider.spider import SITEMAP, Spider
from shoal.spider.toml_spider import toml_spider

URL = "https://a.test/sitemap.xml"


def urlset(*locs: str) -> str:
    return f"<urlset>{''.join(f'<url><loc>{loc}</loc></url>' for loc in locs)}</urlset>"


def index(*locs: str) -> str:
    return f"<sitemapindex>{''.join(f'<sitemap><loc>{loc}</loc></sitemap>' for loc in locs)}</sitemapindex>"


def read(body: str | bytes, scope: Scope | None = None, **data: object) -> ParseResult:
    spider = Spider("s")
    spider.page()(lambda page: {"url": page.url})
    request = Request(url=URL, route=SITEMAP, data=data)
    kind = "application/xml" if isinstance(body, str) else "application/gzip"
    return run(spider, task(body, url=URL, request=request, content_type=kind), scope=scope or Scope())


def found(result: ParseResult) -> list[Request]:
    assert result.fault is None, result.fault
    return [unpack(packed) for packed in result.requests]


def test_sitemaps_are_requests_to_start_from_before_everything_else() -> None:
    start = describe(Spider("s", "https://a.test/", sitemaps=[URL])).start
    assert [(seed.url, seed.route, seed.priority) for seed in start] == [
        ("https://a.test/", "", NORMAL),
        (URL, SITEMAP, FIRST),
    ]
    in_toml = toml_spider(f'name = "s"\nsitemaps = "{URL}"\n[[page]]\nlinks = true', "s.toml")
    assert in_toml.start == start[1:]


@pytest.mark.parametrize("packed", [False, True])
def test_pages_of_a_sitemap_are_left_to_the_handlers_of_the_spider(packed: bool) -> None:
    body = urlset("https://a.test/1", "/2", "mailto:x@a.test")
    pages = found(read(gzip.compress(body.encode()) if packed else body))
    assert [(page.url, page.route, page.depth) for page in pages[:2]] == [
        ("https://a.test/1", "", 1),
        ("https://a.test/2", "", 1),
    ]


def test_a_feed_is_read_like_a_sitemap() -> None:
    feed = "<rss><channel><item><link>https://a.test/news</link></item></channel></rss>"
    assert [page.url for page in found(read(feed))] == ["https://a.test/news"]


def test_an_index_leads_three_levels_down_and_no_further() -> None:
    body = index("https://a.test/b.xml")
    [second] = found(read(body))
    assert (second.route, second.priority) == (SITEMAP, FIRST)
    [third] = found(read(body, **second.data))
    assert found(read(body, **third.data)) == []


def test_the_scope_judges_what_is_listed_but_a_sitemap_need_not_match_follow() -> None:
    scope = Scope(hosts=frozenset({"a.test"}), follow="/shop/")
    pages = read(urlset("https://a.test/shop/1", "https://a.test/about", "https://b.test/shop/2"), scope)
    assert [page.url for page in found(pages)] == ["https://a.test/shop/1"]
    assert pages.dropped == {"scope": 2}
    listed = read(index("https://a.test/more.xml", "https://b.test/more.xml"), scope)
    assert [page.url for page in found(listed)] == ["https://a.test/more.xml"]


def test_a_sitemap_may_list_more_than_a_page_may_link_to() -> None:
    scope = Scope(limits=LinkLimits(per_page=10))
    assert len(read(urlset(*(f"https://a.test/{n}" for n in range(100))), scope).requests) == 100


def test_a_document_that_is_not_a_sitemap_is_a_fault() -> None:
    fault = read("<html><p>Not found</html>").fault
    assert fault is not None
    assert "not a sitemap" in fault.reason
