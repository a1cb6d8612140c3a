"""Selectors on an lxml tree: XPath, XML, and CSS that Lexbor does not support."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from secrets import token_hex
from typing import Any

from lxml import etree

from shoal.model.errors import Bomb
from shoal.spider.html.css import xpath_of
from shoal.spider.html.selector import Selector, SelectorList, TextSelector

_NAMESPACES = {"re": "http://exslt.org/regular-expressions"}


class LxmlElement(Selector):
    """An element found by XPath, or an XML document."""

    __slots__ = ("_element", "_xml", "partial")

    def __init__(self, element: etree._Element, *, xml: bool = False, partial: str = "") -> None:
        self._element = element
        self._xml = xml
        self.partial = partial  # why elements of the document are missing; empty: none are

    @classmethod
    def of_html(cls, markup: str | bytes) -> "LxmlElement":
        """Parse HTML with libxml2."""
        root, partial = _parse_html(_to_utf_8(markup))
        return cls(root, partial=partial)

    @classmethod
    def of_xml(cls, markup: str | bytes) -> "LxmlElement":
        """Parse XML, repairing broken markup. Declared entities are not expanded and nothing is fetched.

        Raises `Bomb` if the entities would expand without limit.
        """
        root, partial = _parse_xml(_to_utf_8(markup))
        return cls(root, xml=True, partial=partial)

    def css(self, query: str) -> SelectorList:
        return self.xpath(xpath_of(query, xml=self._xml))

    def xpath(
        self, query: str, namespaces: Mapping[str, str] | None = None, **variables: Any
    ) -> SelectorList:
        try:
            found = _evaluator(query, tuple(sorted((namespaces or {}).items())))(self._element, **variables)
        except etree.XPathError as error:
            raise ValueError(f"not an XPath: {query!r}: {error}") from None
        return SelectorList(map(self._selector, found if isinstance(found, list) else [found]))

    def _selector(self, found: Any) -> Selector:
        match found:
            case str():
                return TextSelector(found)
            case bool():
                return TextSelector("1" if found else "0")
            case float():
                return TextSelector(str(found))
            case tuple():  # a namespace node: prefix and URI
                return TextSelector(str(found[1]))
        return LxmlElement(found, xml=self._xml)

    def ancestry(self) -> Iterator[etree._Element]:
        """Yield keys of this element and of those around it, from the inside out."""
        element: etree._Element | None = self._element
        while element is not None:
            yield element
            element = element.getparent()

    def get(self) -> str:
        method = "xml" if self._xml else "html"
        return etree.tostring(self._element, method=method, encoding="unicode", with_tail=False)

    @property
    def text(self) -> str:
        return "".join(map(str, self._element.itertext()))

    @property
    def attrib(self) -> dict[str, str]:
        return {str(name): str(value) for name, value in self._element.attrib.items()}

    def remove_namespaces(self) -> None:
        """Remove the namespaces of this element and all below it, so that queries need no prefixes."""
        for element in self._element.iter("*"):
            _rename(element)
        etree.cleanup_namespaces(self._element)


@lru_cache(maxsize=1024)
def _evaluator(query: str, namespaces: tuple[tuple[str, str], ...]) -> Callable[..., Any]:
    return etree.XPath(
        query,
        namespaces=_NAMESPACES | dict(namespaces),
        extensions={(None, "has-class"): _has_class},
        smart_strings=False,
    )


def _has_class(context: Any, *names: str) -> bool:
    """Implement `has-class("a", "b")` in XPath, like parsel."""
    present = context.context_node.get("class", "").split()
    return all(name in present for name in names)


def _rename(element: etree._Element) -> None:
    """Remove the namespaces of one element and its attributes, and prefixes that are not declared."""
    try:
        element.tag = _local_name(element.tag)
        for name in [str(name) for name in element.attrib if ":" in str(name) or "{" in str(name)]:
            element.attrib[_local_name(name)] = element.attrib.pop(name)
    except ValueError:
        return  # libxml2 has read a name that is not one in XML: it stays


def _local_name(name: object) -> str:
    return str(name).rpartition("}")[2].rpartition(":")[2]


# Appended to a document: where it is found shows whether libxml2 has read everything before it. The error log
# cannot show that, because it ends after 100 errors.
_END = f"end-{token_hex(8)}"
# References to surrogates: libxml2 would write bytes that are not UTF-8.
_SURROGATE = re.compile(rb"&#(?:[xX]0*+([dD][89a-fA-F][0-9a-fA-F]{2})|0*+(5[5-7][0-9]{3}));?")


def _to_utf_8(markup: str | bytes) -> bytes:
    text = markup if isinstance(markup, str) else markup.decode("utf-8", "replace")
    body = text.replace("\0", "").strip().encode("utf-8", "replace")
    return _SURROGATE.sub(_replace_surrogate, body) if b"&#" in body else body


def _replace_surrogate(found: re.Match[bytes]) -> bytes:
    code = int(found[1], 16) if found[1] else int(found[2])
    return b"\xef\xbf\xbd" if 0xD800 <= code <= 0xDFFF else found[0]


def _parse_html(body: bytes) -> tuple[etree._Element, str]:
    parser = etree.HTMLParser(recover=True, encoding="utf-8", huge_tree=True, no_network=True)
    root = _read(body or b"<html/>", parser)
    limits = [entry for entry in parser.error_log if entry.type_name == "ERR_RESOURCE_LIMIT"]
    return _or_empty(
        root
    ), f"XPath saw the HTML up to line {limits[0].line}: too deep or too long" if limits else ""


def _parse_xml(body: bytes) -> tuple[etree._Element, str]:
    # Without libxml2's limits on the length of a text and on the depth, but only where no entity is declared:
    # they are part of its protection against entity bombs.
    huge = b"<!ENTITY" not in body
    parser = etree.XMLParser(
        recover=True,
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=huge,
    )
    root = _read(body + f"<?{_END}?>".encode(), parser)
    if any("entity amplification" in entry.message for entry in parser.error_log):
        raise Bomb("the entities of this XML expand without limit")
    if root is None:
        return _or_empty(None), "it is not XML" if body else ""
    return root, _why_partial(root, parser)


def _why_partial(root: etree._Element, parser: etree.XMLParser) -> str:
    """Return why elements of the document are missing, and remove the mark at its end."""
    after = root.getnext()
    while after is not None:
        if _is_end(after):
            return ""
        after = after.getnext()
    last = root
    while len(last):
        last = last[-1]
    if _is_end(last):
        parent = last.getparent()
        assert parent is not None
        parent.remove(last)
        return "the XML ends early"
    entry = next(iter(parser.error_log.filter_from_level(etree.ErrorLevels.FATAL)), None)
    return (
        "the rest of the XML is unreadable"
        if entry is None
        else f"the XML is broken in line {entry.line}: {entry.type_name}"
    )


def _is_end(node: etree._Element) -> bool:
    return isinstance(node, etree._ProcessingInstruction) and node.target == _END


def _read(body: bytes, parser: "etree.XMLParser | etree.HTMLParser") -> etree._Element | None:
    try:
        return etree.fromstring(body, parser)
    except etree.XMLSyntaxError:  # in spite of `recover`: there is nothing to recover
        return None


def _or_empty(root: etree._Element | None) -> etree._Element:
    return etree.Element("html") if root is None else root
