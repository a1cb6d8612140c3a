"""Values inside one BLOB."""

import sys
from array import array
from collections.abc import Iterable

import msgspec

from shoal.model.page import PageRecord, PageRef

_encode = msgspec.msgpack.Encoder().encode


class _Packed(msgspec.Struct, array_like=True):
    """A page's record in the order of its fields; those that came later have defaults."""

    ref: PageRef
    status: int
    fetched_at: float
    items: int
    links: int
    etag: str
    modified: str
    digest: str
    elapsed: float
    wire_bytes: int
    version: int = 0


_decode = msgspec.msgpack.Decoder(_Packed).decode


def packed(numbers: Iterable[int]) -> bytes:
    """Pack integers below 2^63, little-endian wherever the store is written."""
    return _ordered(array("q", numbers)).tobytes()


def unpacked(blob: bytes) -> "array[int]":
    numbers = array("q")
    numbers.frombytes(blob)
    return _ordered(numbers)


def _ordered(numbers: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def packed_page(page: PageRecord) -> bytes:
    return _encode(msgspec.structs.astuple(page))


def unpacked_page(blob: bytes) -> PageRecord:
    return PageRecord(*msgspec.structs.astuple(_decode(blob)))
