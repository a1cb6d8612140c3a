"""Which fields get a column in formats that have columns, and what it is called.

Field names can come from a page. However many different ones there are, a table stays a table: beyond
`MOST` columns, fields share the column `_more` as one JSON object.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

MOST = 1000  # SQLite stops at 2000 columns
MORE = "_more"

Record = dict[str, Any]

_decode = msgspec.json.Decoder(Record).decode
_encode = msgspec.json.Encoder().encode


def decode_item(item: bytes) -> Record:
    """Read an item's fields."""
    return _decode(item)


def spell_json(value: Any) -> str:
    """Spell a value as JSON, for a format that has no such type."""
    return _encode(value).decode()


class Columns:
    """The fields that have a column, in the order in which they were met."""

    def __init__(self, fields: Iterable[str] = (), *, closed: bool = False) -> None:
        self.fields = list(fields)
        self.closed = closed  # no column will be added: there is one for the rest
        self._known = frozenset(self.fields)

    def hold(self, record: Record) -> bool:
        """Say whether every field of `record` has its place."""
        return self.closed or record.keys() <= self._known

    def widened(self, record: Record, *, close: bool = False) -> "Columns":
        """Return columns that hold `record`; `close`: by a column for the rest, now and from now on."""
        new = [field for field in record if field not in self._known]
        room = 0 if close else MOST - len(self.fields)
        return Columns([*self.fields, *new[:room]], closed=self.closed or close or len(new) > room)

    def row(self, record: Record) -> list[Any]:
        """Return the values in the order of the columns, the one for the rest last."""
        values = [record.get(field) for field in self.fields]
        if self.closed:
            rest = {field: value for field, value in record.items() if field not in self._known}
            values.append(rest or None)
        return values

    def names(
        self,
        *,
        spell: Callable[[str], str] = str,
        fold: Callable[[str], str] = str,
        taken: Iterable[str] = (),
    ) -> list[str]:
        """Spell the columns' names; those that would be the same (after `fold`) are numbered."""
        used = {fold(name) for name in taken}
        names = []
        for field in [*self.fields, MORE] if self.closed else self.fields:
            name, number = spell(field), 1
            while fold(name) in used:
                number += 1
                name = f"{spell(field)}_{number}"
            used.add(fold(name))
            names.append(name)
        return names
