"""Values inside one BLOB."""

import sys
from array import array
from collections.abc import Iterable

import msgspec

from shoal.model.page import PageRecord, PageRef

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[PageRef, int, float, int, int, str, str, str, float, int]).decode


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
    return _encode(
        (
            page.ref,
            page.status,
            page.fetched_at,
            page.items,
            page.links,
            page.etag,
            page.modified,
            page.digest,
            page.elapsed,
            page.wire_bytes,
        )
    )


def unpacked_page(blob: bytes) -> PageRecord:
    return PageRecord(*_decode(blob))
