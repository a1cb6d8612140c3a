"""Records packed and unpacked: each is a gzip member of its own, which is what lets readers seek."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from isal import isal_zlib

from shoal.archive.errors import PageDamaged

# The package's stubs declare the class as an instance.
_GzipError: type[Exception] = isal_zlib.error  # type: ignore[assignment]

_GZIP = 31  # zlib's way of asking for the gzip format
_MAGIC = b"\x1f\x8b\x08"
_CHUNK = 256 * 1024
_PROBE = 1024  # bytes of a member that are sure to hold its code tables and the first few letters


def pack(record: bytes) -> bytes:
    """Make a gzip member."""
    packed: bytes = isal_zlib.compress(record, 1, _GZIP)
    return packed


def pack_short(record: bytes) -> bytes:
    """Make a gzip member of a record that is all headers.

    The fastest way takes 2 µs where `pack` takes 9, most of them to set itself up, and costs 150 bytes.
    """
    packed: bytes = isal_zlib.compress(record, 0, _GZIP)
    return packed


def pack_dense(record: bytes) -> bytes:
    """Make a gzip member of a record whose body is compressed already.

    It is stored: compressing it again takes ten times as long and saves nothing but on the headers.
    """
    return zlib.compress(record, 0, _GZIP)


def unpack(member: bytes, *, limit: int) -> bytes:
    """Undo packing for exactly one whole member of at most `limit` bytes, or raise `PageDamaged`."""
    inflate = isal_zlib.decompressobj(_GZIP)
    try:
        record: bytes = inflate.decompress(member, limit + 1)
    except _GzipError as error:
        raise PageDamaged(f"gzip: {error}") from None
    if len(record) > limit:
        raise PageDamaged(f"longer than {limit} bytes")
    # The checksum counts only once the end has been seen.
    if not inflate.eof:
        raise PageDamaged("gzip: the record has no end")
    if inflate.unused_data:
        raise PageDamaged("gzip: the record ends too early")
    return record


@dataclass(frozen=True, slots=True)
class Member:
    offset: int
    length: int
    record: bytes


@dataclass(frozen=True, slots=True)
class CorruptRange:
    """A stretch in which no whole member can be found."""

    offset: int
    length: int
    reason: str
    torn: bool  # it reaches the end: a write that was cut off, or is still going on


def scan(read: Callable[[int, int], bytes], *, limit: int) -> Iterator[Member | CorruptRange]:
    """Go through a segment from its start; every byte is part of a member or of a hole.

    `read(offset, length)` gives fewer bytes than asked for at the end only.
    """
    offset, held = 0, b""
    while held := held or read(offset, _CHUNK):
        found, held = _member(read, offset, held, limit)
        if isinstance(found, str):
            start, (offset, held) = offset, _next_start(read, offset + 1)
            yield CorruptRange(start, offset - start, found, torn=not held)
        else:
            yield found
            offset += found.length


def _member(
    read: Callable[[int, int], bytes], offset: int, held: bytes, limit: int
) -> tuple[Member | str, bytes]:
    """Return the member at `offset`, or why there is none, and the bytes held beyond it."""
    inflate = isal_zlib.decompressobj(_GZIP)
    parts: list[bytes] = []
    room, given, feed = limit + 1, len(held), held
    while True:
        try:
            part: bytes = inflate.decompress(feed, room)
        except _GzipError as error:
            return f"gzip: {error}", b""
        parts.append(part)
        room -= len(part)
        if inflate.eof:
            rest: bytes = inflate.unused_data
            return Member(offset, given - len(rest), b"".join(parts)), rest
        if room <= 0:
            return f"longer than {limit} bytes", b""
        feed = inflate.unconsumed_tail
        if not feed:
            feed = read(offset + given, _CHUNK)
            given += len(feed)
            if not feed:
                return "gzip: the record has no end", b""


def _next_start(read: Callable[[int, int], bytes], offset: int) -> tuple[int, bytes]:
    """Find where the next record begins, and the bytes from there; none: where the segment ends."""
    while held := read(offset, _CHUNK):
        at = held.find(_MAGIC)
        while at >= 0:
            if _begins_record(held[at : at + _PROBE]):
                return offset + at, held[at:]
            at = held.find(_MAGIC, at + 1)
        if len(held) < _CHUNK:
            return offset + len(held), b""
        offset += len(held) - _PROBE  # a beginning may straddle two chunks
    return offset, b""


def _begins_record(start: bytes) -> bool:
    try:
        return bool(isal_zlib.decompressobj(_GZIP).decompress(start, 5) == b"WARC/")
    except _GzipError:
        return False
