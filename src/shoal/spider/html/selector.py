"""Selectors: what CSS, XPath and regular expressions find on a page, with parsel's meaning.

Three kinds of them fit together: `html.Node`, an element in Lexbor's tree; `element.Element`, one in lxml's;
and `Text`. CSS is answered by Lexbor, on the tree that a browser would build. XPath is answered by lxml: on
libxml2's own parse for a whole page, on a copy of Lexbor's tree for what CSS has found. lxml is not touched
until XPath, or CSS that Lexbor does not know (`:contains()`), asks for it.
"""

import re
from collections.abc import Mapping
from html.entities import name2codepoint
from re import Pattern
from typing import Any, SupportsIndex, overload


class Selector:
    """One thing found: an element, a text, an attribute's value."""

    __slots__ = ()

    def css(self, query: str) -> "SelectorList":
        """Find by CSS, in this element and below; `::text` and `::attr(name)` take strings."""
        raise NotImplementedError

    def xpath(
        self, query: str, namespaces: Mapping[str, str] | None = None, **variables: Any
    ) -> "SelectorList":
        """Find by XPath 1.0, from this element; `variables` are its `$names`."""
        raise NotImplementedError

    def get(self) -> str:
        """Give the string that was found, or the markup of the element."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """All the text in here, that of the elements inside included."""
        raise NotImplementedError

    @property
    def attrib(self) -> dict[str, str]:
        """The element's attributes; empty for what is not an element."""
        return {}

    def getall(self) -> list[str]:
        return [self.get()]

    def re(self, regex: str | Pattern[str], replace_entities: bool = True) -> list[str]:
        """Give what the groups of `regex` match in `get()`, or its whole matches if it has no groups.

        A group called `extract` is taken alone, once. Entities become characters, but for &lt; and &amp;.
        """
        pattern = re.compile(regex)
        text = self.get()
        if "extract" in pattern.groupindex:
            found = pattern.search(text)
            strings = [] if found is None or found["extract"] is None else [found["extract"]]
        else:
            strings = [
                part
                for match in pattern.findall(text)
                for part in (match if isinstance(match, tuple) else (match,))
            ]
        return [_ENTITY.sub(_character, string) for string in strings] if replace_entities else strings

    @overload
    def re_first(
        self, regex: str | Pattern[str], default: None = None, replace_entities: bool = True
    ) -> str | None: ...
    @overload
    def re_first(self, regex: str | Pattern[str], default: str, replace_entities: bool = True) -> str: ...
    def re_first(
        self, regex: str | Pattern[str], default: str | None = None, replace_entities: bool = True
    ) -> str | None:
        return next(iter(self.re(regex, replace_entities)), default)

    def extract(self) -> str:
        return self.get()

    def __bool__(self) -> bool:
        return bool(self.get())

    def __str__(self) -> str:
        return self.get()

    def __repr__(self) -> str:
        text = self.get()
        return f"<Selector {text if len(text) <= 40 else text[:37] + '...'!r}>"


class SelectorList(list[Selector]):
    """What a query found, in document order; its methods ask every member and join the answers."""

    @overload
    def __getitem__(self, position: SupportsIndex) -> Selector: ...
    @overload
    def __getitem__(self, position: slice) -> "SelectorList": ...
    def __getitem__(self, position: SupportsIndex | slice) -> "Selector | SelectorList":
        if isinstance(position, slice):
            return SelectorList(super().__getitem__(position))
        return super().__getitem__(position)

    def css(self, query: str) -> "SelectorList":
        return SelectorList(found for one in self for found in one.css(query))

    def xpath(
        self, query: str, namespaces: Mapping[str, str] | None = None, **variables: Any
    ) -> "SelectorList":
        return SelectorList(found for one in self for found in one.xpath(query, namespaces, **variables))

    def re(self, regex: str | Pattern[str], replace_entities: bool = True) -> list[str]:
        return [found for one in self for found in one.re(regex, replace_entities)]

    @overload
    def re_first(
        self, regex: str | Pattern[str], default: None = None, replace_entities: bool = True
    ) -> str | None: ...
    @overload
    def re_first(self, regex: str | Pattern[str], default: str, replace_entities: bool = True) -> str: ...
    def re_first(
        self, regex: str | Pattern[str], default: str | None = None, replace_entities: bool = True
    ) -> str | None:
        for one in self:
            for found in one.re(regex, replace_entities):
                return found
        return default

    @overload
    def get(self, default: None = None) -> str | None: ...
    @overload
    def get(self, default: str) -> str: ...
    def get(self, default: str | None = None) -> str | None:
        """Give the first, or `default` if there is none."""
        return self[0].get() if self else default

    def getall(self) -> list[str]:
        return [one.get() for one in self]

    @property
    def attrib(self) -> dict[str, str]:
        """The attributes of the first; empty if there is none."""
        return self[0].attrib if self else {}

    extract = getall
    extract_first = get


class Text(Selector):
    """A string: a text node, an attribute's value, or what XPath computed."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def css(self, query: str) -> SelectorList:
        return SelectorList()

    def xpath(
        self, query: str, namespaces: Mapping[str, str] | None = None, **variables: Any
    ) -> SelectorList:
        return SelectorList([self] if query.strip() == "." else ())

    def get(self) -> str:
        return self._value

    @property
    def text(self) -> str:
        return self._value


_ENTITY = re.compile(
    r"&(?:(?P<named>[a-z\d]+)|#(?P<decimal>\d+)|#x(?P<hex>[a-f\d]+))(?P<end>;?)", re.IGNORECASE
)


def _character(match: re.Match[str]) -> str:
    number: int | None = None
    if named := match["named"]:
        if named.lower() in ("lt", "amp"):
            return match[0]
        number = name2codepoint.get(named) or name2codepoint.get(named.lower())
    elif len(digits := (match["decimal"] or match["hex"]).lstrip("0")) < 9:
        number = int(digits or "0", 10 if match["decimal"] else 16)
    if number is None or number > 0x10FFFF:
        return "" if match["end"] else match[0]
    if number == 0 or 0xD800 <= number <= 0xDFFF:
        return "\ufffd"
    if 0x80 <= number <= 0x9F:  # pages mean Windows-1252 where Unicode has control characters
        return bytes([number]).decode("cp1252", "ignore") or ("" if match["end"] else match[0])
    return chr(number)
