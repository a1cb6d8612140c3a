"""Selectors against parsel itself: the same queries on the same pages give the same strings.

Pages here are ones that libxml2 and a browser read alike, so that only selectors can differ. Markup that was
found is compared by what is in it, because the two serialise differently.
"""

import re
from collections.abc import Callable
from typing import Any

import parsel
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shoal.spider.html.lexbor import LexborDocument
from shoal.spider.html.selector import Selector, SelectorList

PAGE = """<!DOCTYPE html>
<html lang="en"><head><title>A shop &amp; more</title><script>var a = "<p>";</script></head>
<body class="home page">
<div id="d1" class="x"><p id="p1">a<b id="b1">x<i>deep</i></b>c<!-- no -->d</p>
<div id="d2" class="x y"><p id="p2" data-k="v w">hello <em>World</em></p><a id="a1" href="/one?a=1&amp;b=2">one</a></div></div>
<p id="p3"></p><p id="p4">  spaced\u00a0out &lt;b&gt; &#163;10  </p>
<ul class="list"><li class="odd">1</li><li>2</li><li class="odd last"><a href="/two" title="2 two">3</a></li></ul>
<dl><dt>Price</dt><dd>10</dd><dt>Stock</dt><dd>5</dd></dl>
<table><thead><tr><th>h</th></tr></thead><tbody><tr><td>c1</td><td>c2</td></tr><tr><td>c3</td><td></td></tr></tbody></table>
<form><input name="q" value="v"><select><option selected="selected">s</option><option>t</option></select></form>
</body></html>"""

CSS = """
p | div p | div > p | div div p | p, .x | div.x, .y | p ~ div | p + div | div:not(.y) | :root | * | body * | li:first-child
li:nth-child(2) | li:nth-child(odd) | li:nth-child(2n+1) | li:last-of-type | li:nth-last-child(1) | li:only-child | p:empty
a[href] | [id] | [id^=p] | [id$='1'] | [id*=p] | [class~=y] | [lang|=en] | [id=P1 i] | [data-k='v w'] | #p1 #b1 | .odd.last
div:has(> p) | div:has(em) | p:is(#p1, #p2) | div:where(.y) | p:contains("World") | dt:contains('Price') + dd::text | :scope > body
li:contains('2') | a[href!='/two'] | option:checked | td:nth-of-type(2)::text | h1 | h1::text | :lang(en) | p:hover | a:link::text
p::text | p ::text | p *::text | ::text | *::text | div::text | div ::text | body > ::text | title::text | script::text | li::text
b::text, p::text | p::text, a::attr(id) | p ::text, a::text | em ::text, b ::text | ::attr(id) | #d2 ::attr(id) | a::attr(href)
a::attr(nope) | p::attr(data-k) | p::attr('data-k') | li::attr(class) | li > a::attr(title) | a::attr(href), p::attr(id) | html::attr(lang)
"""
QUERIES = [query.strip() for line in CSS.strip().splitlines() for query in line.split(" | ")]
XPATHS = """
//p | //p/text() | //a/@href | count(//p) | //p[1] | boolean(//h1) | string(//title) | .//li[last()]/a/text() | //div[@id="d2"]/p
//dt[text()="Price"]/following-sibling::dd[1]/text() | //a[re:test(@href, "two$")]/@title | normalize-space(//p[@id="p4"]) | //comment()
//li[position() > 1] | //*[@class] | //*[has-class("x", "y")]/@id | //p/.. | /html/head/title/text() | concat("a", "b") | //nope | name(//*[@id="p1"])
"""
XPATH_QUERIES = [query.strip() for line in XPATHS.strip().splitlines() for query in line.split(" | ")]


def shape(found: str) -> object:
    """Reduce markup to names, attributes and texts, and leave other strings alone."""
    if not found.startswith("<"):
        return found
    tree = parsel.Selector(f"<html>{found}</html>")
    return [
        (node.root.tag, sorted(node.root.attrib.items()), node.xpath("text()").getall())
        for node in tree.xpath("//*[not(self::html or self::body or self::head)]")
    ]


def shapes(found: "SelectorList | parsel.SelectorList[parsel.Selector]") -> list[object]:
    return [shape(text) for text in found.getall()]


@pytest.fixture(scope="module")
def ours() -> Selector:
    return LexborDocument(PAGE)


@pytest.fixture(scope="module")
def theirs() -> parsel.Selector:
    return parsel.Selector(PAGE)


def test_css_on_a_page(ours: Selector, theirs: parsel.Selector) -> None:
    assert disagreements(ours.css, theirs.css, QUERIES) == {}


def test_attributes_of_what_css_found(ours: Selector, theirs: parsel.Selector) -> None:
    for query in QUERIES:
        if "::" not in query:
            assert ours.css(query).attrib == theirs.css(query).attrib, query


def disagreements(
    ours: Callable[[str], SelectorList], theirs: Callable[[str], Any], queries: list[str]
) -> dict[str, tuple[list[object], list[object]]]:
    found = {query: (shapes(ours(query)), shapes(theirs(query))) for query in queries}
    return {query: (one, other) for query, (one, other) in found.items() if one != other}


@pytest.mark.parametrize("context", ["div", "#d2", "ul", "li", "p", "tr", "dl", "body", "a"])
def test_css_below_what_css_found(context: str, ours: Selector, theirs: parsel.Selector) -> None:
    assert disagreements(ours.css(context).css, theirs.css(context).css, QUERIES) == {}


def test_xpath_on_a_page(ours: Selector, theirs: parsel.Selector) -> None:
    assert disagreements(ours.xpath, theirs.xpath, XPATH_QUERIES) == {}


@pytest.mark.parametrize("context", ["#d2", "li", "dt", "td", "p"])
def test_xpath_below_what_css_found(context: str, ours: Selector, theirs: parsel.Selector) -> None:
    queries = [*XPATH_QUERIES, "..", "ancestor::*/@id", "following::text()", "self::p", "./text()", "."]
    assert disagreements(ours.css(context).xpath, theirs.css(context).xpath, queries) == {}


@pytest.mark.parametrize("context", ["//div", "//li", "//p", "//p/text()", "//a/@href"])
def test_css_below_what_xpath_found(context: str, ours: Selector, theirs: parsel.Selector) -> None:
    assert disagreements(ours.xpath(context).css, theirs.xpath(context).css, QUERIES) == {}


REGEXES = [
    r"\d+",
    r"(\w)(\w)?",
    r"href=\"(?P<extract>[^\"]+)",
    r"(?P<extract>zzz)|x",
    r"&\w+;",
    re.compile("HELLO", re.I),
    "$^",
]


@pytest.mark.parametrize("regex", REGEXES)
def test_regular_expressions(regex: str, ours: Selector, theirs: parsel.Selector) -> None:
    for query in ("p::text", "li", "a", "a::attr(href)", "h1"):
        one, other = ours.css(query), theirs.css(query)
        for replace in (True, False):
            assert one.re(regex, replace) == other.re(regex, replace)
            assert one.re_first(regex, "none", replace) == other.re_first(regex, "none", replace)
        assert [found.re_first(regex) for found in one] == [found.re_first(regex) for found in other]


ENTITIES = st.lists(
    st.sampled_from(
        [
            "&",
            "#",
            "x",
            ";",
            "lt",
            "amp",
            "pound",
            "nbsp",
            "POUND",
            "bogus",
            "65",
            "x41",
            "128",
            "x81",
            "0",
            "55296",
            "99999999999",
            "a ",
        ]
    ),
    max_size=8,
).map("".join)


@given(ENTITIES)
def test_entities_in_matches(text: str) -> None:
    markup = f"<p>{text.replace('&', '&amp;')}</p>"
    assert LexborDocument(markup).css("p::text").re("(?s).+") == parsel.Selector(markup).css("p::text").re(
        "(?s).+"
    )


# --- generated pages ---------------------------------------------------------------------------------

texts = st.sampled_from(["a", "b c", " ", "é", "&amp;", "1\n2"])
classes = st.sampled_from(["", ' class="x"', ' class="x y"', ' id="i"', ' title="t"'])


def element(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    tags = st.sampled_from(["div", "span", "b", "em", "section"])
    return st.tuples(tags, classes, st.lists(children, max_size=4).map("".join)).map(
        lambda parts: f"<{parts[0]}{parts[1]}>{parts[2]}</{parts[0]}>"
    )


comments = st.just("<!--c-->")
bodies = st.recursive(texts | comments, element, max_leaves=20)
pages = st.lists(bodies, max_size=4).map(
    lambda parts: f"<!DOCTYPE html><html><head></head><body><div>{''.join(parts)}</div></body></html>"
)

simple = st.sampled_from(
    [
        "div",
        "span",
        "b",
        "em",
        "*",
        ".x",
        ".y",
        "#i",
        "[title]",
        "b:first-child",
        "div.x",
        ":not(.x)",
        "section:last-of-type",
    ]
)
combined = st.recursive(
    simple,
    lambda inner: st.tuples(inner, st.sampled_from([" ", " > ", " + ", " ~ "]), simple).map("".join),
    max_leaves=3,
)
taking = st.sampled_from(["", "", "::text", " ::text", "::attr(class)", " ::attr(id)"])
one_query = st.tuples(combined, taking).map("".join)
queries = st.lists(one_query, min_size=1, max_size=2).map(", ".join)


@given(pages, queries)
@example('<body><div><div class="x"><div></div></div></div></body>', "* :not(.x) div")
@example('<body><section><p><b class="x"><em></em></b></p></section></body>', "section :not(.x) em")
def test_any_query_on_any_page(page: str, query: str) -> None:
    assert shapes(LexborDocument(page).css(query)) == shapes(parsel.Selector(page).css(query))


@given(pages, combined, queries)
def test_any_query_below_any_other(page: str, context: str, query: str) -> None:
    assert shapes(LexborDocument(page).css(context).css(query)) == shapes(
        parsel.Selector(page).css(context).css(query)
    )


@given(
    pages,
    combined,
    st.sampled_from(["text()", ".//text()", "../@class", "preceding::*", "*[1]", "//b", "string()"]),
)
def test_xpath_below_any_query(page: str, context: str, query: str) -> None:
    assert shapes(LexborDocument(page).css(context).xpath(query)) == shapes(
        parsel.Selector(page).css(context).xpath(query)
    )
