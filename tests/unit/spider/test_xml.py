"""The tag reader against libxml2 where documents are in order, and against attacks where they are not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from tests.corpora.packages import FEEDPARSER, files

from shoal.spider.feeds.xml_records import UnexpectedDocument, read_records
from shoal.spider.feeds.xml_tokens import MaliciousXml, tokenize, unescape
from shoal.spider.text.decoding import decode


class Events:
    """What a parser sees, names without namespaces, in the form that lxml wants of a target."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._text = ""

    def start(self, tag: Any, attrib: object = None) -> None:
        self._flush()
        self.seen.append(f"<{_local(tag)}>")

    def end(self, tag: Any) -> None:
        self._flush()
        self.seen.append(f"</{_local(tag)}>")

    def data(self, data: Any) -> None:
        self._text += data

    def comment(self, text: object) -> None:
        """Comments are not seen."""

    def close(self) -> list[str]:
        return self.seen

    def _flush(self) -> None:
        if text := " ".join(self._text.split()):
            self.seen.append(text)
        self._text = ""


def _local(tag: str) -> str:
    return tag.rpartition("}")[2].rpartition(":")[2]


def ours(text: str, size: int = 1 << 20) -> list[str]:
    events = Events()
    raw = ""
    for slash, tag, source, tail in tokenize(text[at : at + size] for at in range(0, len(text), size)):
        if tag:
            events.data(unescape(raw))
            raw = ""
            if not slash:
                events.start(tag)
            if slash or source.endswith("/"):
                events.end(tag)
        raw += tail
    return events.seen


def theirs(body: bytes) -> list[str] | None:
    parser = etree.XMLParser(target=Events(), resolve_entities=False, no_network=True)
    try:
        return list(etree.fromstring(body, parser))
    except etree.XMLSyntaxError:
        return None


def test_real_documents_are_seen_as_libxml2_sees_them() -> None:
    compared = 0
    for name, body in files(FEEDPARSER, "tests/wellformed", ".xml"):
        if b"<!ENTITY" in body or (expected := theirs(body)) is None:
            continue
        text = decode(body).text
        assert ours(text) == expected, name
        assert ours(text, 7) == expected, f"{name}, in pieces"
        compared += 1
    assert compared > 1_500


@given(st.text(alphabet="<>/!?[]-&;=\"' abDOCTYPENI%", max_size=120), st.integers(1, 40))
def test_how_a_document_is_cut_into_pieces_does_not_matter(text: str, size: int) -> None:
    def seen(size: int) -> list[str] | str:
        try:
            return ours(text, size)
        except MaliciousXml as hostile:
            return str(hostile)

    assert seen(size) == seen(1_000)


def test_references_become_characters_and_addresses_stay_whole() -> None:
    assert unescape("&lt;&#233;&#xE9;&eacute;&amp;amp;") == "<ééé&amp;"
    assert unescape("/?a=1&b=2&copy=3&lt=4&nosuch;") == "/?a=1&b=2&copy=3&lt=4&nosuch;"
    assert unescape("&#0;&#xD800;&#1114112;&#99999999;") == "\ufffd\ufffd\ufffd&#99999999;"


BILLION_LAUGHS = '<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol1 "&lol;&lol;&lol;&lol;">]><urlset>&lol1;</urlset>'
QUADRATIC = f'<!DOCTYPE a [ <!ENTITY x "{"x" * 50_000}"> ]><urlset>{"&x;" * 50_000}</urlset>'
MANY_REFERENCES = f'<!DOCTYPE a [<!ENTITY x "">]><urlset>{"&x;" * 1_000_000}</urlset>'
FILE = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><urlset>&x;</urlset>'
ADDRESS = '<!DOCTYPE a [<!ENTITY x SYSTEM "http://127.0.0.1/">]><urlset>&x;</urlset>'
BEHIND_A_COMMENT = '<!DOCTYPE a [<!-- ]> --><!ENTITY x "y">]><urlset>&x;</urlset>'
ENDLESS = "<!DOCTYPE a [" + "<!ELEMENT a ANY>" * 10_000


@pytest.mark.parametrize(
    "document", [BILLION_LAUGHS, QUADRATIC, MANY_REFERENCES, FILE, ADDRESS, BEHIND_A_COMMENT, ENDLESS]
)
@pytest.mark.parametrize("size", [1_000, 1 << 20])
def test_a_document_that_declares_entities_is_refused(document: str, size: int) -> None:
    with pytest.raises(MaliciousXml):
        ours(document, size)


@pytest.mark.parametrize(
    "document",
    [
        '<!DOCTYPE a SYSTEM "http://127.0.0.1/a.dtd"><a>x</a>',
        '<!DOCTYPE a [<!ENTITY % x SYSTEM "http://127.0.0.1/a.dtd"> %x;]><a>x</a>',
        "<!DOCTYPE a [<!ELEMENT a ANY>]><a>x</a>",
        '<?xml-stylesheet type="text/xsl" href="http://127.0.0.1/a.xsl"?><a>x</a>',
    ],
)
def test_links_to_other_rels_are_skipped(document: str) -> None:
    assert ours(document) == ["<a>", "x", "</a>"]


def test_nesting_has_an_end() -> None:
    with pytest.raises(MaliciousXml, match="nested"):
        list(read_records(["<a>" * 300], {"a"}, set(), set()))


def test_the_outermost_element_decides_whether_the_document_is_read() -> None:
    with pytest.raises(UnexpectedDocument, match="html"):
        list(read_records(["<html><url/>"], {"urlset"}, {"url"}, set()))
    with pytest.raises(UnexpectedDocument, match="no elements"):
        list(read_records(["nothing here"], {"urlset"}, {"url"}, set()))


def test_records_come_with_the_fields_right_below_them() -> None:
    document = (
        "<r><x:item xmlns:x='u'><x:a k='1 &gt; 0'>one<b>two</b></x:a><y:a>not ours</y:a><deep><x:a>no</x:a></deep>"
        "</x:item><item><a>cut"
    )
    first, second, root = read_records([document], {"r"}, {"item"}, {"a"})
    assert [(field.text, field.attributes) for field in first.own("a")] == [("onetwo", {"k": "1 > 0"})]
    assert (first.complete, second.complete, second.fields, root.name) == (True, False, [], "r")


def test_tags_that_do_not_match_cost_one_record_not_the_rest() -> None:
    document = "<r><item><a>1</b></a></item><item><a>2</item><item><a>3</a></item></r>"
    found = [
        [field.text for field in record.fields] for record in read_records([document], {"r"}, {"item"}, {"a"})
    ]
    assert found == [["1"], ["2"], ["3"], []]
