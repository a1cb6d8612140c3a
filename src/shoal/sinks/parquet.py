"""Items as one Parquet file, or, for a path that ends in a slash, as a folder of parts.

A Parquet file cannot be appended to. So the rows of a run go to parts in the folder `<file>.parts`
(`parquet_parts`), and `finish` writes the file again: the rows that it has, then those of the parts. It is
written beside its place and renamed; only then are the parts deleted. Until the first run has ended, the file
is empty, and cannot be read as Parquet; later it holds the items of all runs that have ended.

The checkpoint is what the file holds and what the parts hold. The rows of a run are appended to those of the
file in their order: if the file has more rows than the checkpoint says, it was written again since, the parts
are outdated, and `restore` cuts the file back to as many rows as the checkpoint has in all.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.model.errors import Misconfigured, Rejected
from shoal.model.page import Item
from shoal.sinks.columns import Record, encode_record
from shoal.sinks.contract import SinkFactory
from shoal.sinks.files import (
    altered_output,
    changed_output,
    foreign_output,
    identity,
    not_a_file,
    readable,
    sync_folder,
    translate_errors,
)
from shoal.sinks.names import parts_folder
from shoal.sinks.parquet_parts import (
    PART_BYTES,
    PART_ROWS,
    PartsCheckpoint,
    PartsSink,
    decode_parts,
    read_rows,
    recount_parts,
)
from shoal.sinks.tables import (
    Column,
    checksum_of_table,
    columns_of,
    merge_columns,
    records_of_file,
    schema_of,
    widen_table,
)


class Stretch(msgspec.Struct, frozen=True, array_like=True):
    """Rows of the file that came from one part."""

    rows: int
    checksum: int | None


class ParquetCheckpoint(msgspec.Struct, frozen=True, array_like=True):
    file: list[Stretch]
    parts: PartsCheckpoint

    @property
    def in_file(self) -> int:
        return sum(stretch.rows for stretch in self.file)

    @property
    def in_parts(self) -> int:
        return self.parts.before + self.parts.rows


class ParquetFile:
    """One file, and a folder of parts beside it while a run lasts."""

    def __init__(self, path: Path, parts: PartsSink, *, fsync: bool, overwrite: bool) -> None:
        self._path = path
        self._parts = parts
        self._fsync = fsync
        self._overwrite = overwrite
        self._opened: tuple[int, int] | None = None  # identity of the file
        self._stretches: list[Stretch] = []
        self._columns: Mapping[str, Column] = {}
        self._unflushed = False

    def restore(self, checkpoint: bytes | None) -> None:
        """Cut the file back, or the parts, to the rows of the checkpoint."""
        try:
            if checkpoint is None:
                self._check_free()
                self._parts.restore_state(None)
                self._check_free()  # the parts are locked now: no other crawl writes the file any more
                self._replace(None, {})
            else:
                self._restore(decode_file(checkpoint, self._path))
            self._opened = identity(self._path)
            with translate_errors(self._path):
                self._draft.unlink(missing_ok=True)  # of a process that was killed
        except BaseException:
            self.close()
            raise

    def write(self, items: Sequence[Item]) -> None:
        """Buffer items."""
        self._parts.write(items)
        self._unflushed |= bool(items)

    def flush(self) -> bytes:
        """Write the buffered items to the parts."""
        if self._unflushed:
            self._check_file()
            self._parts.flush()
            self._unflushed = False
        return msgspec.msgpack.encode(ParquetCheckpoint(self._stretches, self._parts.state))

    def finish(self) -> bytes:
        """Write the file again, with the rows of the parts."""
        self.flush()
        self._check_file()
        self._parts.complete()
        parts = self._parts.parts
        if parts or not self._stretches:
            columns = merge_columns([self._columns, *(columns for _, columns, _ in parts)])
            files = [self._path] if self._stretches else []
            self._replace(_tables(*files, *(path for path, *_ in parts)), columns)
            self._stretches += [Stretch(_count(path) or 0, checksum) for path, _, checksum in parts]
            self._columns = columns
            self._parts.clear(columns)
        return self.flush()

    def close(self) -> None:
        """Close the parts; delete their folder if it is empty."""
        self._parts.remove()
        self._parts.close()

    @property
    def _draft(self) -> Path:
        return self._path.with_name(f".{self._path.name}.draft")

    def _check_file(self) -> None:
        with translate_errors(self._path):
            if identity(self._path) != self._opened:
                raise changed_output(self._path)

    def _check_free(self) -> None:
        """Raise if the path leads to something that must not be replaced."""
        with translate_errors(self._path):
            try:
                found = self._path.stat()
            except FileNotFoundError:
                return
        if not stat.S_ISREG(found.st_mode):
            raise not_a_file(self._path)
        if not self._overwrite and _count(self._path) != 0:
            raise foreign_output(self._path)

    def _restore(self, state: ParquetCheckpoint) -> None:
        found = _count(self._path)
        merged = found is not None and found > state.in_file  # with the parts, and perhaps with later ones
        rows = state.in_file + (state.in_parts if merged else 0)
        if found is None or found < rows:
            raise changed_output(self._path)
        try:
            self._columns = columns_of(pq.read_schema(self._path)) if found else {}
        except (OSError, ValueError):
            raise changed_output(self._path) from None
        self._parts.restore_state(PartsCheckpoint() if merged else state.parts, self._columns)
        self._stretches = list(state.file)
        if found > rows:
            self._replace(_tables(self._path, stop=rows), self._columns)
        if merged:
            checksum = _checksum(self._path, state.in_file, rows)
            self._stretches.append(Stretch(state.in_parts, checksum))

    def _replace(self, tables: Iterable[pa.Table] | None, columns: Mapping[str, Column]) -> None:
        """Replace the file by these rows; None: by an empty file, which is not Parquet."""
        with translate_errors(self._path):
            with self._draft.open("wb") as file:
                if tables is not None:
                    _write(file, tables, columns)
                file.flush()
                if self._fsync:
                    os.fsync(file.fileno())
            self._draft.replace(self._path)
            self._opened = identity(self._path)
            if self._fsync:
                sync_folder(self._path.parent)


class ParquetSink:
    """One file, or a folder of parts: a path that ends in a slash, or a folder that was written before."""

    def __init__(
        self,
        output: Path | str,
        *,
        fsync: bool,
        overwrite: bool,
        part_rows: int = PART_ROWS,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self._path = Path(output)
        self._as_folder = str(output).endswith("/")
        self._fsync = fsync
        self._overwrite = overwrite
        self._part_rows = part_rows
        self._part_bytes = part_bytes
        self._sink: ParquetFile | PartsSink | None = None

    def restore(self, checkpoint: bytes | None) -> None:
        """Restore the file or the folder to the checkpoint."""
        if self._as_folder or (checkpoint is not None and self._path.is_dir()):
            self._sink = self._open_parts(self._path)
        elif self._path.is_dir():
            raise Misconfigured(
                f"output {self._path}: there is a folder; name it as {self._path}/ to write parts into it,"
                " or name another output"
            )
        else:
            parts = self._open_parts(parts_folder(self._path))
            self._sink = ParquetFile(self._path, parts, fsync=self._fsync, overwrite=self._overwrite)
        self._sink.restore(checkpoint)

    def write(self, items: Sequence[Item]) -> None:
        """Buffer items."""
        self._opened.write(items)

    def flush(self) -> bytes:
        """Write the buffered items to a part."""
        return self._opened.flush()

    def finish(self) -> bytes:
        """Complete the file, or the parts."""
        return self._opened.finish()

    def close(self) -> None:
        """Close the files."""
        if self._sink is not None:
            self._sink.close()

    @property
    def _opened(self) -> ParquetFile | PartsSink:
        assert self._sink is not None, "restore first"
        return self._sink

    def _open_parts(self, folder: Path) -> PartsSink:
        return PartsSink(
            folder,
            fsync=self._fsync,
            overwrite=self._overwrite,
            part_rows=self._part_rows,
            part_bytes=self._part_bytes,
        )


def decode_file(checkpoint: bytes, path: Path) -> ParquetCheckpoint:
    try:
        return msgspec.msgpack.decode(checkpoint, type=ParquetCheckpoint)
    except msgspec.ValidationError:  # there was a folder when this checkpoint was made
        raise changed_output(path) from None


def _count(path: Path) -> int | None:
    """Return the number of rows of a file; 0: it is empty; None: it is missing, or not Parquet."""
    try:
        return int(pq.read_metadata(path).num_rows) if path.stat().st_size else 0
    except (OSError, ValueError):
        return None


def _tables(*paths: Path, start: int = 0, stop: int | None = None) -> Iterator[pa.Table]:
    """Yield the rows of files, from one number to another, a bounded number at a time."""
    at = 0
    for path in paths:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                first, last = max(start - at, 0), rows if stop is None else min(stop - at, rows)
                if first < last:
                    yield file.read_row_group(group).slice(first, last - first)
                at += rows


def _write(file: BinaryIO, tables: Iterable[pa.Table], columns: Mapping[str, Column]) -> None:
    schema = schema_of(columns)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table if table.schema == schema else widen_table(table, columns))


def _checksum(path: Path, start: int, stop: int) -> int:
    checksum = 0
    for table in _tables(path, start=start, stop=stop):
        checksum = checksum_of_table(table, checksum)
    return checksum


def _recount(output: str, checkpoint: bytes) -> int:
    """Count the rows of the file, and those of the parts."""
    path = Path(output)
    if path.is_dir():
        return recount_parts(path, decode_parts(checkpoint, path))
    if not path.exists():
        raise Rejected(f"output {path} is missing")
    state = decode_file(checkpoint, path)
    rows = state.in_file + state.in_parts
    found = _found(path)
    if found == state.in_file:
        try:
            in_parts = recount_parts(parts_folder(path), state.parts) if state.in_parts else 0
        except Rejected:
            if _found(path) < rows:  # not because a running crawl has put them into the file just now
                raise
            in_parts = state.in_parts
    elif found >= rows:  # the parts were put into the file since
        in_parts = state.in_parts
    else:
        raise Rejected(f"output {path} holds {found} rows, but {rows} were written there")
    _compare(path, state.file)
    return state.in_file + in_parts


def _compare(path: Path, stretches: Sequence[Stretch]) -> None:
    """Raise `Rejected` if the rows of the file are not those that were written."""
    at = 0
    for stretch in stretches:
        try:
            checksum = _checksum(path, at, at + stretch.rows)
        except (OSError, ValueError, pa.ArrowException):
            raise Rejected(f"output {path} cannot be read as Parquet") from None
        if stretch.checksum not in (None, checksum):
            raise altered_output(path, "as many rows", "but not those written there")
        at += stretch.rows


def _found(path: Path) -> int:
    if (found := _count(path)) is None:
        raise Rejected(f"output {path} cannot be read as Parquet")
    return found


def _read(output: str) -> Iterator[Item]:
    """Yield the items of a file or a folder, of any program."""
    with readable(output, ValueError, pa.ArrowException):
        for number, record in enumerate(_records(Path(output))):
            yield Item(f"{number:016x}", encode_record(record))


def _records(path: Path) -> Iterator[Record]:
    """Yield the items of the file, then those of a run that has not ended."""
    if path.is_dir():
        yield from read_rows(path)
        return
    if path.stat().st_size:
        yield from records_of_file(path)
    if parts_folder(path).is_dir():
        yield from read_rows(parts_folder(path))


FACTORY = SinkFactory(open=ParquetSink, recount=_recount, read=_read, folder=True)
