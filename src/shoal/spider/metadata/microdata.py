"""Microdata: the items that `itemscope` and `itemprop` spread over a page, as the standard's JSON has them.

Nodes are found once, in document order, and each property goes to the nearest scope above it or, through
`itemref`, to the item that asked for it. Nodes, hops and text are bounded, and no item ends up inside itself.
"""

from collections.abc import Callable, Iterable
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from shoal.model.limits import MIB

_NODES = 10_000
_HOPS = 512  # upwards, from a property to its scope
_NESTED = 32  # items inside items
_TEXT = 4 * MIB  # characters of all values together

_ADDRESS = {
    **dict.fromkeys(("audio", "embed", "iframe", "img", "source", "track", "video"), "src"),
    **dict.fromkeys(("a", "area", "link"), "href"),
    "object": "data",
}
_VALUE = {"meta": "content", "data": "value", "meter": "value"}

MicrodataItem = dict[str, Any]


def read_microdata(tree: LexborHTMLParser, resolve: Callable[[str], str | None]) -> list[MicrodataItem]:
    """Read the items that are not a property of another one: `type`, `id` and `properties` of each."""
    found = tree.css("[itemscope], [itemprop]")[:_NODES]
    nodes = {node.mem_id: node for node in found}  # Lexbor gives what matches both parts twice
    return _Reader(nodes.values(), resolve).items() if nodes else []


class _Reader:
    def __init__(self, nodes: Iterable[LexborNode], resolve: Callable[[str], str | None]) -> None:
        self._nodes = [(node, node.attributes) for node in nodes]
        self._resolve = resolve
        self._items = {node.mem_id: _item(has) for node, has in self._nodes if "itemscope" in has}
        self._asked = {  # by the id of an element, the item that it belongs to
            name: node.mem_id
            for node, has in reversed(self._nodes)
            if "itemscope" in has
            for name in (has.get("itemref") or "").split()
        }
        self._owners: dict[int, int] = {}  # of items inside items
        self._text_left = _TEXT

    def items(self) -> list[MicrodataItem]:
        top = []
        for node, has in self._nodes:
            names = (has.get("itemprop") or "").split()
            item = self._items.get(node.mem_id)
            owner = self._owner_of(node) if names else None
            if item is not None and "itemprop" not in has:
                top.append(item)
            elif owner is not None and (item is None or self._fits(node.mem_id, owner)):
                value = item if item is not None else self._value_of(node, has)
                for name in names:
                    self._items[owner]["properties"].setdefault(name, []).append(value)
        return top

    def _owner_of(self, node: LexborNode) -> int | None:
        """Find the item that a property belongs to."""
        here: LexborNode | None = node
        for hop in range(_HOPS):
            if here is None:
                return None
            if hop and here.mem_id in self._items:
                return here.mem_id
            if self._asked and (asking := self._asked.get(here.attributes.get("id") or "")):
                return asking
            here = here.parent
        return None

    def _fits(self, item: int, owner: int) -> bool:
        """Tell whether an item can be put into another without being inside itself, or too deep."""
        above: int | None = owner
        for _ in range(_NESTED):
            if above is None:
                self._owners[item] = owner
                return True
            if above == item:
                return False
            above = self._owners.get(above)
        return False

    def _value_of(self, node: LexborNode, has: dict[str, str | None]) -> str:
        tag = node.tag or ""
        if tag in _ADDRESS:
            written = has.get(_ADDRESS[tag]) or ""
            return self._resolve(written) or written
        if tag in _VALUE:
            return has.get(_VALUE[tag]) or ""
        if tag == "time" and has.get("datetime"):
            return has["datetime"] or ""
        if self._text_left <= 0:
            return ""
        text = node.text()
        self._text_left -= len(text)
        return " ".join(text.split())


def _item(has: dict[str, str | None]) -> MicrodataItem:
    item: MicrodataItem = {}
    if types := (has.get("itemtype") or "").split():
        item["type"] = types
    if identity := (has.get("itemid") or "").strip():
        item["id"] = identity
    item["properties"] = {}
    return item
