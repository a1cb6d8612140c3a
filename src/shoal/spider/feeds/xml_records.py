"""The elements that a list consists of, one at a time, each with the fields right below it.

What is kept at any time is one record and the elements around it; both are bounded.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from shoal.model.limits import KIB
from shoal.spider.feeds.xml_tokens import Hostile, tokens, unescape

_TEXT = 64 * KIB  # characters kept of one field
_FIELDS = 1000  # kept of one record
_DEPTH = 256
_TOKENS = 3_000_000  # of one document: some seconds. 50 MiB of an honest sitemap have 2 million

_attribute = re.compile(r"""([^\s=/"']++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")


class Foreign(Exception):
    """The document is something else; the text says what."""


@dataclass(slots=True)
class Field:
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

    def take(self, text: str) -> None:
        if self.size < _TEXT:
            self.parts.append(text[: _TEXT - self.size])
            self.size += len(text)


@dataclass(slots=True)
class XmlRecord:
    """An element that was asked for, and its fields."""

    name: str  # in lower case, without its prefix
    prefix: str = ""
    depth: int = 0
    fields: list[Field] = field(default_factory=list)
    complete: bool = False  # its end was seen

    @property
    def tag(self) -> str:
        return f"{self.prefix}:{self.name}" if self.prefix else self.name

    def keep(self, field: Field) -> None:
        if len(self.fields) < _FIELDS:
            self.fields.append(field)

    def own(self, name: str) -> Iterator[Field]:
        """Walk the fields of that name in the record's own vocabulary: `loc`, but not `image:loc`."""
        return (field for field in self.fields if field.name == name and field.prefix == self.prefix)


@lru_cache(maxsize=256)
def _split(tag: str) -> tuple[str, str]:
    prefix, _, name = tag.lower().rpartition(":")
    return prefix, name


def records(
    chunks: Iterable[str], roots: Collection[str], names: Collection[str], fields: Collection[str]
) -> Iterator[XmlRecord]:
    """Read the elements called `names`, inner ones first; of their children, those called `fields`.

    The outermost element is always a record, the last one, and has to be one of `roots`. What a cut document
    leaves open comes out as it is, without the field that was being read. Raises `Foreign` and `Hostile`.
    """
    around: list[str] = []  # names of the open elements
    open_records: list[XmlRecord] = []
    field: Field | None = None
    for count, (slash, tag, source, text) in enumerate(tokens(chunks)):
        if count > _TOKENS:
            raise Hostile(f"it has more than {_TOKENS} tags")
        if tag and not slash:
            around.append(tag)
            depth = len(around)
            if depth > _DEPTH:
                raise Hostile(f"its elements are nested more than {_DEPTH} deep")
            if field is None:
                prefix, name = _split(tag)
                if depth == 1 and name not in roots:
                    raise Foreign(f"its outermost element is {tag[:40]!r}")
                if depth == 1 or name in names:
                    open_records.append(XmlRecord(name, prefix, depth))
                elif name in fields and depth == open_records[-1].depth + 1:
                    field = Field(name, prefix, source, depth)
        if tag and (slash or source.endswith("/")) and tag in around:
            while around.pop() != tag:
                pass
            depth = len(around)
            if field is not None and field.depth > depth:
                open_records[-1].keep(field)
                field = None
            while open_records and open_records[-1].depth > depth:
                record = open_records.pop()
                record.complete = True
                yield record
            if not around:
                return  # what follows the document is not part of it
        if text and field is not None:
            field.take(text)
    if not open_records:
        raise Foreign("it has no elements")
    yield from reversed(open_records)
