"""Items: what a handler yields, made into one line of JSON and a key, or refused by the name of the field.

What JSON has no word for is given one: dates and decimals become text, sets sorted lists, bytes base64. What
would be lost or changed on the way is refused instead: NaN, integers beyond 64 bits, names that are not text,
cycles.
"""

import math
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec

from shoal.model.errors import Rejected
from shoal.model.page import Item
from shoal.spider.html.selector import Selector, SelectorList

FIELDS = 1000  # of one item: no table has more columns
DEPTH = 32

_encode = msgspec.json.Encoder().encode
_HARMLESS = (str, bool, type(None))


def is_item(value: object) -> bool:
    """Tell an item from a collection of items."""
    return (
        type(value) is dict  # by far the most frequent
        or isinstance(value, (Mapping, msgspec.Struct))
        or (is_dataclass(value) and not isinstance(value, type))
        or callable(getattr(value, "model_dump", None))
        or hasattr(type(value), "__attrs_attrs__")
    )


def encoded(value: object, key: Sequence[str], fallback: str) -> Item:
    """Encode an item, or raise `Rejected`. Its key is made of the fields `key`, or is `fallback`."""
    record = _record(value)
    if not record:
        raise Rejected("the item has no fields")
    if len(record) > FIELDS:
        raise Rejected(f"the item has {len(record)} fields, more than {FIELDS}")
    if "" in record:
        raise Rejected("a field of the item has no name")
    try:
        line = _encode(record)
    except UnicodeEncodeError:
        record = _scrubbed(record)
        line = _encode(record)
    return Item(_key(record, key) if key else fallback, line)


def _record(value: object) -> dict[str, Any]:
    found = pairs(value)
    for field, one in found.items():
        # Nearly all items are flat and harmless; for them this loop is all there is.
        if type(field) is not str or type(one) not in _HARMLESS:
            return {_name(field, ""): _plain(one, _name(field, ""), 0) for field, one in found.items()}
    return found


def pairs(value: Any) -> dict[Any, Any]:
    """Take an item apart, one level deep."""
    if type(value) is dict:
        return value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if hasattr(type(value), "__attrs_attrs__"):
        return {field.name: getattr(value, field.name) for field in type(value).__attrs_attrs__}
    return dict(value.model_dump())


def rejected(url: str, reason: str, value: object, key: str) -> Item:
    """Make the record of an item that was refused, as much of it as JSON can hold."""
    try:
        shown = {str(field): _legible(one) for field, one in pairs(value).items()}
    except Exception as error:  # it is the user's object, and may refuse to be looked at
        shown = {"error": f"{type(error).__name__}: {error}"}
    return Item(key, _encode(_scrubbed({"url": url, "reason": reason, "item": shown})))


def _legible(value: Any) -> Any:
    try:
        return _plain(value, "", 0)
    except Rejected:
        return _short(value)


def _plain(value: Any, path: str, depth: int) -> Any:
    """Make a value one that JSON can hold without loss."""
    match value:
        case None | bool() | str():
            return str(value) if isinstance(value, str) else value
        case Enum():
            return _plain(value.value, path, depth)
        case int():
            if not -(2**63) <= value < 2**63:
                raise Rejected(f"field {path}: {_short(value)} does not fit into 64 bits")
            return int(value)
        case float():
            if not math.isfinite(value):
                raise Rejected(f"field {path}: {value} is not a number that JSON knows")
            return float(value)
        case Decimal():
            if not value.is_finite():
                raise Rejected(f"field {path}: {value} is not a number that JSON knows")
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case UUID():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return b64encode(value).decode()
        case SelectorList():
            raise Rejected(f"field {path}: it is a list of selectors: add .get() or .getall()")
        case Selector():
            raise Rejected(f"field {path}: it is a selector: add .get()")
    if depth == DEPTH:
        raise Rejected(f"field {_short(path)}: nested more than {DEPTH} deep, or in a circle")
    if is_item(value):
        return {
            _name(field, path): _plain(one, f"{path}.{field}", depth + 1)
            for field, one in pairs(value).items()
        }
    if isinstance(value, set | frozenset):
        members = [_plain(one, path, depth + 1) for one in value]
        return sorted(members, key=repr)  # sets have an order of their own in every process
    if isinstance(value, Iterable) and isinstance(value, Sequence):
        return [_plain(one, f"{path}[{n}]", depth + 1) for n, one in enumerate(value)]
    raise Rejected(f"field {path}: a {type(value).__name__} cannot be written as JSON")


def _name(field: object, path: str) -> str:
    if not isinstance(field, str):
        where = f"in field {path}: " if path else ""
        raise Rejected(f"{where}{_short(field)} is not a field name: it must be text")
    return str(field)


def _scrubbed(value: Any) -> Any:
    """Replace halves of surrogate pairs, which no encoding can write."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_scrubbed(name): _scrubbed(one) for name, one in value.items()}
        case list():
            return [_scrubbed(one) for one in value]
    return value


def _key(record: Mapping[str, Any], key: Sequence[str]) -> str:
    values = [record.get(field) for field in key]
    for field, value in zip(key, values, strict=True):
        if value is None or value == "":
            raise Rejected(f"key field {field} is {'empty' if value == '' else 'missing'}")
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return _encode(values[0] if len(values) == 1 else values).decode()


def _short(value: object) -> str:
    text = repr(value) if not isinstance(value, int) or value.bit_length() < 300 else "an integer"
    return text if len(text) <= 60 else f"{text[:57]}..."
