"""Items as a folder of Parquet files, `part-00000.parquet` and so on, that reads as one table.

Rows first go to a hidden file of JSON lines. When there are enough of them, and when a run ends, they become
a part: written under another name and renamed; only then is the hidden file deleted. A kill at any instant
leaves complete parts only.

A column has the narrowest type that holds all its values: bool, int64, double, or string. In a string column,
values that are not text are JSON; so are lists and objects. During a run, the schema of a part covers its own
rows and those of earlier parts; `finish` rewrites the parts that are too narrow, so that all have the same
schema.

The checkpoint is the number of a part, the bytes and rows written for it, and the rows of all parts before
it. If that part has been completed since, `restore` shortens it to those rows.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.model.errors import Rejected
from shoal.model.limits import MIB
from shoal.model.page import Item
from shoal.sinks.columns import Record, decode_item
from shoal.sinks.files import (
    AppendFile,
    altered_output,
    changed_output,
    count_lines,
    foreign_output,
    identity,
    lock,
    sync_folder,
    translate_errors,
)
from shoal.sinks.names import HIDDEN_PART, PART, is_part
from shoal.sinks.tables import (
    Column,
    checksum_of_table,
    columns_of,
    merge_columns,
    records_of_file,
    schema_of,
    table_of,
    widen_table,
)

PART_ROWS = 50_000  # rows and bytes of JSON that make a part: about half a second of work
PART_BYTES = 32 * MIB


class PartsCheckpoint(msgspec.Struct, frozen=True, array_like=True):
    part: int = 0
    length: int = 0
    rows: int = 0
    before: int = 0  # rows in the parts before it
    checksums: list[int | None] = []  # of the parts before it; None: written by an earlier version
    rows_checksum: int | None = None  # of the bytes that wait for the part


class PartsSink:
    """Parts in a folder, and a hidden file of rows for the next one."""

    def __init__(
        self,
        path: Path | str,
        *,
        fsync: bool,
        overwrite: bool,
        part_rows: int = PART_ROWS,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self._path = Path(path)
        self._fsync = fsync
        self._overwrite = overwrite
        self._part_rows = part_rows
        self._part_bytes = part_bytes
        self._folder = -1  # a descriptor, for the lock
        self._next = 0  # number of the next part
        self._waiting: AppendFile | None = None  # the hidden file with its rows
        self._rows = 0  # number of its rows
        self._before = 0  # rows in the completed parts
        self._known: Mapping[str, Column] = {}  # columns of earlier rows that are not in the folder
        self._parts: list[dict[str, Column]] = []  # the columns of each completed part
        self._checksums: list[int | None] = []  # of the same parts
        self._pending: list[bytes] = []

    def restore(self, checkpoint: bytes | None) -> None:
        """Delete the parts after the checkpoint, and shorten the part of the checkpoint."""
        self.restore_state(None if checkpoint is None else decode_parts(checkpoint, self._path))

    def restore_state(self, state: PartsCheckpoint | None, known: Mapping[str, Column] | None = None) -> None:
        """Do what `restore` does. `known`: columns of rows that are elsewhere; all parts get them, too."""
        self._known = known or {}
        try:
            with translate_errors(self._path):
                self._path.mkdir(parents=True, exist_ok=True)
                self._folder = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
                lock(self._folder, self._path)
                if state is None:
                    self._check_free()
                self._cut(state or PartsCheckpoint())
            self._parts = [self._columns(number) for number in range(self._next)]
        except BaseException:
            self.close()
            raise

    def write(self, items: Sequence[Item]) -> None:
        """Buffer items."""
        self._pending += [item.json for item in items]

    def flush(self) -> bytes:
        """Append the buffered items to the hidden file, and make a part of its rows if there are enough."""
        if self._pending:
            self._check_folder()
            if self._waiting is None:
                self._waiting = AppendFile(rows_path(self._path, self._next), length=0, fsync=self._fsync)
            self._waiting.append(b"\n".join(self._pending) + b"\n")
            self._rows += len(self._pending)
            self._pending.clear()
        length = self._waiting.length if self._waiting else 0
        if self._rows >= self._part_rows or length >= self._part_bytes:
            self._complete()
        return msgspec.msgpack.encode(self.state)

    @property
    def state(self) -> PartsCheckpoint:
        """What the folder holds."""
        length, checksum = (self._waiting.length, self._waiting.checksum) if self._waiting else (0, 0)
        return PartsCheckpoint(self._next, length, self._rows, self._before, self._checksums, checksum)

    @property
    def parts(self) -> Sequence[tuple[Path, dict[str, Column], int | None]]:
        """The path, the columns and the checksum of each part."""
        paths = [part_path(self._path, number) for number in range(self._next)]
        return list(zip(paths, self._parts, self._checksums, strict=True))

    def finish(self) -> bytes:
        """Make a part of the remaining rows, and rewrite parts so that all have the same schema."""
        self.complete()
        columns = merge_columns(self._parts)
        for number, part in enumerate(self._parts):
            if schema_of(part) != schema_of(columns):
                with translate_errors(path := part_path(self._path, number)):
                    self._save(number, widen_table(pq.read_table(path, partitioning=None), columns))
                self._parts[number] = columns
        return self.flush()

    def complete(self) -> None:
        """Make a part of the remaining rows."""
        self.flush()
        if self._rows:
            self._complete()
        for path, *_ in self.parts:
            if not path.exists():
                raise changed_output(path)

    def clear(self, known: Mapping[str, Column]) -> None:
        """Delete all parts: their rows, which have the columns `known`, are elsewhere by now."""
        with translate_errors(self._path):
            self._cut(PartsCheckpoint())
        self._parts, self._known = [], known

    def remove(self) -> None:
        """Delete the folder if it is empty and this sink has locked it."""
        if self._folder >= 0:
            with suppress(OSError):
                self._path.rmdir()

    def close(self) -> None:
        """Close the files, and release the lock of the folder."""
        if self._waiting:
            self._waiting.close()
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def _check_free(self) -> None:
        """Raise unless the folder is empty, or holds only files of this sink and may be overwritten."""
        names = os.listdir(self._path)
        ours = [name for name in names if is_part(name)]
        if names and (not self._overwrite or len(ours) < len(names)):
            raise foreign_output(self._path)

    def _check_folder(self) -> None:
        """Raise if the folder was moved or deleted: opening the next file would create another one."""
        with translate_errors(self._path):
            found = os.fstat(self._folder)
            if identity(self._path) != (found.st_dev, found.st_ino):
                raise changed_output(self._path)

    def _cut(self, state: PartsCheckpoint) -> None:
        rows_file, part = rows_path(self._path, state.part), part_path(self._path, state.part)
        completed = state.rows > 0 and part.exists()
        for name in os.listdir(self._path):
            number = int(found[1]) if (found := PART.fullmatch(name)) else -1
            outdated = number > state.part or (number == state.part and not completed)
            leftover = HIDDEN_PART.fullmatch(name) and (completed or not state.rows or name != rows_file.name)
            if outdated or leftover:
                (self._path / name).unlink()
        self._next, self._rows, self._before = state.part, state.rows, state.before
        if completed:
            table = pq.read_table(part, partitioning=None)
            if table.num_rows < state.rows:
                raise changed_output(part)
            if table.num_rows > state.rows:
                self._save(state.part, table.slice(0, state.rows))
            self._next, self._rows, self._before = state.part + 1, 0, state.before + state.rows
        elif state.rows:
            self._waiting = AppendFile(
                rows_file, length=state.length, fsync=self._fsync, checksum=state.rows_checksum
            )
        known = state.checksums[: self._next]
        self._checksums = known + [None] * (self._next - len(known))
        if completed:
            self._checksums[-1] = checksum_of_table(pq.read_table(part, partitioning=None))

    def _complete(self) -> None:
        """Make a part of the rows in the hidden file."""
        assert self._waiting is not None
        waiting = self._waiting
        with translate_errors(waiting.path):
            lines = waiting.path.read_bytes()[: waiting.length].split(b"\n")[:-1]
            known = merge_columns([self._known, *self._parts])
            table, columns = table_of([decode_item(line) for line in lines], known)
            self._save(self._next, table)
        self._parts.append(columns)
        self._checksums.append(checksum_of_table(table))
        self._before += self._rows
        self._next, self._rows, self._waiting = self._next + 1, 0, None
        waiting.close()
        with translate_errors(waiting.path):
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
        except (OSError, ValueError):  # missing, not Parquet, or not written by Shoal
            raise changed_output(path) from None


def part_path(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05d}.parquet"


def rows_path(folder: Path, number: int) -> Path:
    """Return the path of the hidden file with the rows of a part that is not complete."""
    return folder / f".rows-{number:05d}.jsonl"


def decode_parts(checkpoint: bytes, path: Path) -> PartsCheckpoint:
    try:
        return msgspec.msgpack.decode(checkpoint, type=PartsCheckpoint)
    except msgspec.ValidationError:  # there was a file when this checkpoint was made
        raise changed_output(path) from None


def recount_parts(path: Path, state: PartsCheckpoint) -> int:
    """Count the rows of the parts, and those in the hidden file."""
    if not path.exists():
        raise Rejected(f"output {path} is missing")
    before = sum(_part_rows(path, number) for number in range(state.part))
    if before != state.before:
        raise Rejected(
            f"output {path} holds {before} rows in its first {state.part} parts,"
            f" but {state.before} were written there"
        )
    for number, checksum in enumerate(state.checksums):
        if checksum is not None and checksum_of_table(_read_part(path, number)) != checksum:
            raise altered_output(part_path(path, number), "as many rows", "but not those written there")
    if not state.rows:
        return before
    # The part is written before the hidden file is deleted: while a crawl runs, one of the two exists.
    waiting = rows_path(path, state.part)
    found = (
        count_lines(waiting, state.length, state.rows_checksum, state.rows)
        if waiting.exists()
        else min(_part_rows(path, state.part), state.rows)
    )
    if found != state.rows:
        raise Rejected(
            f"output {path} holds {found} rows after its last part, but {state.rows} were written there"
        )
    return before + found


def _read_part(folder: Path, number: int) -> pa.Table:
    path = part_path(folder, number)
    try:
        return pq.read_table(path, partitioning=None)
    except (OSError, ValueError):
        raise Rejected(f"output {path} cannot be read as Parquet") from None


def _part_rows(folder: Path, number: int) -> int:
    """Return the number of rows of a part; raise `Rejected` if it is missing or damaged."""
    path = part_path(folder, number)
    if not path.exists():
        raise Rejected(f"output {path} is missing")
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, ValueError):
        raise Rejected(f"output {path} cannot be read as Parquet") from None


def read_rows(path: Path) -> Iterator[Record]:
    """Yield the items of the Parquet files in a folder, and those that wait for the next part."""
    files = sorted(file for file in path.iterdir() if file.suffix == ".parquet" and file.name[0] != ".")
    for file in files:
        yield from records_of_file(file)
    waiting = rows_path(path, len(files))
    if waiting.exists():
        with waiting.open("rb") as lines:
            yield from (decode_item(line) for line in lines if line.endswith(b"\n"))
