"""CSV as in RFC 4180, safe to open in a spreadsheet: one file, whose header has all fields of all items.

Columns are in the order of their first appearance; a missing field is an empty cell. Lists and objects are
cells of JSON. Beyond the limit of columns, the column `_more` holds all other fields.

A new column changes the header and every row, so the file is written again beside its place and renamed. That
is done at once as long as it is cheap in relation to the file (`_is_affordable`): the bytes written for it
are at most four times those of the file, whatever the items look like. Otherwise the rows that have the
column are appended with more cells than the header has names, and `finish` writes the file again, once.

The checkpoint has the number of rows and a checksum of them without empty cells at their end: both are the
same before and after a column was added. So `restore` also cuts back a file that was written again since.
"""

import csv
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import msgspec

from shoal.model.errors import Misconfigured, Rejected, Unavailable
from shoal.model.limits import MIB
from shoal.model.page import Item
from shoal.sinks.columns import Columns, Record, decode_item, encode_record, with_more
from shoal.sinks.compression import DAMAGE, NONE, Compression, factories
from shoal.sinks.csv_rows import encode_row, is_complete, pad, split_rows, stripped, width
from shoal.sinks.csv_safety import escape_formulas, format_cell
from shoal.sinks.files import AppendFile, altered_output, changed_output, readable, translate_errors

REWRITE_FACTOR = 4  # times the length of the file may be written for new columns during a run
REWRITE_BYTES = 64 * MIB  # may be written for them in any case: less than a second of work

_CHANGED: tuple[type[Exception], ...] = (FileNotFoundError, *DAMAGE)
_UNREADABLE: tuple[type[Exception], ...] = (OSError, *DAMAGE)


class CsvCheckpoint(msgspec.Struct, frozen=True, array_like=True):
    file: int = 1  # more: an earlier version wrote several files
    length: int = 0
    fields: list[str] | None = None  # None: no header was written yet
    closed: bool = False
    checksum: int | None = None  # of the rows; None, or without `rows`: written by an earlier version
    rows: int | None = None
    header: int = 0  # columns that the header of the file has; rows may have more cells


class CsvSink:
    """Rows in a file; the checkpoint is its columns, its length, and number and checksum of its rows."""

    def __init__(
        self,
        path: Path | str,
        *,
        fsync: bool,
        overwrite: bool,
        compression: Compression = NONE,
        rewrite_bytes: int = REWRITE_BYTES,
    ) -> None:
        self._path = Path(path)
        self._compression = compression
        self._fsync = fsync
        self._overwrite = overwrite
        self._rewrite_bytes = rewrite_bytes
        self._file: AppendFile | None = None
        self._columns: Columns | None = None
        self._header = 0  # columns of the header in the file
        self._rows = self._checksum = 0  # of the rows in the file
        self._pending: list[tuple[bytes, int]] = []  # rows, and how many cells each has
        self._rewritten = 0  # bytes
        self._postponed = False  # until `finish`: there was no space to write the file again

    def restore(self, checkpoint: bytes | None) -> None:
        """Cut the file back to the rows of the checkpoint."""
        if checkpoint is None:
            self._file = self._open(length=None)
        else:
            self._restore(msgspec.msgpack.decode(checkpoint, type=CsvCheckpoint))
        with translate_errors(self._path):
            self._draft_path.unlink(missing_ok=True)

    def write(self, items: Sequence[Item]) -> None:
        """Buffer items as rows."""
        columns = self._columns
        for item in items:
            record = decode_item(item.json)
            if columns is None or not columns.hold(record):
                self._columns = columns = (columns or Columns()).widen(record)
            cells = [format_cell(value) for value in columns.row(record)]
            self._pending.append((encode_row(cells), max(len(cells), 1)))

    def flush(self) -> bytes:
        """Append the buffered rows; if there are new columns, write the file again."""
        assert self._file is not None, "restore first"
        if self._pending:
            self._put([pad(row, self._width - cells) for row, cells in self._pending])
            self._pending.clear()
        fields, closed = (self._columns.fields, self._columns.closed) if self._columns else (None, False)
        state = CsvCheckpoint(1, self._file.length, fields, closed, self._checksum, self._rows, self._header)
        return msgspec.msgpack.encode(state)

    def finish(self) -> bytes:
        """Flush for the last time, and complete the header."""
        self.flush()
        assert self._file is not None
        if self._header < self._width:
            self._rewrite(self._rows)
        self._file.check()
        if not self._file.length and self._compression.empty:
            self._file.append(self._compression.empty)
        return self.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()

    @property
    def _width(self) -> int:
        return 0 if self._columns is None else max(len(self._columns.names()), 1)

    @property
    def _draft_path(self) -> Path:
        return self._path.with_name(f".{self._path.name}.draft")

    def _open(self, *, length: int | None) -> AppendFile:
        return AppendFile(self._path, length=length, fsync=self._fsync, overwrite=self._overwrite)

    def _restore(self, state: CsvCheckpoint) -> None:
        if state.file > 1:
            raise Misconfigured(
                f"output {self._path}: an earlier version of Shoal wrote it as {state.file} files;"
                " name another output, or start again with --fresh"
            )
        if state.fields is None:
            self._file = self._open(length=0)
            return
        self._columns = Columns(state.fields, closed=state.closed)
        header, length = self._found()
        if state.rows is None or state.checksum is None:
            self._header, self._file = header, self._open(length=state.length)
            self._count()
            return
        self._rows, self._checksum, self._header = state.rows, state.checksum, state.header
        if header == state.header:
            self._file = self._open(length=state.length)
        elif header < state.header:
            raise changed_output(self._path)
        else:  # written again since, for columns that the checkpoint does not have
            self._file = self._open(length=length)
            self._rewrite(state.rows)

    def _found(self) -> tuple[int, int]:
        """Return the number of columns in the header of the file, and the length of the file."""
        with self._contents() as file:
            return width(next(split_rows(file), b"")), self._path.stat().st_size

    def _count(self) -> None:
        """Count the rows of a file that an earlier version has written."""
        with self._contents() as file:
            for row in islice(split_rows(file), 1, None):
                self._rows, self._checksum = self._rows + 1, zlib.crc32(stripped(row), self._checksum)

    def _put(self, rows: Sequence[bytes]) -> None:
        """Append rows that have a cell for every column."""
        assert self._file is not None
        if not self._header:
            self._append([self._header_row(), *rows])
            self._header = self._width
        elif self._header == self._width or not self._rewritten_for(rows):
            self._append(rows)
        self._rows += len(rows)
        for row in rows:
            self._checksum = zlib.crc32(stripped(row), self._checksum)

    def _append(self, rows: Iterable[bytes]) -> None:
        assert self._file is not None
        self._file.append(self._compression.pack(b"".join(rows)))

    @contextmanager
    def _contents(self) -> Iterator[BinaryIO]:
        with translate_errors(self._path):
            try:
                with self._compression.open(self._path) as file:
                    yield file
            except _CHANGED:
                raise changed_output(self._path) from None

    def _rewritten_for(self, rows: Sequence[bytes]) -> bool:
        """Write the file again with these rows at its end, unless that has to wait for the end of the run."""
        if self._postponed or not self._is_affordable():
            return False
        try:
            self._rewrite(self._rows, rows)
        except Unavailable:
            self._postponed = True  # the disk has no space for a second file; the rows may still fit
            return False
        return True

    def _is_affordable(self) -> bool:
        assert self._file is not None
        length = self._file.length
        return self._rewritten + length <= max(self._rewrite_bytes, REWRITE_FACTOR * length)

    def _rewrite(self, rows: int, more: Iterable[bytes] = ()) -> None:
        """Replace the file by its first rows under a header with all columns, and more rows."""
        assert self._file is not None
        self._file.check()
        draft = AppendFile(self._draft_path, length=None, fsync=False, overwrite=True)
        try:
            for chunk in _chunks([self._header_row()], self._padded_rows(rows), more):
                draft.append(self._compression.pack(chunk))
            draft.move(self._path, fsync=self._fsync)
        except BaseException:
            draft.close()
            self._draft_path.unlink(missing_ok=True)
            raise
        self._file.close()
        self._file, self._header = draft, self._width
        self._rewritten += draft.length

    def _padded_rows(self, count: int) -> Iterator[bytes]:
        """Yield the first rows of the file with a cell for every column."""
        cells, found = self._width, 0
        with self._contents() as file:
            for row in islice(split_rows(file), 1, count + 1):
                if not is_complete(row):
                    break
                if (missing := cells - width(row)) < 0:  # the checkpoint does not have the last columns
                    row = stripped(row)
                    missing = cells - width(row)
                yield pad(row, missing)
                found += 1
        if found < count:
            raise changed_output(self._path)

    def _header_row(self) -> bytes:
        assert self._columns is not None
        return _header_row(self._columns)


def _header_row(columns: Columns) -> bytes:
    return encode_row(columns.names(spell=escape_formulas))


def _chunks(*sources: Iterable[bytes]) -> Iterator[bytes]:
    """Join rows to pieces of about a mebibyte."""
    piece = bytearray()
    for source in sources:
        for row in source:
            piece += row
            if len(piece) >= MIB:
                yield bytes(piece)
                piece.clear()
    yield bytes(piece)


def _recount(output: str, checkpoint: bytes, *, compression: Compression) -> int:
    """Count the rows up to the checkpoint, under whatever header the file has by now."""
    path, state = Path(output), msgspec.msgpack.decode(checkpoint, type=CsvCheckpoint)
    if state.file > 1:
        raise Rejected(f"output {path}: an earlier version of Shoal wrote it as {state.file} files")
    try:
        with compression.open(path) as file:
            rows = split_rows(file)
            header = next(rows, b"")
            if state.fields is None:
                return 0
            return _compare(path, state, header, rows)
    except _UNREADABLE as error:
        raise Rejected(f"output {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _compare(path: Path, state: CsvCheckpoint, header: bytes, rows: Iterator[bytes]) -> int:
    """Return the number of rows; raise `Rejected` if they are not those of the checkpoint."""
    count, checksum, length = 0, 0, len(header)
    for row in islice(rows, state.rows):
        if (state.rows is None and length >= state.length) or not is_complete(row):
            break
        count, checksum, length = count + 1, zlib.crc32(stripped(row), checksum), length + len(row)
    if count < (state.rows or 0) or (state.rows is None and length < state.length):
        raise Rejected(f"output {path} is shorter than this crawl has left it")
    names = _header_row(Columns(state.fields or (), closed=state.closed))
    complete = width(header) == width(names)
    if (complete and header != names) or (state.rows is not None and checksum != state.checksum):
        raise altered_output(path, f"{count} rows", "which are not the bytes that were written")
    return count


def _read(output: str, *, compression: Compression) -> Iterator[Item]:
    """Yield the rows of a file of any program as items of text, without the cells that are empty."""
    csv.field_size_limit(sys.maxsize)
    with (
        readable(output, ValueError, csv.Error, *DAMAGE),
        compression.open(output) as contents,
        TextIOWrapper(contents, newline="", encoding="utf-8-sig") as file,
    ):
        rows = csv.reader(file)
        names = next(rows, [])
        for number, row in enumerate(rows):
            # A crawl that was killed may have left rows with more cells than the header has names.
            names += [f"column-{n}" for n in range(len(names) + 1, len(row) + 1)]
            record: Record = {name: cell for name, cell in zip(names, row, strict=False) if cell}
            yield Item(f"{number:016x}", encode_record(with_more(record)))


FACTORY, GZIP_FACTORY, ZSTD_FACTORY = factories(CsvSink, _recount, _read)
