"""Encode items: one line of JSON and a key for each, or a rejection that names the field.

Types that JSON lacks are converted: dates and decimals to strings, sets to sorted lists, bytes to base64.
Values that JSON would lose or change are rejected: NaN, integers beyond 64 bits, field names that are not
strings, cycles.
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
from shoal.model.scope import KeyScheme
from shoal.spider.html.selector import Selector, SelectorList
from shoal.spider.item_keys import item_key
from shoal.spider.text.encodings import without_surrogates

MAX_FIELDS = 1000  # of one item: no table has more columns
MAX_DEPTH = 32

_encode = msgspec.json.Encoder().encode
_UNCHANGED = (str, bool, type(None))  # types that need no conversion and no check


def is_item(value: object) -> bool:
    """Return whether `value` is one item, not a collection of items."""
    return (
        type(value) is dict  # by far the most frequent
        or isinstance(value, (Mapping, msgspec.Struct))
        or (is_dataclass(value) and not isinstance(value, type))
        or callable(getattr(value, "model_dump", None))
        or hasattr(type(value), "__attrs_attrs__")
    )


def encode_item(
    value: object, key: Sequence[str], default_key: str, scheme: KeyScheme = KeyScheme.INJECTIVE
) -> Item:
    """Return an item as JSON, with a key made of the fields `key`, or `default_key` if `key` is empty.

    Raises `Rejected` if the item cannot be written without loss, or lacks a key field.
    """
    return encode_record(json_record(value), key, default_key, scheme)


def encode_record(record: dict[str, Any], key: Sequence[str], default_key: str, scheme: KeyScheme) -> Item:
    """Do what `encode_item` does, for the fields of an item (`json_record`)."""
    if not record:
        raise Rejected("the item has no fields")
    if len(record) > MAX_FIELDS:
        raise Rejected(f"the item has {len(record)} fields, more than {MAX_FIELDS}")
    if "" in record:
        raise Rejected("a field of the item has no name")
    original = record
    try:
        line = _encode(record)
    except UnicodeEncodeError:
        record = without_surrogates(record)
        line = _encode(record)
    if not key:
        return Item(default_key, line)
    return Item(item_key(original if scheme is KeyScheme.INJECTIVE else record, key, scheme), line)


def json_record(value: object) -> dict[str, Any]:
    """Return the fields of an item with values that JSON can hold; raise `Rejected` for others."""
    found = fields_of(value)
    for field, one in found.items():
        # Nearly all items are flat and need no conversion: for them this loop is everything.
        if type(field) is not str or type(one) not in _UNCHANGED:
            return {_name(field, ""): _to_json(one, _name(field, ""), 0) for field, one in found.items()}
    return found


def fields_of(value: Any) -> dict[Any, Any]:
    """Return the fields of an item as a dict, one level deep."""
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


def rejected_item(url: str, reason: str, value: object, key: str) -> Item:
    """Return the record for the reject file: url, reason, and as much of the item as JSON can hold."""
    try:
        shown = {str(field): _to_json_or_repr(one) for field, one in fields_of(value).items()}
    except Exception as error:  # reading the fields of a user's object is user code
        shown = {"error": f"{type(error).__name__}: {error}"}
    return Item(key, _encode(without_surrogates({"url": url, "reason": reason, "item": shown})))


def _to_json_or_repr(value: Any) -> Any:
    try:
        return _to_json(value, "", 0)
    except Rejected:
        return _short(value)


def _to_json(value: Any, path: str, depth: int) -> Any:
    """Convert a value to one that JSON can hold without loss, or raise `Rejected`."""
    match value:
        case None | bool() | str():
            return str(value) if isinstance(value, str) else value
        case Enum():
            return _to_json(value.value, path, depth)
        case int():
            if not -(2**63) <= value < 2**63:
                raise Rejected(f"field {path}: {_short(value)} does not fit into 64 bits")
            return int(value)
        case float():
            if not math.isfinite(value):
                raise Rejected(f"field {path}: {value} cannot be written as JSON")
            return float(value)
        case Decimal():
            if not value.is_finite():
                raise Rejected(f"field {path}: {value} cannot be written as JSON")
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
            raise Rejected(f"field {path}: a list of selectors: add .get() or .getall()")
        case Selector():
            raise Rejected(f"field {path}: a selector: add .get()")
    if depth == MAX_DEPTH:
        raise Rejected(f"field {_short(path)}: nested more than {MAX_DEPTH} deep, or in a cycle")
    if is_item(value):
        return {
            _name(field, path): _to_json(one, f"{path}.{field}", depth + 1)
            for field, one in fields_of(value).items()
        }
    if isinstance(value, set | frozenset):
        members = [_to_json(one, path, depth + 1) for one in value]
        return sorted(members, key=repr)  # the order of a set differs between processes
    if isinstance(value, Iterable) and isinstance(value, Sequence):
        return [_to_json(one, f"{path}[{n}]", depth + 1) for n, one in enumerate(value)]
    raise Rejected(f"field {path}: a {type(value).__name__} cannot be written as JSON")


def _name(field: object, path: str) -> str:
    if not isinstance(field, str):
        where = f"in field {path}: " if path else ""
        raise Rejected(f"{where}{_short(field)} is not a field name: it must be a string")
    return str(field)


def _short(value: object) -> str:
    text = repr(value) if not isinstance(value, int) or value.bit_length() < 300 else "an integer"
    return text if len(text) <= 60 else f"{text[:57]}..."
