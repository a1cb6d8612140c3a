"""Columns for the fields of items, in formats that have columns.

Field names can come from a page. A table stays usable however many different ones there are: beyond
`MAX_COLUMNS`, all other fields share the column `_more` as one JSON object.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import msgspec

MAX_COLUMNS = 1000  # SQLite allows 2000
MORE = "_more"

Record = dict[str, Any]

_decode = msgspec.json.Decoder(Record).decode
_encode = msgspec.json.Encoder().encode


def decode_item(item: bytes) -> Record:
    """Return the fields of an item."""
    return _decode(item)


def encode_json(value: Any) -> str:
    """Return a value as JSON text, for a format that has no type for it."""
    return _encode(value).decode()


def encode_record(record: Record) -> bytes:
    """Return fields as an item."""
    return _encode(record)


def restore_record(fields: Iterable[str | None], values: Iterable[Any]) -> Record:
    """Return the fields of a row, without those that are null; None is the column `_more`."""
    named = zip(fields, values, strict=True)
    return with_more({MORE if field is None else field: value for field, value in named if value is not None})


def with_more(record: Record) -> Record:
    """Return a record with the fields that the column `_more` holds."""
    if isinstance(more := record.get(MORE), str) and more.startswith("{"):
        with suppress(msgspec.DecodeError):
            others = decode_item(more.encode())
            return {name: value for name, value in record.items() if name != MORE} | others
    return record


class Columns:
    """The fields that have a column, in the order of their first appearance."""

    def __init__(self, fields: Iterable[str] = (), *, closed: bool = False) -> None:
        self.fields = list(fields)
        self.closed = closed  # no columns are added any more; `_more` holds all other fields
        self._known = frozenset(self.fields)

    def hold(self, record: Record) -> bool:
        """Return whether every field of `record` has a column, or `_more`."""
        return self.closed or record.keys() <= self._known

    def widen(self, record: Record, *, close: bool = False) -> "Columns":
        """Return columns that hold `record`; `close`: add `_more` instead of new columns, now and later."""
        new = [field for field in record if field not in self._known]
        room = 0 if close else MAX_COLUMNS - len(self.fields)
        return Columns([*self.fields, *new[:room]], closed=self.closed or close or len(new) > room)

    def row(self, record: Record) -> list[Any]:
        """Return the values in the order of the columns, `_more` last."""
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
        """Return the column names, made by `spell`; names that are equal after `fold` are numbered."""
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
