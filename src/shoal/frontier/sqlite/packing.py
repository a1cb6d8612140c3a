"""Packing integers and page records into BLOBs."""

import sys
from array import array
from collections.abc import Iterable

import msgspec

from shoal.model.page import PageRecord, PageRef

_encode = msgspec.msgpack.Encoder().encode


class _PackedPage(msgspec.Struct, array_like=True):
    """A page record as an array of its fields; fields that were added later have defaults."""

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
    body_at: float = 0.0
    history: bytes = b""


_decode = msgspec.msgpack.Decoder(_PackedPage).decode


def pack_ints(numbers: Iterable[int]) -> bytes:
    """Pack integers below 2^63, little-endian on every machine."""
    return _little_endian(array("q", numbers)).tobytes()


def unpack_ints(blob: bytes) -> "array[int]":
    numbers = array("q")
    numbers.frombytes(blob)
    return _little_endian(numbers)


def _little_endian(numbers: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def pack_page(page: PageRecord) -> bytes:
    return _encode(msgspec.structs.astuple(page))


def unpack_page(blob: bytes) -> PageRecord:
    return PageRecord(*msgspec.structs.astuple(_decode(blob)))
