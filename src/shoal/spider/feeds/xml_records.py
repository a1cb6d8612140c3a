"""Read the repeated elements of an XML document one at a time, each with the fields directly below it.

Memory holds one record and the names of the elements around it; both are bounded.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from shoal.model.limits import KIB
from shoal.spider.feeds.xml_tokens import MaliciousXml, tokenize, unescape

_MAX_TEXT_CHARS = 64 * KIB  # of one field
_MAX_FIELDS = 1000  # of one record
_MAX_DEPTH = 256
_MAX_TOKENS = 3_000_000  # of one document: a few seconds. An ordinary sitemap of 50 MiB has 2 million

_attribute = re.compile(r"""([^\s=/"']++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")


class UnexpectedDocument(Exception):
    """The document is of another type; the message says which."""


@dataclass(slots=True)
class XmlField:
    name: str  # in lower case, without its prefix
    prefix: str
    source: str  # the attributes, as written
    depth: int
    parts: list[str] = field(default_factory=list)
    size: int = 0

    @property
    def text(self) -> str:
        return unescape("".join(self.parts)).strip()

    @property
    def attributes(self) -> dict[str, str]:
        found = _attribute.findall(self.source)
        return {name.lower(): unescape(one or two) for name, one, two in reversed(found)}

    def append(self, text: str) -> None:
        if self.size < _MAX_TEXT_CHARS:
            self.parts.append(text[: _MAX_TEXT_CHARS - self.size])
            self.size += len(text)


@dataclass(slots=True)
class XmlRecord:
    """A requested element and its fields."""

    name: str  # in lower case, without its prefix
    prefix: str = ""
    depth: int = 0
    fields: list[XmlField] = field(default_factory=list)
    complete: bool = False  # its end tag was read

    @property
    def tag(self) -> str:
        return f"{self.prefix}:{self.name}" if self.prefix else self.name

    def append(self, field: XmlField) -> None:
        if len(self.fields) < _MAX_FIELDS:
            self.fields.append(field)

    def own(self, name: str) -> Iterator[XmlField]:
        """Yield the fields of that name that have the record's own prefix: `loc`, but not `image:loc`."""
        return (field for field in self.fields if field.name == name and field.prefix == self.prefix)


@lru_cache(maxsize=256)
def _split(tag: str) -> tuple[str, str]:
    prefix, _, name = tag.lower().rpartition(":")
    return prefix, name


def read_records(
    chunks: Iterable[str], roots: Collection[str], names: Collection[str], fields: Collection[str]
) -> Iterator[XmlRecord]:
    """Yield the elements called `names`, inner ones first, with those of their children called `fields`.

    The outermost element is always yielded, last, and must be one of `roots`. Elements that a truncated
    document leaves open are yielded as they are, without the field that was being read. Raises
    `UnexpectedDocument` and `MaliciousXml`.
    """
    around: list[str] = []  # names of the open elements
    open_records: list[XmlRecord] = []
    field: XmlField | None = None
    for count, (slash, tag, source, text) in enumerate(tokenize(chunks)):
        if count > _MAX_TOKENS:
            raise MaliciousXml(f"it has more than {_MAX_TOKENS} tags")
        if tag and not slash:
            around.append(tag)
            depth = len(around)
            if depth > _MAX_DEPTH:
                raise MaliciousXml(f"its elements are nested more than {_MAX_DEPTH} deep")
            if field is None:
                prefix, name = _split(tag)
                if depth == 1 and name not in roots:
                    raise UnexpectedDocument(f"its outermost element is {tag[:40]!r}")
                if depth == 1 or name in names:
                    open_records.append(XmlRecord(name, prefix, depth))
                elif name in fields and depth == open_records[-1].depth + 1:
                    field = XmlField(name, prefix, source, depth)
        if tag and (slash or source.endswith("/")) and tag in around:
            while around.pop() != tag:
                pass
            depth = len(around)
            if field is not None and field.depth > depth:
                open_records[-1].append(field)
                field = None
            while open_records and open_records[-1].depth > depth:
                record = open_records.pop()
                record.complete = True
                yield record
            if not around:
                return  # ignore what follows the document
        if text and field is not None:
            field.append(text)
    if not open_records:
        raise UnexpectedDocument("it has no elements")
    yield from reversed(open_records)
