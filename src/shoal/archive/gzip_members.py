"""Compresses records: each is a separate gzip member, so that readers can seek to it."""

import zlib
from collections.abc import Callable, Iterator

import msgspec
from isal import isal_zlib

from shoal.archive.errors import PageDamaged

# The package's stubs declare the class as an instance.
_GzipError: type[Exception] = isal_zlib.error  # type: ignore[assignment]

_GZIP = 31  # window bits that select the gzip format in zlib
_MAGIC = b"\x1f\x8b\x08"
_CHUNK_BYTES = 256 * 1024
_PROBE_BYTES = 1024  # of a member, which contain its code tables and the first few characters


def pack(record: bytes) -> bytes:
    """Return a gzip member."""
    packed: bytes = isal_zlib.compress(record, 1, _GZIP)
    return packed


def pack_short(record: bytes) -> bytes:
    """Return a gzip member of a record of about a kilobyte: headers, or what a page yielded.

    The fastest level takes 2 µs where `pack` takes 9 to 13, mostly for set-up, and costs 150 to 230 bytes.
    """
    packed: bytes = isal_zlib.compress(record, 0, _GZIP)
    return packed


def pack_stored(record: bytes) -> bytes:
    """Return a gzip member of a record whose body is already compressed.

    It is not compressed again: that takes ten times as long and makes only the headers smaller.
    """
    return zlib.compress(record, 0, _GZIP)


def unpack_all(members: bytes, *, limit: int) -> list[bytes]:
    """Decompress one or more whole members of at most `limit` bytes together, or raise `PageDamaged`."""
    records = []
    while members:
        inflate = isal_zlib.decompressobj(_GZIP)
        try:
            record: bytes = inflate.decompress(members, limit + 1)
        except _GzipError as error:
            raise PageDamaged(f"gzip: {error}") from None
        limit -= len(record)
        if limit < 0:
            raise PageDamaged("longer than a page can be")
        # The checksum is verified only at the end of the member.
        if not inflate.eof:
            raise PageDamaged("gzip: the record has no end")
        records.append(record)
        members = inflate.unused_data
    return records


class Member(msgspec.Struct, frozen=True):
    offset: int
    length: int
    record: bytes


class CorruptRange(msgspec.Struct, frozen=True):
    """A range that contains no whole member."""

    offset: int
    length: int
    reason: str
    torn: bool  # it reaches the end: an interrupted write, or one that is in progress


def scan(read: Callable[[int, int], bytes], *, limit: int) -> Iterator[Member | CorruptRange]:
    """Scan a segment from its start; every byte is in a member or in a corrupt range.

    `read(offset, length)` returns fewer bytes at the end of the segment only.
    """
    offset, buffer = 0, b""
    while buffer := buffer or read(offset, _CHUNK_BYTES):
        found, buffer = _member(read, offset, buffer, limit)
        if isinstance(found, str):
            start, (offset, buffer) = offset, _next_start(read, offset + 1)
            yield CorruptRange(start, offset - start, found, torn=not buffer)
        else:
            yield found
            offset += found.length


def _member(
    read: Callable[[int, int], bytes], offset: int, buffer: bytes, limit: int
) -> tuple[Member | str, bytes]:
    """Return the member at `offset`, or why it cannot be read, and the bytes buffered beyond it."""
    inflate = isal_zlib.decompressobj(_GZIP)
    parts: list[bytes] = []
    room, given, feed = limit + 1, len(buffer), buffer
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
            feed = read(offset + given, _CHUNK_BYTES)
            given += len(feed)
            if not feed:
                return "gzip: the record has no end", b""


def _next_start(read: Callable[[int, int], bytes], offset: int) -> tuple[int, bytes]:
    """Return the offset of the next record and the bytes from there; no bytes: the end of the segment."""
    while buffer := read(offset, _CHUNK_BYTES):
        at = buffer.find(_MAGIC)
        while at >= 0:
            if _starts_record(buffer[at : at + _PROBE_BYTES]):
                return offset + at, buffer[at:]
            at = buffer.find(_MAGIC, at + 1)
        if len(buffer) < _CHUNK_BYTES:
            return offset + len(buffer), b""
        offset += len(buffer) - _PROBE_BYTES  # the start of a record may be in two chunks
    return offset, b""


def _starts_record(start: bytes) -> bool:
    try:
        return bool(isal_zlib.decompressobj(_GZIP).decompress(start, 5) == b"WARC/")
    except _GzipError:
        return False
