"""Feeds, with feedparser's own cases and expectations as the judge."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.corpora.packages import FEEDPARSER, TRAFILATURA, files

from shoal.model.failure import FailureClass
from shoal.spider.feeds.feed import Feed, FeedEntry, read_feed

# The links that feedparser 6.0.14 returns for its well-formed test cases, where it returns any.
LINKS: dict[str, list[str]] = json.loads(Path(__file__).with_name("feed_links.json").read_text())
DIFFERENCES = {
    "atom10/entry_id_with_attributes.xml": "an identifier that is not a URL is not a link",
    "base/http_entry_id_base_content_location.xml": "an identifier that is not a URL is not a link",
    "base/http_entry_id_base_docuri.xml": "an identifier that is not a URL is not a link",
    "lang/http_content_language_entry_title_inherit_2.xml": "an identifier that is not a URL is not a link",
    "node_precedence/atom10_id.xml": "an identifier that is not a URL is not a link",
    "base/cdf_item_abstract_xml_base.xml": "CDF died in 2000",
    "cdf/item_href_map_link.xml": "CDF died in 2000",
    "cdf/item_href_map_links.xml": "CDF died in 2000",
    "rss/item_guid_isPermaLink_ValueError.xml": "whether an address is a good one is asked later",
}


def test_rss() -> None:
    body = b"""<rss version="2.0"><channel><title>News &amp; more</title><link>https://a.example/</link>
        <item><title><![CDATA[One <b>two</b>]]></title><link>https://a.example/1?a=1&b=2</link>
        <guid isPermaLink="false">id-1</guid><pubDate>Mon, 06 May 2024 07:08:09 GMT</pubDate></item>
        <item><guid>https://a.example/2</guid></item></channel></rss>"""
    published = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    assert read_feed(body) == Feed(
        title="News & more",
        link="https://a.example/",
        entries=(
            FeedEntry("https://a.example/1?a=1&b=2", "One <b>two</b>", "id-1", published),
            FeedEntry("https://a.example/2", id="https://a.example/2"),
        ),
    )


def test_atom() -> None:
    body = b"""<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://evil.example/"><title>News</title>
        <link rel="self" href="/feed"/><link href="/"/>
        <entry><title type="xhtml"><div>One <i>two</i></div></title><id>tag:1</id>
        <link rel="enclosure" href="/1.mp3"/><link rel="alternate" type="application/json" href="/1.json"/>
        <link rel="alternate" type="text/html" href="/1"/><updated>2024-05-06</updated></entry></feed>"""
    assert read_feed(body) == Feed(
        title="News",
        link="/",
        entries=(FeedEntry("/1", "One two", "tag:1", updated=datetime(2024, 5, 6, tzinfo=UTC)),),
    )


def test_rdf() -> None:
    body = b"""<rdf:RDF xmlns:rdf="r"><channel><title>News</title></channel>
        <item><title>One</title><link>https://a.example/1</link><dc:date>2024-05-06</dc:date></item></rdf:RDF>"""
    found = read_feed(body)
    assert found.title == "News"
    assert found.entries == (
        FeedEntry("https://a.example/1", "One", published=datetime(2024, 5, 6, tzinfo=UTC)),
    )


def test_other_vocabularies_do_not_name_an_entry() -> None:
    body = b"<rss><channel><item><media:title>no</media:title><title>yes</title><itunes:title>no</itunes:title></item></channel></rss>"
    assert [entry.title for entry in read_feed(body).entries] == ["yes"]


def test_a_truncated_feed_is_read_up_to_where_it_ends() -> None:
    found = read_feed(
        b"<rss><channel><item><link>https://a.example/1</link></item><item><title>x</title><link>https://a.exa"
    )
    assert [entry.link for entry in found.entries] == ["https://a.example/1", ""]
    assert found.truncated


def test_entries_above_the_limit_are_counted() -> None:
    found = read_feed(b"<rss><channel>" + b"<item></item>" * 10_003 + b"</channel></rss>")
    assert (len(found.entries), found.beyond) == (10_000, 3)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", FailureClass.PARSE_ERROR),
        (b"<html><body>", FailureClass.PARSE_ERROR),
        (b'{"version": "https://jsonfeed.org/version/1"}', FailureClass.PARSE_ERROR),
        (b'<!DOCTYPE rss [<!ENTITY x "y">]><rss/>', FailureClass.BOMB),
    ],
)
def test_a_document_that_is_not_a_feed_fails_with_its_class(body: bytes, kind: FailureClass) -> None:
    found = read_feed(body).failure
    assert found
    assert found.failure_class is kind


def test_odd_feeds_have_the_links_that_feedparser_finds() -> None:
    found = {
        name: [entry.link for entry in read_feed(body).entries]
        for name, body in files(FEEDPARSER, "tests/wellformed", ".xml")
    }
    assert len(found) > 1_700
    different = {name for name, links in found.items() if links != LINKS.get(name, [""] * len(links))}
    assert different == set(DIFFERENCES)


def test_ill_formed_feeds_are_read_without_complaint() -> None:
    found = {name: read_feed(body) for name, body in files(FEEDPARSER, "tests/illformed", ".xml")}
    assert {name for name, one in found.items() if one.failure} == {"rss_empty_document.xml"}


def test_published_feeds_are_read() -> None:
    found = {
        name: read_feed(body) for name, body in files(TRAFILATURA, "tests/resources/feed", ".atom", ".rss")
    }
    assert len(found) == 2
    for one in found.values():
        assert one.title
        assert one.entries
        assert all(entry.title for entry in one.entries)
        assert any(entry.link.startswith("http") for entry in one.entries)


@given(st.binary(max_size=300))
def test_nothing_raises(body: bytes) -> None:
    for beginning in (b"", b"<rss><channel><item>", b"<feed><entry><link "):
        read_feed(beginning + body)
