"""Items as rows: values that the types of PostgreSQL cannot hold are changed, or the item is rejected."""

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec

from shoal.model.limits import MIB
from shoal.model.page import Item
from shoal.sinks.columns import decode_item

MAX_ITEM_BYTES = 256 * MIB - 1  # of a jsonb value; the server closes a connection for a message beyond 1 GiB
_MAX_KEY_BYTES = 2000  # an entry of a B-tree has at most 2704
_MAX_REJECTED_BYTES = 64 * 1024  # stored of a rejected item
_NUL = b"\\u0000"

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class ItemRow:
    key: str
    json: str


@dataclass(frozen=True, slots=True)
class UnfitItem:
    """An item that cannot be a row, with the reason and the first bytes of its JSON."""

    key: str
    reason: str
    beginning: bytes

    @classmethod
    def of(cls, key: str, json: bytes, reason: str) -> "UnfitItem":
        """Keep enough of the item to identify it."""
        return cls(key, reason, json[:_MAX_REJECTED_BYTES])


def row_of(item: Item, *, max_bytes: int = MAX_ITEM_BYTES) -> ItemRow | UnfitItem:
    """Return an item as a row. NUL, which PostgreSQL cannot hold, becomes `\\0`."""
    key = row_key(item.key)
    if len(item.json) > max_bytes:
        return UnfitItem.of(key, item.json, f"longer than {max_bytes} bytes, the limit of jsonb")
    try:
        text = (_without_nul(item.json) if _NUL in item.json else item.json).decode()
    except ValueError as error:  # not UTF-8, or not JSON
        return UnfitItem.of(key, item.json, str(error))
    return ItemRow(key, text)


def row_key(key: str) -> str:
    """Return a key that fits an index; different keys stay different."""
    text = key.replace("\0", "\\0")
    encoded = text.encode(errors="replace")
    if len(encoded) <= _MAX_KEY_BYTES and text == key:
        return key
    digest = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
    return f"{encoded[:_MAX_KEY_BYTES].decode(errors='ignore')}#{digest}"


def _without_nul(json: bytes) -> bytes:
    return _encode(_escape_nul(decode_item(json)))


def _escape_nul(value: Any) -> Any:
    match value:
        case str():
            return value.replace("\0", "\\0")
        case list():
            return [_escape_nul(member) for member in value]
        case dict():
            return {_escape_nul(key): _escape_nul(member) for key, member in value.items()}
        case _:
            return value
