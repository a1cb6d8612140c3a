"""Selectors on HTML, by Lexbor."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from shoal.spider.html.css import SCOPE, Query, Take, compiled, lexbor
from shoal.spider.html.selector import Selector, SelectorList, Text

if TYPE_CHECKING:
    from lxml import etree

    from shoal.spider.html.lxml_element import Element


class Document(Selector):
    """A whole page of HTML."""

    def __init__(self, markup: str | bytes) -> None:
        self._markup = markup
        self.tree = LexborHTMLParser(markup)
        self._root = self.tree.root  # the tree would make another of it each time it is asked

    def css(self, query: str) -> SelectorList:
        asked = compiled(query)
        if not asked.native:
            return self._element.css(query)
        root = self._root
        if root is None:
            return SelectorList()
        if asked.marks_root or not asked.css:
            return _selected(asked, _found_from(root, asked), self)
        return _selected(asked, lexbor.find(asked.css, root), self)

    def first(self, query: str) -> Selector | None:
        """Give the first that `css` would find, without looking for the others."""
        asked, root = compiled(query), self._root
        if root is not None and asked.native and asked.take is Take.ELEMENT and not asked.marks_root:
            # Not in the stubs, but what `css_first` itself calls.
            nodes: list[LexborNode] = lexbor.find_first(asked.css, root)  # type: ignore[attr-defined]
            return Node(nodes[0], self) if nodes else None
        return next(iter(self.css(query)), None)

    def xpath(
        self, query: str, namespaces: Mapping[str, str] | None = None, **variables: Any
    ) -> SelectorList:
        return self._element.xpath(query, namespaces, **variables)

    def get(self) -> str:
        return self.tree.html or ""

    @property
    def text(self) -> str:
        return self._root.text() if self._root else ""

    @property
    def attrib(self) -> dict[str, str]:
        return _attributes(self._root) if self._root else {}

    @cached_property
    def _element(self) -> "Element":
        from shoal.spider.html.lxml_element import Element

        return Element.of_html(self._markup)

    @cached_property
    def copies(self) -> "dict[int, etree._Element]":
        """Every element of the tree in lxml, by `mem_id`."""
        from shoal.spider.html.lexbor_to_lxml import mirror

        return mirror(self.tree)


class Node(Selector):
    """An element that CSS found."""

    __slots__ = ("_document", "_node")

    def __init__(self, node: LexborNode, document: Document) -> None:
        self._node = node
        self._document = document

    def css(self, query: str) -> SelectorList:
        asked = compiled(query)
        if not asked.native:
            return self._copy.css(query)
        return _selected(asked, _found_from(self._node, asked), self._document)

    def xpath(
        self, query: str, namespaces: Mapping[str, str] | None = None, **variables: Any
    ) -> SelectorList:
        return self._copy.xpath(query, namespaces, **variables)

    def get(self) -> str:
        return self._node.html or ""

    @property
    def text(self) -> str:
        return self._node.text()

    @property
    def attrib(self) -> dict[str, str]:
        return _attributes(self._node)

    @property
    def _copy(self) -> "Element":
        from shoal.spider.html.lxml_element import Element

        return Element(self._document.copies[self._node.mem_id])


def _found_from(node: LexborNode, asked: Query) -> list[LexborNode]:
    if not asked.scoped:
        return [node]
    if not asked.marks:
        return lexbor.find(asked.scoped, node)
    marks = node.attrs
    marks[SCOPE] = ""
    start = (node.parent or node) if asked.beside else node
    try:
        return lexbor.find(asked.scoped, start)
    finally:
        del marks[SCOPE]


def _selected(asked: Query, nodes: list[LexborNode], document: Document) -> SelectorList:
    if asked.several:
        nodes = list({node.mem_id: node for node in nodes}.values())
    match asked.take:
        case Take.ELEMENT:
            return SelectorList([Node(node, document) for node in nodes])
        case Take.TEXT:
            return SelectorList(map(Text, _deep_texts(nodes) if asked.deep else _own_texts(nodes)))
        case Take.ATTRIBUTE:
            if asked.deep:
                nodes = [inner for node in _outermost(nodes) for inner in lexbor.find("*", node)]
            return SelectorList(map(Text, _values(nodes, asked.attribute)))


def _values(nodes: Iterable[LexborNode], attribute: str) -> Iterator[str]:
    for node in nodes:
        try:
            yield node.attrs[attribute] or ""
        except KeyError:
            continue


def _own_texts(nodes: list[LexborNode]) -> list[str]:
    """Collect the text nodes right below `nodes`, in document order."""
    texts = []
    leaves = True
    for node in nodes:
        child = node.first_child
        while child is not None:
            if child.is_text_node:
                texts.append(child.text_content or "")
            else:
                leaves = False
            child = child.next
    if leaves or len(nodes) < 2:
        return texts
    outermost = _outermost(nodes)
    if len(outermost) == len(nodes):
        return texts
    # Some are inside others, whose texts come before, between and after theirs.
    wanted = {node.mem_id for node in nodes}
    return [text for parent, text in _all_texts(outermost) if parent in wanted]


def _deep_texts(nodes: list[LexborNode]) -> list[str]:
    return [text for _, text in _all_texts(_outermost(nodes))]


def _all_texts(nodes: Iterable[LexborNode]) -> Iterator[tuple[int, str]]:
    """Walk the text nodes below `nodes`, each with its parent's identity."""
    for top in nodes:
        for node in top.traverse(include_text=True):
            if node.is_text_node and node.parent is not None:
                yield node.parent.mem_id, node.text_content or ""


def _outermost(nodes: list[LexborNode]) -> list[LexborNode]:
    """Leave out nodes that are inside others."""
    # Whether a node is one of them or inside one; each is judged once, or deep markup would take for ever.
    inside = {node.mem_id: True for node in nodes}
    outermost = []
    for node in nodes:
        passed = []
        above = node.parent
        while above is not None and above.mem_id not in inside:
            passed.append(above.mem_id)
            above = above.parent
        verdict = above is not None and inside[above.mem_id]
        inside.update(dict.fromkeys(passed, verdict))
        if not verdict:
            outermost.append(node)
    return outermost


def _attributes(node: LexborNode) -> dict[str, str]:
    return {name: value or "" for name, value in node.attributes.items()}
