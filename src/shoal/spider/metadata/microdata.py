"""Read microdata (`itemscope`, `itemprop`) into the JSON form that the HTML standard defines.

Nodes are found once, in document order. Each property belongs to the nearest `itemscope` above it, or to the
item that names it in `itemref`. Nodes and text are bounded, each element around a property is looked at once,
and no item is put inside itself.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

from shoal.model.limits import MIB

_MAX_NODES = 10_000
_MAX_NESTING = 32  # items inside items, and properties inside properties
_MAX_NAMES = 64  # of one property
_MAX_TEXT_CHARS = 4 * MIB  # of all values together

_ADDRESS = {
    **dict.fromkeys(("audio", "embed", "iframe", "img", "source", "track", "video"), "src"),
    **dict.fromkeys(("a", "area", "link"), "href"),
    "object": "data",
}
_VALUE = {"meta": "content", "data": "value", "meter": "value"}

MicrodataItem = dict[str, Any]


def read_microdata(tree: LexborHTMLParser, resolve: Callable[[str], str | None]) -> list[MicrodataItem]:
    """Return the top-level items, each with `type`, `id` and `properties`."""
    found = tree.css("[itemscope], [itemprop]")[:_MAX_NODES]
    nodes = {node.mem_id: node for node in found}  # Lexbor returns a node that matches both parts twice
    return _Reader(nodes.values(), resolve).items() if nodes else []


class _Surroundings(NamedTuple):
    item: int | None = None  # the nearest one around
    properties: int = 0  # number of properties around


class _Reader:
    def __init__(self, nodes: Iterable[LexborNode], resolve: Callable[[str], str | None]) -> None:
        self._nodes = [(node, node.attributes) for node in nodes]
        self._resolve = resolve
        self._items = {node.mem_id: _item(has) for node, has in self._nodes if "itemscope" in has}
        self._referenced = {  # element id -> item that names it in `itemref`
            name: node.mem_id
            for node, has in reversed(self._nodes)
            if "itemscope" in has
            for name in (has.get("itemref") or "").split()
        }
        self._owners: dict[int, int] = {}  # item -> the item that contains it
        self._properties = {node.mem_id for node, has in self._nodes if "itemprop" in has}
        self._surroundings: dict[int, _Surroundings] = {}  # of the elements that were looked at
        self._text_left = _MAX_TEXT_CHARS

    def items(self) -> list[MicrodataItem]:
        top = []
        for node, has in self._nodes:
            names = (has.get("itemprop") or "").split(None, _MAX_NAMES)[:_MAX_NAMES]
            item = self._items.get(node.mem_id)
            owner = self._owner_of(node, has) if names else None
            if item is not None and "itemprop" not in has:
                top.append(item)
            elif owner is not None and (item is None or self._fits(node.mem_id, owner)):
                value = item if item is not None else self._value_of(node, has)
                for name in names:
                    self._items[owner]["properties"].setdefault(name, []).append(value)
        return top

    def _owner_of(self, node: LexborNode, has: dict[str, str | None]) -> int | None:
        """Return the item that a property belongs to."""
        return self._referenced.get(has.get("id") or "") or self._around(node.parent).item

    def _around(self, node: LexborNode | None) -> "_Surroundings":
        """Return what the content of an element is in."""
        path: list[LexborNode] = []
        while node is not None and node.mem_id not in self._surroundings:
            path.append(node)
            node = node.parent
        found = _Surroundings() if node is None else self._surroundings[node.mem_id]
        for one in reversed(path):
            key = one.mem_id
            named = self._referenced.get(one.attributes.get("id") or "") if self._referenced else None
            item = key if key in self._items else named or found.item
            found = _Surroundings(item, found.properties + (key in self._properties))
            self._surroundings[key] = found
        return found

    def _fits(self, item: int, owner: int) -> bool:
        """Record `owner` as the container of an item; False if that would be a cycle, or nested too deep."""
        above: int | None = owner
        for _ in range(_MAX_NESTING):
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
        if self._text_left <= 0 or self._around(node.parent).properties >= _MAX_NESTING:
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
