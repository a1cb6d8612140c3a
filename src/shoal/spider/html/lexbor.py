"""Selectors on an HTML tree parsed by Lexbor."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from shoal.spider.html.css import SCOPE, Query, ResultType, compile_query, lexbor_selector
from shoal.spider.html.selector import Selector, SelectorList, TextSelector

if TYPE_CHECKING:
    from lxml import etree

    from shoal.spider.html.lxml_element import LxmlElement


# Tags, opening and closing, that are read of a page with more than memory allows: as many as are possible.
FEWER_TAGS = (250_000, 50_000, 10_000, 1_000)


class LexborDocument(Selector):
    """A whole HTML page; the beginning of one whose tree would need more memory than the process may use."""

    def __init__(self, markup: str | bytes, *, fewer: bool = False) -> None:
        self.tree, self._markup, self._cut = _parse_beginning(markup) if fewer else _parse(markup)
        self._root = self.tree.root  # kept: `tree.root` creates a new object on each access

    def css(self, query: str) -> SelectorList:
        compiled = compile_query(query)
        if not compiled.native:
            return self._element.css(query)
        root = self._root
        if root is None:
            return SelectorList()
        if compiled.css_uses_scope or not compiled.css:
            return _extract(compiled, _find_below(root, compiled), self)
        return _extract(compiled, lexbor_selector.find(compiled.css, root), self)

    def first(self, query: str) -> Selector | None:
        """Return the first result of `css`, without searching for the others."""
        compiled, root = compile_query(query), self._root
        selects_elements = compiled.native and compiled.result is ResultType.ELEMENT
        if root is not None and selects_elements and not compiled.css_uses_scope:
            # Not in the stubs, but `css_first` itself calls it.
            nodes: list[LexborNode] = lexbor_selector.find_first(compiled.css, root)  # type: ignore[attr-defined]
            return LexborElement(nodes[0], self) if nodes else None
        return next(iter(self.css(query)), None)

    def first_text(self, query: str) -> str | None:
        """Return the text of the first result of `css`, nested elements included; None: no match."""
        compiled, root = compile_query(query), self._root
        selects_elements = compiled.native and compiled.result is ResultType.ELEMENT
        if root is not None and selects_elements and not compiled.css_uses_scope:
            nodes: list[LexborNode] = lexbor_selector.find_first(compiled.css, root)  # type: ignore[attr-defined]
            return nodes[0].text() if nodes else None
        found = next(iter(self.css(query)), None)
        return None if found is None else found.text

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

    def beginning(self) -> "LexborDocument":
        """Return the beginning of the document alone, to be searched in less memory."""
        return LexborDocument(self._markup, fewer=True)

    @property
    def partial(self) -> str:
        """Why elements are missing from the tree, or from that of XPath; empty if none are known to be."""
        return self._cut or (self._element.partial if "_element" in vars(self) else "")

    @cached_property
    def _element(self) -> "LxmlElement":
        from shoal.spider.html.lxml_element import LxmlElement

        return LxmlElement.of_html(self._markup)

    @cached_property
    def copies(self) -> "dict[int, etree._Element]":
        """The lxml copy of every element of the tree, by `mem_id`."""
        from shoal.spider.html.lexbor_to_lxml import copy_tree

        return copy_tree(self.tree)


class LexborElement(Selector):
    """An element found by CSS."""

    __slots__ = ("_document", "_node")

    def __init__(self, node: LexborNode, document: LexborDocument) -> None:
        self._node = node
        self._document = document

    @property
    def node(self) -> LexborNode:
        return self._node

    def css(self, query: str) -> SelectorList:
        compiled = compile_query(query)
        if not compiled.native:
            return self._copy.css(query)
        return _extract(compiled, _find_below(self._node, compiled), self._document)

    def xpath(
        self, query: str, namespaces: Mapping[str, str] | None = None, **variables: Any
    ) -> SelectorList:
        return self._copy.xpath(query, namespaces, **variables)

    def ancestry(self) -> Iterator[int]:
        """Yield keys of this element and of those around it, from the inside out."""
        node: LexborNode | None = self._node
        while node is not None:
            yield node.mem_id
            node = node.parent

    def get(self) -> str:
        return self._node.html or ""

    @property
    def text(self) -> str:
        return self._node.text()

    @property
    def attrib(self) -> dict[str, str]:
        return _attributes(self._node)

    @property
    def _copy(self) -> "LxmlElement":
        from shoal.spider.html.lxml_element import LxmlElement

        return LxmlElement(self._document.copies[self._node.mem_id])


def nodes_of(selected: SelectorList) -> list[LexborNode]:
    """Return the nodes of the elements that were selected by CSS; other results have none."""
    return [one.node for one in selected if isinstance(one, LexborElement)]


def _find_below(node: LexborNode, query: Query) -> list[LexborNode]:
    """Return the nodes that match in `node` and below it."""
    if not query.scoped:
        return [node]
    if not query.scoped_uses_scope:
        return lexbor_selector.find(query.scoped, node)
    attributes = node.attrs
    attributes[SCOPE] = ""
    start = (node.parent or node) if query.has_siblings else node
    try:
        return lexbor_selector.find(query.scoped, start)
    finally:
        del attributes[SCOPE]


def _extract(query: Query, nodes: list[LexborNode], document: LexborDocument) -> SelectorList:
    """Return the elements, texts or attribute values that a query selects from matching nodes."""
    if query.several:
        nodes = list({node.mem_id: node for node in nodes}.values())
    match query.result:
        case ResultType.ELEMENT:
            return SelectorList([LexborElement(node, document) for node in nodes])
        case ResultType.TEXT:
            return SelectorList(map(TextSelector, _deep_texts(nodes) if query.deep else _own_texts(nodes)))
        case ResultType.ATTRIBUTE:
            if query.deep:
                nodes = [inner for node in _outermost(nodes) for inner in lexbor_selector.find("*", node)]
            return SelectorList(map(TextSelector, _values(nodes, query.attribute)))


def _values(nodes: Iterable[LexborNode], attribute: str) -> Iterator[str]:
    for node in nodes:
        try:
            yield node.attrs[attribute] or ""
        except KeyError:
            continue


def _own_texts(nodes: list[LexborNode]) -> list[str]:
    """Return the texts of the text nodes directly below `nodes`, in document order."""
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
    # Some nodes are inside others: the outer node's texts come before, between and after the inner one's.
    wanted = {node.mem_id for node in nodes}
    return [text for parent, text in _all_texts(outermost) if parent in wanted]


def _deep_texts(nodes: list[LexborNode]) -> list[str]:
    return [text for _, text in _all_texts(_outermost(nodes))]


def _all_texts(nodes: Iterable[LexborNode]) -> Iterator[tuple[int, str]]:
    """Yield the text nodes below `nodes`, each with the `mem_id` of its parent."""
    for top in nodes:
        for node in top.traverse(include_text=True):
            if node.is_text_node and node.parent is not None:
                yield node.parent.mem_id, node.text_content or ""


def _outermost(nodes: list[LexborNode]) -> list[LexborNode]:
    """Return the nodes that are not inside other ones."""
    # mem_id -> whether it is one of the nodes or inside one. Computed once per ancestor: without this cache,
    # deeply nested markup takes quadratic time.
    inside = {node.mem_id: True for node in nodes}
    outermost = []
    for node in nodes:
        passed = []
        above = node.parent
        while above is not None and above.mem_id not in inside:
            passed.append(above.mem_id)
            above = above.parent
        is_inside = above is not None and inside[above.mem_id]
        inside.update(dict.fromkeys(passed, is_inside))
        if not is_inside:
            outermost.append(node)
    return outermost


def _attributes(node: LexborNode) -> dict[str, str]:
    return {name: value or "" for name, value in node.attributes.items()}


def _parse(markup: str | bytes) -> tuple[LexborHTMLParser, str | bytes, str]:
    """Return the tree of a page, the markup that it is of, and why that is not the whole page."""
    try:
        return LexborHTMLParser(markup), markup, ""
    except SelectolaxError:  # what it raises when it gets no more memory
        return _parse_beginning(markup)


def _parse_beginning(markup: str | bytes) -> tuple[LexborHTMLParser, str | bytes, str]:
    """Return the tree of as many first tags as memory allows, their markup, and why that is not all."""
    units = "bytes" if isinstance(markup, bytes) else "characters"
    for tags in FEWER_TAGS:
        beginning = first_tags(markup, tags)
        why = (
            "the tree of the page needs more memory than parse.memory_bytes allows:"
            f" the first {len(beginning):,} of {len(markup):,} {units} were read"
        )
        try:
            return LexborHTMLParser(beginning), beginning, why
        except SelectolaxError:
            continue
    raise MemoryError


def first_tags(markup: str | bytes, most: int) -> str | bytes:
    """Return the beginning of a page with about `most` tags."""
    tags = markup.count(b"<") if isinstance(markup, bytes) else markup.count("<")
    # Not even, but close enough; a page is rarely ten times denser at its beginning.
    return markup[: int(len(markup) * min(0.5, most / max(tags, 1)))]
