"""Selectors where parsel is no measure: errors, broken markup, and what Lexbor knows beyond it."""

import pytest

from shoal.spider.html.css import SCOPE
from shoal.spider.html.lexbor import LexborDocument
from shoal.spider.html.lxml_element import LxmlElement
from shoal.spider.html.selector import SelectorList

PAGE = LexborDocument(
    '<ul><li class="a">1<li>2<li class="a">3</ul><input disabled><svg><use xlink:href="#i" href="/j"/></svg>'
    '<table><tr><td>cell</table><p @click="x" :title="y">text<x:y>odd</x:y></p>'
)


@pytest.mark.parametrize(
    "query", ["", "p[[", "p::nope", "p::attr()", "> p", "p,", ":unknown(1)", "::attr(a, b)", "p:eq(1)"]
)
def test_invalid_css_raises_a_value_error(query: str) -> None:
    for where in (PAGE, PAGE.css("ul")[0], PAGE.xpath("//ul")[0]):
        with pytest.raises(ValueError, match="not a CSS selector"):
            where.css(query)


@pytest.mark.parametrize("query", ["//[", "nope:x", "$missing", "unknown()"])
def test_invalid_xpath_raises_a_value_error(query: str) -> None:
    for where in (PAGE, PAGE.css("ul")[0]):
        with pytest.raises(ValueError, match="not an XPath"):
            where.xpath(query)


def test_xpath_takes_variables_and_namespaces() -> None:
    assert PAGE.xpath("//li[text() = $n]/text()", n="2").getall() == ["2"]
    assert PAGE.css("ul").xpath("li[text() = $n]/text()", n="2").getall() == ["2"]
    assert PAGE.xpath("//x:li", namespaces={"x": "urn:x"}).getall() == []


@pytest.mark.parametrize("reference", ["&#xD800;", "&#55296;", "&#x0dFFf;", "&#xd800"])
def test_a_reference_to_a_surrogate_is_replaced(reference: str) -> None:
    assert LxmlElement.of_xml(f"<a>x{reference}</a>").text == "x\ufffd"
    assert LexborDocument(f"<p>x{reference}</p>").xpath("//p").css("::text").get() == "x\ufffd"


def test_namespaces_that_are_not_declared_are_removed_too() -> None:
    root = LxmlElement.of_xml("<r xmlns:y='urn:y'><x:a x:b='1' y:c='2'/></r>")
    root.remove_namespaces()
    assert root.css("a").attrib == {"b": "1", "c": "2"}


def test_css_that_only_lexbor_knows_works_too() -> None:
    assert PAGE.css("li:nth-child(2 of .a)::text").getall() == ["3"]
    assert PAGE.css("ul").css("li:nth-child(2 of .a) ::text").getall() == ["3"]
    assert PAGE.css("li:nth-child(2 of .a)::attr(class)").getall() == ["a"]


def test_tables_are_as_in_a_browser_for_css_and_what_follows_it() -> None:
    assert PAGE.css("table > tbody > tr > td::text").get() == "cell"
    assert PAGE.css("table").xpath("tbody/tr/td/text()").get() == "cell"


def test_an_attribute_without_a_value_is_empty() -> None:
    assert PAGE.css("input").attrib == {"disabled": ""}
    assert PAGE.css("input::attr(disabled)").getall() == [""]


def test_names_that_xml_forbids_do_not_stop_xpath() -> None:
    assert PAGE.css("use").attrib == {"xlink:href": "#i", "href": "/j"}
    assert PAGE.css("svg").xpath("use/@href").getall() == ["/j"]
    assert PAGE.css("p").xpath("text()").getall() == ["text"]
    assert PAGE.css("p").xpath("*/text()").getall() == ["odd"]
    assert PAGE.css("p").attrib == {"@click": "x", ":title": "y"}


def test_a_query_leaves_no_trace_on_the_page() -> None:
    before = PAGE.get()
    assert PAGE.css("ul").css("ul > li").getall()
    assert PAGE.css(":scope > body").getall()
    assert PAGE.get() == before
    assert SCOPE not in before


def test_strings_have_nothing_below_them() -> None:
    texts = PAGE.css("li::text")
    assert texts.css("li").getall() == texts.xpath("li").getall() == []
    assert texts.xpath(".").getall() == ["1", "2", "3"]
    assert texts.attrib == {}


def test_lists_are_lists_of_selectors() -> None:
    items = PAGE.css("li")
    assert isinstance(items[1:], SelectorList)
    assert items[1:].css("::text").getall() == ["2", "3"]
    assert items[-1].attrib == {"class": "a"}
    assert [item.css("::text").get() for item in items] == ["1", "2", "3"]
    assert PAGE.css("h1").get() is None
    assert PAGE.css("h1").get("none") == "none"
    assert PAGE.css("h1").attrib == {}


def test_selectors_can_be_looked_at() -> None:
    item = PAGE.css("li")[1]
    assert str(item) == item.get() == item.extract() == "<li>2</li>"
    assert item.getall() == ["<li>2</li>"]
    assert repr(item) == "<Selector '<li>2</li>'>"
    assert repr(PAGE).endswith("...'>")
    assert item
    assert not LexborDocument("<p></p>").css("p::attr(x)")
    assert PAGE.css("li").extract_first() == '<li class="a">1</li>'


def test_text_is_all_the_text_inside() -> None:
    assert PAGE.css("p")[0].text == "textodd"
    assert PAGE.xpath("//p")[0].text == "textodd"
    assert PAGE.css("p::text")[0].text == "text"
    assert LexborDocument("<p>a<b>b</b></p>").text == "ab"


@pytest.mark.parametrize(
    "markup", ["", "   ", "\0", "<", "<!--", "<![CDATA[", "<script>", b"\xff\xfe", "plain"]
)
def test_no_markup_is_too_broken(markup: str | bytes) -> None:
    document = LexborDocument(markup)
    assert isinstance(document.css("* ::text").getall(), list)
    assert isinstance(document.xpath("//text()").getall(), list)
    assert isinstance(document.css("body").xpath(".//text()").getall(), list)
    assert "<html>" in document.get()
    assert document.attrib == {}


def test_characters_that_xml_forbids_do_not_stop_xpath() -> None:
    page = LexborDocument("<p title='a\x01b'>x\x00y\x0bz\ufffe</p><!--a--b-->")
    assert page.css("p").xpath("@title").getall() == ["a\ufffdb"]
    assert page.css("p").xpath("text()").get("").startswith("x")
    assert page.css("html").xpath("//comment()").getall()
