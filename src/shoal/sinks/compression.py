"""How the bytes of an output file are compressed: not at all, gzip or Zstandard.

Each write to a file is a whole gzip member or Zstandard frame, and a checkpoint is a length at which one
ends. So a file is cut back to a checkpoint without compressing anything again, and any reader of the format
reads the file: both formats say that members one after another are their contents one after another.
"""

import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from backports import zstd
from isal import isal_zlib

from shoal.model.page import Item
from shoal.sinks.contract import Sink, SinkFactory

READ_BYTES = (
    64 * 1024
)  # compressed bytes at a time: a thousand times as much when they are decompressed, at most
_GZIP = 31  # window bits that select the gzip format in zlib
_GZIP_LEVEL = 2  # of ISA-L: as small as zlib's level 4 or so, at a tenth of the time

DAMAGE: tuple[type[Exception], ...] = (zlib.error, isal_zlib.error, zstd.ZstdError)  # type: ignore[assignment]
"""What reading a file raises whose bytes are not those of its format."""


class Compression(NamedTuple):
    """One way to compress, by the suffix that names it."""

    suffix: str  # after that of the format
    pack: Callable[[bytes], bytes]
    decompressor: Callable[[], Any] | None  # of one member; None: there is nothing to decompress

    def unpack(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the contents of a file from its chunks. An incomplete last member yields what it has."""
        if self.decompressor is None:
            yield from chunks
            return
        inflate = self.decompressor()
        for chunk in chunks:
            while chunk:
                if data := inflate.decompress(chunk):
                    yield data
                if not inflate.eof:
                    break
                chunk, inflate = inflate.unused_data, self.decompressor()

    @property
    def empty(self) -> bytes:
        """The bytes of a file without contents: readers of compressed files refuse a file of no bytes."""
        return self.pack(b"") if self.decompressor else b""

    def holds_nothing(self, path: Path | str) -> bool:
        """Return whether a file was begun and has no contents; one that is not compressed has some."""
        with open(path, "rb") as file:
            head = file.read(4)
        if not self.empty.startswith(head):
            return False
        try:
            with self.open(path) as contents:
                return not contents.read(1)
        except DAMAGE:
            return False

    def open(self, path: Path | str) -> BinaryIO:
        """Open the contents of a file for reading, line by line if need be."""
        file = open(path, "rb")  # noqa: SIM115 - the reader closes it
        if self.decompressor is None:
            return file
        return io.BufferedReader(_Contents(file, self), READ_BYTES)


class _Contents(io.RawIOBase):
    """The decompressed contents of a file, as a stream."""

    def __init__(self, file: BinaryIO, compression: Compression) -> None:
        self._file = file
        self._left = b""
        self._pieces = compression.unpack(iter(lambda: file.read(READ_BYTES), b""))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        piece = self._left or next(self._pieces, b"")
        taken, self._left = piece[: len(view)], piece[len(view) :]
        view[: len(taken)] = taken
        return len(taken)

    def close(self) -> None:
        self._file.close()
        super().close()


def _gzip(data: bytes) -> bytes:
    packed: bytes = isal_zlib.compress(data, _GZIP_LEVEL, _GZIP)
    return packed


NONE = Compression("", lambda data: data, None)
GZIP = Compression(".gz", _gzip, lambda: isal_zlib.decompressobj(_GZIP))
ZSTD = Compression(".zst", zstd.compress, zstd.ZstdDecompressor)


def factories(
    open: Callable[..., Sink], recount: Callable[..., int], read: Callable[..., Iterator[Item]]
) -> Iterator[SinkFactory]:
    """Yield the factories of a format: plain, gzip, Zstandard. Each call gets `compression`."""
    for compression in (NONE, GZIP, ZSTD):
        yield SinkFactory(
            open=partial(open, compression=compression),
            recount=partial(recount, compression=compression),
            read=partial(read, compression=compression),
            is_empty=compression.holds_nothing if compression.decompressor else None,
        )
