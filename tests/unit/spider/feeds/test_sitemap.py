"""Sitemaps in all their forms, and in none."""

import gzip
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.corpora.packages import TRAFILATURA, files

from shoal.model.failure import FailureClass
from shoal.spider.feeds.sitemap import EntryKind, Sitemap, SitemapEntry, SitemapLimits

NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def urlset(*locs: str) -> bytes:
    urls = "".join(f"<url><loc>{loc}</loc></url>" for loc in locs)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset {NAMESPACE}>{urls}</urlset>'.encode()


def numbered(count: int) -> Iterator[str]:
    return (f"https://a.example/{number}" for number in range(count))


def locs(body: bytes, content_type: str = "") -> list[str]:
    sitemap = Sitemap(body, content_type)
    found = [entry.loc for entry in sitemap]
    assert sitemap.failure is None
    return found


def failure(body: bytes) -> FailureClass | None:
    sitemap = Sitemap(body)
    assert list(sitemap) == []
    return sitemap.failure.failure_class if sitemap.failure else None


def test_pages_come_with_their_dates() -> None:
    body = f"<urlset {NAMESPACE}><url><loc> https://a.example/?a=1&amp;b=2\n</loc><lastmod>2024-05-06</lastmod></url></urlset>"
    assert list(Sitemap(body.encode())) == [
        SitemapEntry("https://a.example/?a=1&b=2", datetime(2024, 5, 6, tzinfo=UTC), EntryKind.PAGE)
    ]


def test_an_index_leads_to_more_sitemaps() -> None:
    body = (
        f"<sitemapindex {NAMESPACE}><sitemap><loc>https://a.example/1.xml.gz</loc></sitemap></sitemapindex>"
    )
    assert list(Sitemap(body.encode())) == [
        SitemapEntry("https://a.example/1.xml.gz", None, EntryKind.SITEMAP)
    ]


def test_image_and_translation_entries_are_not_pages() -> None:
    body = (
        f'<urlset {NAMESPACE} xmlns:image="i" xmlns:xhtml="h"><url><loc>https://a.example/</loc>'
        "<image:image><image:loc>https://a.example/a.png</image:loc></image:image><image:loc>https://a.example/b.png</image:loc>"
        '<xhtml:link rel="alternate" hreflang="de" href="https://a.example/de"/></url></urlset>'
    )
    assert locs(body.encode()) == ["https://a.example/"]


def test_any_prefix_will_do() -> None:
    body = '<s:urlset xmlns:s="http://www.sitemaps.org/schemas/sitemap/0.9"><s:url><s:loc>https://a.example/</s:loc></s:url></s:urlset>'
    assert locs(body.encode()) == ["https://a.example/"]


def test_a_list_of_lines_is_a_sitemap() -> None:
    sitemap = Sitemap(
        b"\xef\xbb\xbfhttps://a.example/1\r\n\r\n  HTTP://a.example/2 \nnot an address\rhttps://a.example/3"
    )
    assert [entry.loc for entry in sitemap] == [
        "https://a.example/1",
        "HTTP://a.example/2",
        "https://a.example/3",
    ]
    assert sitemap.skipped == 1


def test_a_feed_is_a_sitemap() -> None:
    rss = b"<rss><channel><link>https://a.example/</link><item><link>https://a.example/1</link></item></channel></rss>"
    atom = b'<feed xmlns="a"><entry><link href="https://a.example/1"/><updated>2024-05-06T00:00:00Z</updated></entry></feed>'
    assert locs(rss) == ["https://a.example/1"]
    assert list(Sitemap(atom)) == [SitemapEntry("https://a.example/1", datetime(2024, 5, 6, tzinfo=UTC))]


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "windows-1251"])
def test_other_encodings_are_read(codec: str) -> None:
    body = f'<?xml version="1.0" encoding="{codec}"?><urlset><url><loc>https://a.example/ж</loc></url></urlset>'.encode(
        codec
    )
    assert locs(body, "text/xml; charset=utf-16le" if codec == "utf-16-le" else "") == ["https://a.example/ж"]


def test_gzip_is_unpacked_in_as_many_members_as_it_has() -> None:
    body = urlset(*numbered(100))
    assert locs(gzip.compress(body[:500]) + gzip.compress(body[500:])) == list(numbered(100))


def test_a_loc_is_returned_as_written() -> None:
    odd = [
        "//b.example/",
        "/relative",
        "file:///etc/passwd",
        "http://127.0.0.1/",
        "<![CDATA[https://a.example/?a&b]]>",
        "x?a=1&b=2",
    ]
    assert locs(urlset(*odd)) == [*odd[:4], "https://a.example/?a&b", "x?a=1&b=2"]


def test_entries_that_are_not_urls_are_skipped_and_counted() -> None:
    sitemap = Sitemap(urlset("", " ", "https://a.example/" + "x" * 4_096, "https://a.example/"))
    assert [entry.loc for entry in sitemap] == ["https://a.example/"]
    assert sitemap.skipped == 3


@pytest.mark.parametrize("lastmod", ["9999-01-01", "garbage", "", "inf", "2024-99-99"])
def test_an_invalid_date_is_ignored(lastmod: str) -> None:
    body = f"<urlset><url><loc>https://a.example/</loc><lastmod>{lastmod}</lastmod><priority>inf</priority></url></urlset>"
    assert list(Sitemap(body.encode())) == [SitemapEntry("https://a.example/")]


def test_urls_above_the_limit_are_counted() -> None:
    sitemap = Sitemap(urlset(*numbered(60_001)))
    assert sum(1 for _ in sitemap) == 50_000
    assert (sitemap.beyond, sitemap.skipped, sitemap.truncated, sitemap.failure) == (10_001, 0, False, None)


def test_the_cap_holds_for_lists_and_exactly() -> None:
    limits = SitemapLimits(urls=10)
    full, over = (Sitemap("\n".join(numbered(count)).encode(), limits=limits) for count in (10, 13))
    assert (len(list(full)), full.beyond, len(list(over)), over.beyond) == (10, 0, 10, 3)


def test_entries_without_a_url_count_towards_the_limit() -> None:
    sitemap = Sitemap(b"<urlset>" + b"<url></url>" * 100 + b"</urlset>", limits=SitemapLimits(urls=10))
    assert list(sitemap) == []
    assert (sitemap.skipped, sitemap.beyond) == (10, 90)


def test_a_truncated_sitemap_is_read_up_to_where_it_ends() -> None:
    cut = Sitemap(urlset(*numbered(10_000)).replace(b"</urlset>", b"<url><loc>https://a.exam"))
    assert [entry.loc for entry in cut] == list(numbered(10_000))
    assert (cut.truncated, cut.failure) == (True, None)


def test_a_truncated_gzip_stream_is_read_up_to_where_it_ends() -> None:
    packed = gzip.compress(urlset(*numbered(10_000)))
    sitemap = Sitemap(packed[: len(packed) // 2])
    found = [entry.loc for entry in sitemap]
    assert found == list(numbered(len(found)))
    assert len(found) > 1_000
    assert (sitemap.truncated, sitemap.failure) == (True, None)


def test_a_gzip_bomb_stops_at_the_limit() -> None:
    sitemap = Sitemap(gzip.compress(b"<urlset><url><loc>https://a.example/</loc></url>" + b" " * 120_000_000))
    assert [entry.loc for entry in sitemap] == ["https://a.example/"]
    assert sitemap.failure
    assert sitemap.failure.failure_class is FailureClass.BOMB


def test_a_large_sitemap_is_not_a_bomb() -> None:
    sitemap = Sitemap(urlset(*numbered(100)), limits=SitemapLimits(body_bytes=1_000))
    list(sitemap)
    assert sitemap.failure
    assert sitemap.failure.failure_class is FailureClass.TOO_LARGE


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", FailureClass.PARSE_ERROR),
        (b"<!doctype html><html><body><ul><li>a<li>b</body></html>", FailureClass.PARSE_ERROR),
        (b"<p>" * 1_000, FailureClass.PARSE_ERROR),
        (b'{"urls": ["https://a.example/"]}', FailureClass.PARSE_ERROR),
        (b'["https://a.example/"]', FailureClass.PARSE_ERROR),
        (b"Not found\n", FailureClass.PARSE_ERROR),
        (b"<error>nothing</error>", FailureClass.PARSE_ERROR),
        (b"<?xml version='1.0'?>", FailureClass.PARSE_ERROR),
        (b'<!DOCTYPE a [<!ENTITY x "y">]><urlset><url><loc>&x;</loc></url></urlset>', FailureClass.BOMB),
        (b"<urlset>" + b"<a>" * 1_000, FailureClass.BOMB),
        (b"\x1f\x8b" + b"x" * 100, FailureClass.DECODE),
        (gzip.compress(b"") * 100, FailureClass.BOMB),
    ],
)
def test_a_document_that_is_not_a_sitemap_fails_with_its_class(body: bytes, kind: FailureClass) -> None:
    assert failure(body) is kind


def test_published_sitemaps_are_read() -> None:
    found = {
        name: locs(body)
        for name, body in files(TRAFILATURA, "tests/resources/", ".xml", ".xml.gz")
        if "sitemap" in name
    }
    assert len(found) == 4
    assert all(found.values())
    assert found["sitemap.xml.gz"] == found["sitemap.xml"]


@given(st.binary(max_size=300))
def test_nothing_raises(body: bytes) -> None:
    for beginning in (b"", b"<urlset>", b"<urlset><url><loc>", b"\x1f\x8b\x08"):
        list(Sitemap(beginning + body))
