"""CSV as in RFC 4180, safe to open in a spreadsheet.

The first item's fields are the header. An item with a field that has no column starts the next file,
`name-2.csv`, whose header is wider; rows are never shifted, and a missing field is an empty cell. Lists and
objects are cells of JSON. In the last of `MOST_FILES` files, and beyond the limit of columns, the column
`_more` takes the rest.
"""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import msgspec

from shoal.model.page import Item
from shoal.sinks.columns import Columns, decode_item
from shoal.sinks.csv_safety import cell, harmless
from shoal.sinks.files import AppendFile, refuse, translated

MOST_FILES = 50


class CsvCheckpoint(msgspec.Struct, frozen=True, array_like=True):
    file: int = 1
    length: int = 0
    fields: list[str] | None = None  # None: not even a header was written
    closed: bool = False


class CsvSink:
    """Rows in one file after another; the checkpoint is the last one's number, length and columns."""

    def __init__(self, path: Path, *, fsync: bool, overwrite: bool) -> None:
        self._path = path
        self._fsync = fsync
        self._overwrite = overwrite
        self._file: AppendFile | None = None
        self._number = 1  # of that file
        self._pending: list[tuple[int, io.StringIO]] = []  # file number and rows
        self._last = 1  # file that the last row taken in belongs to
        self._columns: Columns | None = None  # of that file

    def restore(self, checkpoint: bytes | None) -> None:
        """Cut the checkpoint's file back, and remove those that came after it."""
        if checkpoint is None:
            if not self._overwrite and (found := self._files_after(1)):
                raise refuse(found[0])
            self._open(1, length=None, overwrite=self._overwrite)
        else:
            state = msgspec.msgpack.decode(checkpoint, type=CsvCheckpoint)
            self._open(state.file, length=state.length)
            if state.fields is not None:
                self._columns = Columns(state.fields, closed=state.closed)
        self._last = self._number
        for path in self._files_after(self._number):
            with translated(path):
                path.unlink()

    def write(self, items: Sequence[Item]) -> None:
        """Take items in."""
        if items and self._columns and not self._pending:
            self._pending.append((self._last, io.StringIO(newline="")))
        for item in items:
            record = decode_item(item.json)
            columns = self._columns
            if columns is None:
                columns = self._begin(Columns().widened(record))
            elif not columns.hold(record):
                self._last += 1
                columns = self._begin(columns.widened(record, close=self._last >= MOST_FILES))
            self._put([cell(value) for value in columns.row(record)])

    def flush(self) -> bytes:
        """Append the rows that were taken in, each to its file."""
        assert self._file is not None, "restore first"
        while self._pending:
            number, rows = self._pending[0]
            if number != self._number:
                self._file.close()
                self._open(number, length=None)
            self._file.append(rows.getvalue().encode())
            del self._pending[0]
        fields, closed = (self._columns.fields, self._columns.closed) if self._columns else (None, False)
        return msgspec.msgpack.encode(CsvCheckpoint(self._number, self._file.length, fields, closed))

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

    def _begin(self, columns: Columns) -> Columns:
        self._columns = columns
        self._pending.append((self._last, io.StringIO(newline="")))
        self._put(columns.names(spell=harmless))
        return columns

    def _put(self, cells: list[str]) -> None:
        # A row without cells would be an empty line, which readers skip.
        csv.writer(self._pending[-1][1]).writerow(cells or [""])

    def _open(self, number: int, *, length: int | None, overwrite: bool = False) -> None:
        self._file = AppendFile(self._name(number), length=length, fsync=self._fsync, overwrite=overwrite)
        self._number = number

    def _name(self, number: int) -> Path:
        return self._path if number == 1 else self._path.with_stem(f"{self._path.stem}-{number}")

    def _files_after(self, number: int) -> list[Path]:
        with translated(self._path):
            return [
                path for later in range(number + 1, MOST_FILES + 1) if (path := self._name(later)).exists()
            ]
