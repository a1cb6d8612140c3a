"""Items as PostgreSQL takes them: what its types cannot hold is spelled another way, or told."""

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec

from shoal.model.limits import MIB
from shoal.model.page import Item
from shoal.sinks.columns import decode_item

LARGEST = 256 * MIB - 1  # of a jsonb value; a message beyond 1 GiB would even end the connection
_LONGEST_KEY = 2000  # bytes; an entry of a B-tree has at most 2704
_SHOWN = 64 * 1024  # bytes kept of an item that cannot be stored
_NUL = b"\\u0000"

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class ItemRow:
    key: str
    json: str


@dataclass(frozen=True, slots=True)
class Unfit:
    """An item that no row can hold, with the reason and what there is to show of it."""

    key: str
    reason: str
    beginning: bytes

    @classmethod
    def of(cls, key: str, json: bytes, reason: str) -> "Unfit":
        """Keep enough to tell which item it was."""
        return cls(key, reason, json[:_SHOWN])


def row_of(item: Item, *, largest: int = LARGEST) -> ItemRow | Unfit:
    """Fit an item into a row. NUL, which PostgreSQL cannot hold, becomes `\\0`."""
    key = row_key(item.key)
    if len(item.json) > largest:
        return Unfit.of(key, item.json, f"longer than {largest} bytes, which is all that jsonb takes")
    try:
        text = (_without_nul(item.json) if _NUL in item.json else item.json).decode()
    except ValueError as error:  # not UTF-8, or no JSON at all
        return Unfit.of(key, item.json, str(error))
    return ItemRow(key, text)


def row_key(key: str) -> str:
    """Spell a key that an index takes; different keys stay different."""
    spelled = key.replace("\0", "\\0")
    encoded = spelled.encode(errors="replace")
    if len(encoded) <= _LONGEST_KEY and spelled == key:
        return key
    digest = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
    return f"{encoded[:_LONGEST_KEY].decode(errors='ignore')}#{digest}"


def _without_nul(json: bytes) -> bytes:
    return _encode(_plain(decode_item(json)))


def _plain(value: Any) -> Any:
    match value:
        case str():
            return value.replace("\0", "\\0")
        case list():
            return [_plain(member) for member in value]
        case dict():
            return {_plain(key): _plain(member) for key, member in value.items()}
        case _:
            return value
