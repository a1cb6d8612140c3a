"""CSV as in RFC 4180, safe to open in a spreadsheet.

The fields of the first item are the header. An item with a field that has no column starts the next file,
`name-2.csv`, whose header is wider; rows are never shifted, and a missing field is an empty cell. Lists and
objects are cells of JSON. In the last of `MAX_FILES` files, and beyond the limit of columns, the column
`_more` holds all other fields.
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import msgspec

from shoal.model.errors import Rejected
from shoal.model.page import Item
from shoal.sinks.columns import Columns, decode_item
from shoal.sinks.contract import SinkFactory
from shoal.sinks.csv_safety import escape_formulas, format_cell
from shoal.sinks.files import (
    AppendFile,
    altered_output,
    checksum_of,
    foreign_output,
    read_chunks,
    translate_errors,
)

MAX_FILES = 50


class CsvCheckpoint(msgspec.Struct, frozen=True, array_like=True):
    file: int = 1
    length: int = 0
    fields: list[str] | None = None  # None: no header was written yet
    closed: bool = False
    checksum: int | None = None  # of all files, one after the other; None: written by an earlier version


class CsvSink:
    """Rows in one file after another; the checkpoint is number, length and columns of the last file."""

    def __init__(self, path: Path | str, *, fsync: bool, overwrite: bool) -> None:
        self._path = Path(path)
        self._fsync = fsync
        self._overwrite = overwrite
        self._file: AppendFile | None = None
        self._number = 1  # number of that file
        self._pending: list[tuple[int, io.StringIO]] = []  # file number and rows
        self._last = 1  # number of the file that the last buffered row goes to
        self._columns: Columns | None = None  # columns of that file

    def restore(self, checkpoint: bytes | None) -> None:
        """Cut back the file of the checkpoint, and delete the files after it."""
        if checkpoint is None:
            if not self._overwrite and (found := self._files_after(1)):
                raise foreign_output(found[0])
            self._open(1, length=None, overwrite=self._overwrite)
        else:
            state = msgspec.msgpack.decode(checkpoint, type=CsvCheckpoint)
            checksum = _checksum(self._path, state) if state.checksum is None else state.checksum
            self._open(state.file, length=state.length, checksum=checksum)
            if state.fields is not None:
                self._columns = Columns(state.fields, closed=state.closed)
        self._last = self._number
        for path in self._files_after(self._number):
            with translate_errors(path):
                path.unlink()

    def write(self, items: Sequence[Item]) -> None:
        """Buffer items as rows."""
        if items and self._columns and not self._pending:
            self._pending.append((self._last, io.StringIO(newline="")))
        for item in items:
            record = decode_item(item.json)
            columns = self._columns
            if columns is None:
                columns = self._begin(Columns().widen(record))
            elif not columns.hold(record):
                self._last += 1
                columns = self._begin(columns.widen(record, close=self._last >= MAX_FILES))
            self._put([format_cell(value) for value in columns.row(record)])

    def flush(self) -> bytes:
        """Append the buffered rows, each to its file."""
        assert self._file is not None, "restore first"
        while self._pending:
            number, rows = self._pending[0]
            if number != self._number:
                self._file.close()
                self._open(number, length=None, checksum=self._file.checksum)
            self._file.append(rows.getvalue().encode())
            del self._pending[0]
        fields, closed = (self._columns.fields, self._columns.closed) if self._columns else (None, False)
        state = CsvCheckpoint(self._number, self._file.length, fields, closed, self._file.checksum)
        return msgspec.msgpack.encode(state)

    def finish(self) -> bytes:
        """Flush for the last time, and check that the file is still at its path."""
        checkpoint = self.flush()
        assert self._file is not None
        self._file.check()
        return checkpoint

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()

    def _begin(self, columns: Columns) -> Columns:
        self._columns = columns
        self._pending.append((self._last, io.StringIO(newline="")))
        self._put(columns.names(spell=escape_formulas))
        return columns

    def _put(self, cells: list[str]) -> None:
        # A row without cells would be an empty line, which readers skip.
        csv.writer(self._pending[-1][1]).writerow(cells or [""])

    def _open(self, number: int, *, length: int | None, overwrite: bool = False, checksum: int = 0) -> None:
        path = _file_path(self._path, number)
        self._file = AppendFile(
            path, length=length, fsync=self._fsync, overwrite=overwrite, checksum=checksum
        )
        self._number = number

    def _files_after(self, number: int) -> list[Path]:
        with translate_errors(self._path):
            later = [_file_path(self._path, other) for other in range(number + 1, MAX_FILES + 1)]
            return [path for path in later if path.exists()]


def _file_path(path: Path, number: int) -> Path:
    return path if number == 1 else path.with_stem(f"{path.stem}-{number}")


def _checksum(path: Path, state: CsvCheckpoint) -> int:
    checksum = 0
    for number in range(1, state.file + 1):
        length = state.length if number == state.file else None
        checksum = checksum_of(_file_path(path, number), length, checksum)
    return checksum


def _recount(output: str, checkpoint: bytes) -> int:
    """Count the rows of all files; each has a header, except the first while it is empty."""
    state, count = msgspec.msgpack.decode(checkpoint, type=CsvCheckpoint), 0
    for number in range(1, state.file + 1):
        length = state.length if number == state.file else None
        count += _count_unquoted_lines(_file_path(Path(output), number), length)
    count -= state.file if state.fields is not None else 0
    if state.checksum is not None and _checksum(Path(output), state) != state.checksum:
        raise altered_output(output, f"{count} rows", "which are not the bytes that were written")
    return count


def _count_unquoted_lines(path: Path, length: int | None) -> int:
    count, quoted = 0, False
    for chunk in read_chunks(path, length):
        for part in chunk.split(b'"'):
            count += 0 if quoted else part.count(b"\n")
            quoted = not quoted
        quoted = not quoted  # the end of a chunk is not a quote
    if quoted:
        raise Rejected(f"output {path} ends within an item")
    return count


FACTORY = SinkFactory(open=CsvSink, recount=_recount)
