"""Blocks: rows by column, compressed together, with a length and a checksum. Pure: no files.

    magic (4 bytes) | length of the frame (u32) | rows (u32) | zstd frame
    in the frame: length of the head (u32) | head | columns

The head lists name, kind and bytes of each column, so that readers of other versions skip what they do not
know, and fill in what is missing. Numbers are little-endian arrays and text is offsets and bytes, as Arrow
has them: a block becomes a table without a look at each row.
"""

import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import msgspec
from backports import zstd

from shoal.archive.fetch_log.columns import COLUMNS, DEFAULTS, Kind, LoggedAttempt, Row

MAGIC = b"SFL1"
_FRAME = struct.Struct("<4sII")
_U32 = struct.Struct("<I")
_CODES = {Kind.TIME: "q", Kind.INT64: "q", Kind.INT32: "i", Kind.FLOAT: "f"}
_OPTIONS: dict[int, int] = {
    zstd.CompressionParameter.compression_level: 3,
    zstd.CompressionParameter.checksum_flag: 1,
}
MAX_BLOCK_BYTES = 256 << 20  # decompressed; of a damaged or crafted part

_Head = list[tuple[str, str, int]]
_encode = msgspec.msgpack.Encoder().encode
_decode_head = msgspec.msgpack.Decoder(_Head).decode
_decode_words = msgspec.msgpack.Decoder(list[str]).decode

assert sys.byteorder == "little"  # as every machine that Shoal is tested on


def encode_block(rows: Sequence[Row]) -> bytes:
    """Return rows as one block."""
    head: _Head = []
    parts: list[bytes] = []
    for (name, kind), values in zip(COLUMNS.items(), zip(*rows, strict=True), strict=True):
        packed = _pack(kind, values)
        head.append((name, kind.value, len(packed)))
        parts.append(packed)
    encoded = _encode(head)
    frame = zstd.compress(b"".join([_U32.pack(len(encoded)), encoded, *parts]), options=_OPTIONS)
    return _FRAME.pack(MAGIC, len(frame), len(rows)) + frame


def _pack(kind: Kind, values: Sequence[Any]) -> bytes:
    if (code := _CODES.get(kind)) is not None:
        return array(code, values).tobytes()
    if kind is Kind.WORD:
        numbers = {word: number for number, word in enumerate(dict.fromkeys(values))}
        words = _encode([word.encode("utf-8", "replace").decode() for word in numbers])
        if len(numbers) == 1:  # most of them, most of the time
            return _U32.pack(len(words)) + words
        return _U32.pack(len(words)) + words + array("i", map(numbers.__getitem__, values)).tobytes()
    joined = "".join(values)
    if joined.isascii():
        lengths, data = list(map(len, values)), joined.encode()
    else:
        encoded = [value.encode("utf-8", "replace") for value in values]
        lengths, data = list(map(len, encoded)), b"".join(encoded)
    return array("i", accumulate(lengths, initial=0)).tobytes() + data


class Block:
    """The rows of one block, by column; made by `blocks_in`."""

    def __init__(self, rows: int, payload: bytes) -> None:
        self.rows = rows
        self._payload = payload
        (head_bytes,) = _U32.unpack_from(payload)
        at = _U32.size + head_bytes
        self._columns: dict[str, tuple[Kind, int, int]] = {}
        for name, kind, size in _decode_head(payload[_U32.size : at]):
            self._columns[name] = (Kind(kind), at, size)
            at += size
        if at != len(payload):
            raise ValueError("a block whose columns do not add up")

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def numbers(self, name: str) -> "array[Any]":
        """Return a column of numbers."""
        kind, at, size = self._columns[name]
        values: array[Any] = array(_CODES[kind])
        values.frombytes(self._payload[at : at + size])
        return values

    def words(self, name: str) -> "tuple[list[str], array[int]]":
        """Return the different words of a column, and the number of the word of each row."""
        _, at, size = self._columns[name]
        (length,) = _U32.unpack_from(self._payload, at)
        start = at + _U32.size
        words = _decode_words(self._payload[start : start + length])
        numbers: array[int] = array("i")
        numbers.frombytes(self._payload[start + length : at + size])
        return words, numbers if len(words) > 1 else array("i", bytes(4 * self.rows))

    def texts(self, name: str) -> tuple[bytes, bytes]:
        """Return the offsets and the bytes of a column of text."""
        _, at, size = self._columns[name]
        middle = at + 4 * (self.rows + 1)
        return self._payload[at:middle], self._payload[middle : at + size]

    def values(self, name: str) -> list[Any]:
        """Return a column as Python values; the default for each row if the block does not have it."""
        if name not in self._columns:
            return [DEFAULTS[name]] * self.rows
        kind = self._columns[name][0]
        if kind in _CODES:
            return self.numbers(name).tolist()
        if kind is Kind.WORD:
            words, numbers = self.words(name)
            return list(map(words.__getitem__, numbers))
        packed, data = self.texts(name)
        offsets: array[int] = array("i")
        offsets.frombytes(packed)
        return [data[start:end].decode() for start, end in pairwise(offsets)]

    def all(self) -> list[Row]:
        """Return every row."""
        return list(zip(*(self.values(name) for name in COLUMNS), strict=True))

    def select(self, fingerprints: Sequence[int]) -> list[LoggedAttempt]:
        """Return the rows of some requests."""
        own = self.numbers("fingerprint")
        found = [at for fingerprint in fingerprints for at in _positions(own, fingerprint)]
        if not found:
            return []
        columns = [self.values(name) for name in COLUMNS]
        return [LoggedAttempt(*(column[at] for column in columns)) for at in sorted(found)]


def _positions(values: "array[int]", wanted: int) -> Iterator[int]:
    at = -1
    while True:
        try:
            at = values.index(wanted, at + 1)
        except ValueError:
            return
        yield at


def blocks_in(data: bytes) -> Iterator[Block]:
    """Yield the blocks of a part, up to the first one that is cut off or damaged."""
    at = 0
    while at + _FRAME.size <= len(data):
        magic, length, rows = _FRAME.unpack_from(data, at)
        start = at + _FRAME.size
        if magic != MAGIC or start + length > len(data):
            return
        try:
            reader = zstd.ZstdDecompressor()
            payload = reader.decompress(data[start : start + length], MAX_BLOCK_BYTES)
            if not reader.eof:
                return
            yield Block(rows, payload)
        except (zstd.ZstdError, msgspec.MsgspecError, struct.error, ValueError):
            return
        at = start + length


def whole_bytes(data: bytes) -> int:
    """Return how many bytes of a part are whole blocks: the last one may be being written."""
    at = 0
    while at + _FRAME.size <= len(data):
        magic, length, _ = _FRAME.unpack_from(data, at)
        if magic != MAGIC or at + _FRAME.size + length > len(data):
            break
        at += _FRAME.size + length
    return at
