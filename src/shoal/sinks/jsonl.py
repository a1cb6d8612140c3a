"""One JSON object per line, byte for byte as the parse stage encoded the item."""

import os
import select
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from shoal.model.page import Item
from shoal.model.printable import escape_json
from shoal.sinks.compression import DAMAGE, NONE, Compression, factories
from shoal.sinks.contract import SinkFactory
from shoal.sinks.files import AppendFile, count_lines, readable, translate_errors


class LinesCheckpoint(msgspec.Struct, frozen=True, array_like=True):
    """The first bytes of a file of lines. Earlier versions stored the length alone, as an integer."""

    length: int
    checksum: int | None = None  # None: written by an earlier version
    lines: int | None = None

    @classmethod
    def load(cls, checkpoint: bytes) -> "LinesCheckpoint":
        found = msgspec.msgpack.decode(checkpoint, type=int | LinesCheckpoint)
        return cls(found) if isinstance(found, int) else found


class JsonlSink:
    """Lines in a file; the checkpoint is length and checksum of the file, and the number of its lines."""

    def __init__(
        self, path: Path | str, *, fsync: bool, overwrite: bool, compression: Compression = NONE
    ) -> None:
        self._path = Path(path)
        self._compression = compression
        self._fsync = fsync
        self._overwrite = overwrite
        self._file: AppendFile | None = None
        self._lines = 0  # in the file
        self._pending: list[bytes] = []

    def restore(self, checkpoint: bytes | None) -> None:
        """Cut the file back to its length at the checkpoint."""
        state = LinesCheckpoint(0, 0, 0) if checkpoint is None else LinesCheckpoint.load(checkpoint)
        self._file = AppendFile(
            self._path,
            length=None if checkpoint is None else state.length,
            fsync=self._fsync,
            overwrite=self._overwrite,
            checksum=state.checksum,
        )
        self._lines = state.lines if state.lines is not None else count_lines(self._path, state.length)

    def write(self, items: Sequence[Item]) -> None:
        """Buffer items."""
        self._pending += [item.json for item in items]

    def flush(self) -> bytes:
        """Append the buffered items in one write."""
        assert self._file is not None, "restore first"
        if self._pending:
            self._file.append(self._compression.pack(b"\n".join(self._pending) + b"\n"))
            self._lines += len(self._pending)
            self._pending.clear()
        state = LinesCheckpoint(self._file.length, self._file.checksum, self._lines)
        return msgspec.msgpack.encode(state)

    def finish(self) -> bytes:
        """Flush for the last time, and check that the file is still at its path."""
        self.flush()
        assert self._file is not None
        self._file.check()
        if not self._file.length and self._compression.empty:
            self._file.append(self._compression.empty)
        return self.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()


class StdoutSink:
    """Lines on standard output. They cannot be cut back, so a resumed crawl may repeat some."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def restore(self, checkpoint: bytes | None) -> None:
        """Do nothing: the stream cannot be cut back."""

    def write(self, items: Sequence[Item]) -> None:
        """Buffer items."""
        for item in items:
            # The stream may be a terminal, which must not act on the text of a page.
            self._pending += escape_json(item.json.decode()).encode()
            self._pending += b"\n"

    def flush(self) -> bytes:
        """Write the buffered items, blocking while the pipe is full."""
        with translate_errors("-"):
            descriptor = sys.stdout.fileno()
            while self._pending:
                try:
                    del self._pending[: os.write(descriptor, self._pending)]
                except BlockingIOError:  # another process has set the stream to non-blocking
                    select.select([], [descriptor], [])
        return b""

    def finish(self) -> bytes:
        """Flush; nothing else is left to do."""
        return self.flush()

    def close(self) -> None:
        """Leave standard output open."""


def _recount(output: str, checkpoint: bytes, *, compression: Compression) -> int:
    state = LinesCheckpoint.load(checkpoint)
    return count_lines(Path(output), state.length, state.checksum, state.lines, compression=compression)


def _read(output: str, *, compression: Compression) -> Iterator[Item]:
    """Yield the complete lines."""
    with readable(output, *DAMAGE), compression.open(output) as lines:
        for number, line in enumerate(lines):
            if line.endswith(b"\n"):
                yield Item(f"{number:016x}", line[:-1])


def _open_stdout(_output: str, *, fsync: bool, overwrite: bool) -> StdoutSink:
    return StdoutSink()


FACTORY, GZIP_FACTORY, ZSTD_FACTORY = factories(JsonlSink, _recount, _read)
STDOUT_FACTORY = SinkFactory(open=_open_stdout)
