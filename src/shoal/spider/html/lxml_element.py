"""Selectors on an lxml tree: XPath, XML, and CSS that Lexbor does not support."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from lxml import etree

from shoal.model.errors import Bomb
from shoal.spider.html.css import xpath_of
from shoal.spider.html.selector import Selector, SelectorList, TextSelector

_NAMESPACES = {"re": "http://exslt.org/regular-expressions"}


class LxmlElement(Selector):
    """An element found by XPath, or an XML document."""

    __slots__ = ("_element", "_xml")

    def __init__(self, element: etree._Element, *, xml: bool = False) -> None:
        self._element = element
        self._xml = xml

    @classmethod
    def of_html(cls, markup: str | bytes) -> "LxmlElement":
        """Parse HTML with libxml2."""
        return cls(_parsed(markup, xml=False))

    @classmethod
    def of_xml(cls, markup: str | bytes) -> "LxmlElement":
        """Parse XML, repairing broken markup. Declared entities are not expanded and nothing is fetched.

        Raises `Bomb` if the entities would expand without limit.
        """
        return cls(_parsed(markup, xml=True), xml=True)

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
            element.tag = etree.QName(element).localname
            for name in [name for name in element.attrib if str(name).startswith("{")]:
                element.attrib[str(name).rpartition("}")[2]] = element.attrib.pop(name)
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


def _parsed(markup: str | bytes, *, xml: bool) -> etree._Element:
    text = markup if isinstance(markup, str) else markup.decode("utf-8", "replace")
    body = text.replace("\0", "").strip().encode("utf-8", "replace")
    parser: etree.XMLParser | etree.HTMLParser
    if xml:
        parser = etree.XMLParser(
            recover=True,
            encoding="utf-8",
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            huge_tree=False,
        )
    else:
        parser = etree.HTMLParser(recover=True, encoding="utf-8", huge_tree=True, no_network=True)
    try:
        root = etree.fromstring(body or b"<html/>", parser)
    except etree.XMLSyntaxError:  # in spite of `recover`: there is nothing to recover
        root = None
    if xml and any("entity amplification" in entry.message for entry in parser.error_log):
        raise Bomb("the entities of this XML expand without limit")
    return etree.Element("html") if root is None else root
