"""Read the items of a JSONL output: all of them, or one after the other while a crawl writes them.

A reader yields what is stored and remembers in a file beside the output (`<file>.cursor`) how far it has got.
The next reader continues there. An item may be read twice after a crash, when the crawl cuts its output back
to a checkpoint and the reader was further; none is left out.
"""

import time
import zlib
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from shoal.model.errors import Misconfigured, ShoalError
from shoal.sinks.fleet.checkpointed import read_position
from shoal.sinks.jsonl import LinesCheckpoint
from shoal.sinks.registry import resolve

Item = dict[str, Any]

READ_BYTES = 256 * 1024
_LOOK_EVERY_S = 0.05  # between two looks at the length of the file

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Cursor(msgspec.Struct, frozen=True):
    offset: int
    checksum: int  # of everything before it: `--fresh` writes another file


def is_item_file(output: str) -> bool:
    """Return whether an output is a file of JSON lines."""
    return "://" not in output and output.lower().endswith((".jsonl", ".ndjson"))


def read_items(path: Path) -> Iterator[Item]:
    """Yield every item of an output that is complete."""
    with path.open("rb") as file:
        for line in file:
            yield _decode(line)


def decode_items(lines: bytes) -> list[Item]:
    return [_decode(line) for line in lines.splitlines()]


def stored_length(path: Path) -> int:
    """Return the length up to which an output will not be cut back while its crawl runs."""
    try:
        size = path.stat().st_size
        # A fleet keeps the checkpoint beside the file; its writer may be replaced while a crawl runs.
        if path.with_name(f"{path.name}.shoal").exists():
            last = read_position(resolve(str(path)))
            return min(size, 0 if last is None else LinesCheckpoint.load(last[0]).length)
    except (FileNotFoundError, ShoalError):
        return 0
    return size


class ItemReader:
    """Reads an output while another thread writes it.

    One thread calls `read` and `save`, another one `is_behind`.
    """

    def __init__(self, path: Path, *, buffer: int, resume: bool) -> None:
        """Continue after what earlier readers have read, or, without `resume`, start at the first item."""
        self._path = path
        self._cursor_path = path.with_name(f"{path.name}.cursor")
        self._buffer = buffer
        self._offset, self._checksum = self._saved_position() if resume else (0, 0)
        if not resume:
            self._cursor_path.unlink(missing_ok=True)
        self._saved = self._offset  # in the file of the cursor; without one, the offset is 0
        self._lines: deque[bytes] = deque()  # read ahead, after the offset
        self._taken = 0  # items that the caller has got
        self._written, self._counted_to = 0, self._offset  # items after the first offset, and up to where
        self._looked_at = 0.0  # monotonic

    def read(self) -> Item | None:
        """Return the next item; None: it is not stored yet."""
        if not self._lines:
            self._read_lines()
        if not self._lines:
            return None
        line = self._lines.popleft()
        self._offset += len(line) + 1
        self._checksum = zlib.crc32(line + b"\n", self._checksum)
        self._taken += 1
        return _decode(line)

    def _read_lines(self) -> None:
        length, start = self._stored(), self._offset
        text = b""
        while b"\n" not in text and start + len(text) < length:  # one item may be longer than a chunk
            new = self._read(start + len(text), min(READ_BYTES, length - start - len(text)))
            if not new:
                return
            text += new
        self._lines.extend(text.split(b"\n")[:-1])

    def is_behind(self) -> bool:
        """Return whether more items are stored and not read than the buffer allows."""
        now = time.monotonic()
        if now - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at, length = now, self._stored()
            while self._counted_to < length:
                new = self._read(self._counted_to, min(READ_BYTES, length - self._counted_to))
                if not new:
                    break
                self._written += new.count(b"\n")
                self._counted_to += len(new)
        return self._written - self._taken > self._buffer

    def save(self) -> None:
        """Store how far the caller has got."""
        if self._offset == self._saved:
            return
        self._saved = self._offset
        cursor = Cursor(self._offset, self._checksum)
        draft = self._cursor_path.with_name(f"{self._cursor_path.name}.draft")
        draft.write_bytes(msgspec.json.encode(cursor))
        draft.replace(self._cursor_path)

    def _saved_position(self) -> tuple[int, int]:
        """Return where the last reader stopped, and the checksum up to there."""
        try:
            cursor = msgspec.json.decode(self._cursor_path.read_bytes(), type=Cursor)
        except FileNotFoundError:
            return 0, 0
        except msgspec.MsgspecError:
            raise Misconfigured(f"{self._cursor_path}: not written by Shoal; move it away") from None
        # Where a crash has cut the file back, everything after the last complete item is read again.
        end = max(0, min(cursor.offset, self._stored()))
        checksum = offset = 0
        while offset < end and (chunk := self._read(offset, min(READ_BYTES, end - offset))):
            offset, checksum = offset + len(chunk), zlib.crc32(chunk, checksum)
        if end < cursor.offset or checksum == cursor.checksum:
            return offset, checksum
        return 0, 0

    def _stored(self) -> int:
        return stored_length(self._path)

    def _read(self, start: int, size: int) -> bytes:
        try:
            with self._path.open("rb") as file:
                file.seek(start)
                return file.read(size)
        except FileNotFoundError:
            return b""
