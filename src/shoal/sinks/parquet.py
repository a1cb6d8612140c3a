"""Items as a folder of Parquet files, `part-00000.parquet` and on, that reads as one table.

Rows first go to a hidden file of JSON lines. When there are enough of them, and when a run ends, they become
a part: written under another name, renamed, and only then is the hidden file removed. A kill at any instant
leaves whole parts only.

A column has the narrowest type that holds all its values: bool, int64, double, or string, in which whatever
is not text is JSON. Lists and objects are JSON. Until a run ends, a part knows only what came before it;
`finish` rewrites the parts that have become too narrow, so that in the end all have the same schema.

The checkpoint is a part's number and how much of it there is, in bytes and in rows, and the rows of all parts
before it. If the part has been completed since, `restore` shortens it to those rows.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.model.errors import Rejected
from shoal.model.limits import MIB
from shoal.model.page import Item
from shoal.sinks.columns import decode_item
from shoal.sinks.files import AppendFile, identity, lock, refuse, refuse_changed, sync_folder, translated
from shoal.sinks.tables import Column, columns_of, fitted, merged, schema_of, table_of

PART_ROWS = 50_000  # rows and bytes of JSON that make a part: about half a second of work
PART_BYTES = 32 * MIB

_PART = re.compile(r"part-(\d{5,9})\.parquet")
_HIDDEN = re.compile(r"\.rows-\d{5,9}\.jsonl|\.draft\.parquet")


class ParquetCheckpoint(msgspec.Struct, frozen=True, array_like=True):
    part: int = 0
    length: int = 0
    rows: int = 0
    before: int = 0  # rows in the parts before it


class ParquetSink:
    """Parts in a folder, and a hidden file of rows for the next one."""

    def __init__(
        self,
        path: Path,
        *,
        fsync: bool,
        overwrite: bool,
        part_rows: int = PART_ROWS,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self._path = path
        self._fsync = fsync
        self._overwrite = overwrite
        self._part_rows = part_rows
        self._part_bytes = part_bytes
        self._folder = -1  # a descriptor, for the lock
        self._next = 0  # number of the part to come
        self._waiting: AppendFile | None = None  # its rows
        self._rows = 0  # how many
        self._before = 0  # rows in the parts there are
        self._parts: list[dict[str, Column]] = []  # the columns of each part there is
        self._pending: list[bytes] = []

    def restore(self, checkpoint: bytes | None) -> None:
        """Remove the parts that came after the checkpoint, and shorten its own."""
        state = (
            ParquetCheckpoint()
            if checkpoint is None
            else msgspec.msgpack.decode(checkpoint, type=ParquetCheckpoint)
        )
        try:
            with translated(self._path):
                self._path.mkdir(parents=True, exist_ok=True)
                self._folder = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
                lock(self._folder, self._path)
                if checkpoint is None:
                    self._check_free()
                self._cut(state)
            self._parts = [self._columns(number) for number in range(self._next)]
        except BaseException:
            self.close()
            raise

    def write(self, items: Sequence[Item]) -> None:
        """Take items in."""
        self._pending += [item.json for item in items]

    def flush(self) -> bytes:
        """Put what was taken in with the rows that wait, and make a part of them if they are enough."""
        if self._pending:
            self._check()
            if self._waiting is None:
                self._waiting = AppendFile(rows_path(self._path, self._next), length=0, fsync=self._fsync)
            self._waiting.append(b"\n".join(self._pending) + b"\n")
            self._rows += len(self._pending)
            self._pending.clear()
        length = self._waiting.length if self._waiting else 0
        if self._rows >= self._part_rows or length >= self._part_bytes:
            self._complete()
            length = 0
        return msgspec.msgpack.encode(ParquetCheckpoint(self._next, length, self._rows, self._before))

    def finish(self) -> bytes:
        """Make a part of the rows that wait, and give all parts the same schema."""
        self.flush()
        if self._rows:
            self._complete()
        for number in range(self._next):
            if not part_path(self._path, number).exists():
                raise refuse_changed(part_path(self._path, number))
        columns = merged(self._parts)
        for number, part in enumerate(self._parts):
            if schema_of(part) != schema_of(columns):
                with translated(part_path(self._path, number)):
                    self._save(
                        number,
                        fitted(pq.read_table(part_path(self._path, number), partitioning=None), columns),
                    )
                self._parts[number] = columns
        return self.flush()

    def close(self) -> None:
        """Close the files."""
        if self._waiting:
            self._waiting.close()
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def _check_free(self) -> None:
        """Make sure that nothing is in the folder, or nothing but what may be overwritten."""
        names = os.listdir(self._path)
        ours = [name for name in names if _PART.fullmatch(name) or _HIDDEN.fullmatch(name)]
        if names and (not self._overwrite or len(ours) < len(names)):
            raise refuse(self._path)

    def _check(self) -> None:
        """See that the folder is still where it was: another one would be made in its place."""
        with translated(self._path):
            found = os.fstat(self._folder)
            if identity(self._path) != (found.st_dev, found.st_ino):
                raise refuse_changed(self._path)

    def _cut(self, state: ParquetCheckpoint) -> None:
        rows_file, part = rows_path(self._path, state.part), part_path(self._path, state.part)
        completed = state.rows > 0 and part.exists()
        for name in os.listdir(self._path):
            number = int(found[1]) if (found := _PART.fullmatch(name)) else -1
            outdated = number > state.part or (number == state.part and not completed)
            leftover = _HIDDEN.fullmatch(name) and (completed or not state.rows or name != rows_file.name)
            if outdated or leftover:
                (self._path / name).unlink()
        self._next, self._rows, self._before = state.part, state.rows, state.before
        if completed:
            table = pq.read_table(part, partitioning=None)
            if table.num_rows < state.rows:
                raise refuse_changed(part)
            if table.num_rows > state.rows:
                self._save(state.part, table.slice(0, state.rows))
            self._next, self._rows, self._before = state.part + 1, 0, state.before + state.rows
        elif state.rows:
            self._waiting = AppendFile(rows_file, length=state.length, fsync=self._fsync)

    def _complete(self) -> None:
        """Turn the rows that wait into a part."""
        assert self._waiting is not None
        waiting = self._waiting
        with translated(waiting.path):
            lines = waiting.path.read_bytes()[: waiting.length].split(b"\n")[:-1]
            table, columns = table_of([decode_item(line) for line in lines], merged(self._parts))
            self._save(self._next, table)
        self._parts.append(columns)
        self._before += self._rows
        self._next, self._rows, self._waiting = self._next + 1, 0, None
        waiting.close()
        with translated(waiting.path):
            waiting.path.unlink()

    def _save(self, number: int, table: pa.Table) -> None:
        draft = self._path / ".draft.parquet"
        with draft.open("wb") as file:
            pq.write_table(table, file, compression="zstd")
            file.flush()
            if self._fsync:
                os.fsync(file.fileno())
        draft.replace(part_path(self._path, number))
        if self._fsync:
            sync_folder(self._path)

    def _columns(self, number: int) -> dict[str, Column]:
        path = part_path(self._path, number)
        try:
            return columns_of(pq.read_schema(path))
        except (OSError, ValueError):  # not there, not Parquet, or somebody else's
            raise refuse_changed(path) from None


def part_path(folder: Path, number: int) -> Path:
    """Say where a part lies."""
    return folder / f"part-{number:05d}.parquet"


def rows_path(folder: Path, number: int) -> Path:
    """Say where the rows lie that are to become a part."""
    return folder / f".rows-{number:05d}.jsonl"


def rows_of(folder: Path, number: int) -> int:
    """Read how many rows a part has; raise `Rejected` if it is gone or damaged."""
    path = part_path(folder, number)
    if not path.exists():
        raise Rejected(f"output {path} is gone")
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, ValueError):
        raise Rejected(f"output {path} cannot be read as Parquet") from None
