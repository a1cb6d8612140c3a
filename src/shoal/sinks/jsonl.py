"""One JSON object a line, byte for byte as it was encoded where the item was made."""

import os
import select
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from shoal.model.page import Item
from shoal.sinks.files import AppendFile, translated


class JsonlSink:
    """Lines in a file; the checkpoint is the file's length."""

    def __init__(self, path: Path, *, fsync: bool, overwrite: bool) -> None:
        self._path = path
        self._fsync = fsync
        self._overwrite = overwrite
        self._file: AppendFile | None = None
        self._pending: list[bytes] = []

    def restore(self, checkpoint: bytes | None) -> None:
        """Cut the file back to its length at the checkpoint."""
        length = None if checkpoint is None else msgspec.msgpack.decode(checkpoint, type=int)
        self._file = AppendFile(self._path, length=length, fsync=self._fsync, overwrite=self._overwrite)

    def write(self, items: Sequence[Item]) -> None:
        """Take items in."""
        self._pending += [item.json for item in items]

    def flush(self) -> bytes:
        """Append what was taken in, in one write."""
        assert self._file is not None, "restore first"
        if self._pending:
            self._file.append(b"\n".join(self._pending) + b"\n")
            self._pending.clear()
        return msgspec.msgpack.encode(self._file.length)

    def finish(self) -> bytes:
        """Flush for the last time, and see that the file is still there."""
        checkpoint = self.flush()
        assert self._file is not None
        self._file.check()
        return checkpoint

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()


class StdoutSink:
    """Lines on standard output. They cannot be taken back, so a resumed crawl may repeat some."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def restore(self, checkpoint: bytes | None) -> None:
        """Start where the stream is."""

    def write(self, items: Sequence[Item]) -> None:
        """Take items in."""
        for item in items:
            self._pending += item.json
            self._pending += b"\n"

    def flush(self) -> bytes:
        """Write what was taken in, waiting for whoever reads it."""
        with translated("-"):
            descriptor = sys.stdout.fileno()
            while self._pending:
                try:
                    del self._pending[: os.write(descriptor, self._pending)]
                except (
                    BlockingIOError
                ):  # somebody made the stream non-blocking; to us a full pipe is no error
                    select.select([], [descriptor], [])
        return b""

    def finish(self) -> bytes:
        """Nothing is left to do after the last flush."""
        return self.flush()

    def close(self) -> None:
        """Leave standard output to whoever it belongs to."""
