"""Selectors: the results of CSS, XPath and regular expressions on a page, with parsel's semantics.

There are three implementations: `LexborElement` and `LexborDocument` on Lexbor's tree, `LxmlElement` on
lxml's, and `TextSelector` for strings. Lexbor answers CSS, on the tree that a browser would build. lxml
answers XPath: on libxml2's own parse for a whole page, on a copy of Lexbor's tree for a CSS result. lxml is
not loaded before the first XPath query, or the first CSS that Lexbor does not support (`:contains()`).
"""

import re
from collections.abc import Mapping
from html.entities import name2codepoint
from re import Pattern
from typing import Any, SupportsIndex, overload


class Selector:
    """One result of a query: an element, a text node, or an attribute's value."""

    __slots__ = ()

    def css(self, query: str) -> "SelectorList":
        """Return what a CSS query matches in this element and below it.

        `::text` and `::attr(name)` select strings. Raises `ValueError` for an invalid query.
        """
        raise NotImplementedError

    def xpath(
        self, query: str, namespaces: Mapping[str, str] | None = None, **variables: Any
    ) -> "SelectorList":
        """Return what an XPath 1.0 query selects, relative to this element.

        `namespaces` maps prefixes to URIs; `variables` are the values of `$names` in the query. Start with
        `.//` to search below this element: `//` searches the whole page. Raises `ValueError` for an invalid
        query.
        """
        raise NotImplementedError

    def get(self) -> str:
        """Return the string that was selected, or the markup of the element."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The text of this element and of all elements inside it."""
        raise NotImplementedError

    @property
    def attrib(self) -> dict[str, str]:
        """The element's attributes; empty for a string."""
        return {}

    def getall(self) -> list[str]:
        """Return a list of one: `get()`."""
        return [self.get()]

    def re(self, regex: str | Pattern[str], replace_entities: bool = True) -> list[str]:
        """Return what the groups of `regex` match in `get()`, or the whole matches if it has no groups.

        If a group is called `extract`, only its first match is returned. With `replace_entities`, HTML
        entities in the matches become characters, except `&lt;` and `&amp;`.
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
        """Return the first result of `re`, or `default` if nothing matches."""
        return next(iter(self.re(regex, replace_entities)), default)

    def extract(self) -> str:
        """Same as `get()`: parsel's older name."""
        return self.get()

    def __bool__(self) -> bool:
        return bool(self.get())

    def __str__(self) -> str:
        return self.get()

    def __repr__(self) -> str:
        text = self.get()
        return f"<Selector {text if len(text) <= 40 else text[:37] + '...'!r}>"


class SelectorList(list[Selector]):
    """The results of a query, in document order. Its methods call every member and join the results.

    page.css(".price").css("::text").get(default="0")
    page.css("a::attr(href)").getall()
    """

    @overload
    def __getitem__(self, position: SupportsIndex) -> Selector: ...
    @overload
    def __getitem__(self, position: slice) -> "SelectorList": ...
    def __getitem__(self, position: SupportsIndex | slice) -> "Selector | SelectorList":
        if isinstance(position, slice):
            return SelectorList(super().__getitem__(position))
        return super().__getitem__(position)

    def css(self, query: str) -> "SelectorList":
        """Run a CSS query on every member and return all results."""
        return SelectorList(found for one in self for found in one.css(query))

    def xpath(
        self, query: str, namespaces: Mapping[str, str] | None = None, **variables: Any
    ) -> "SelectorList":
        """Run an XPath query on every member and return all results."""
        return SelectorList(found for one in self for found in one.xpath(query, namespaces, **variables))

    def re(self, regex: str | Pattern[str], replace_entities: bool = True) -> list[str]:
        """Return the matches of a regular expression in every member, as `Selector.re` does."""
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
        """Return the first match of a regular expression in any member, or `default`."""
        for one in self:
            for found in one.re(regex, replace_entities):
                return found
        return default

    @overload
    def get(self, default: None = None) -> str | None: ...
    @overload
    def get(self, default: str) -> str: ...
    def get(self, default: str | None = None) -> str | None:
        """Return `get()` of the first member, or `default` if the list is empty."""
        return self[0].get() if self else default

    def getall(self) -> list[str]:
        """Return `get()` of every member."""
        return [one.get() for one in self]

    @property
    def attrib(self) -> dict[str, str]:
        """The attributes of the first member; empty if the list is empty."""
        return self[0].attrib if self else {}

    extract = getall
    extract_first = get


class TextSelector(Selector):
    """A string: a text node, an attribute's value, or the value of an XPath expression."""

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
    if 0x80 <= number <= 0x9F:  # pages use these for Windows-1252; in Unicode they are control characters
        return bytes([number]).decode("cp1252", "ignore") or ("" if match["end"] else match[0])
    return chr(number)
