"""Items as rows of an SQLite table, one row for each key.

Table `items`: `_id` (order of arrival), `_key`, then a column for each field in the order of their first
appearance; an item with the key of an earlier one replaces its row. Text, numbers and null keep their type
(true is 1), lists and objects are JSON, an integer beyond 64 bits is text. Columns whose names are equal to
SQLite are numbered; beyond the limit of columns, the column `_more` holds all other fields as JSON.

Exactly once. A flush is one transaction. It also increments the number of flushes and stores what is needed
to undo it: the last `_id` before it, and the rows that it replaced. If the store never commits the
checkpoint, `restore` finds more flushes than the checkpoint has and undoes them, so that not even a
replaced row keeps a value from a page that was not settled. Columns that they added stay, empty.

The database can be read while a crawl writes it (write-ahead log); after a kill, the file
`-wal` beside it belongs to it.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from shoal.model.errors import Misconfigured, Rejected, Unavailable
from shoal.model.page import Item
from shoal.sinks.columns import Columns, decode_item, encode_json
from shoal.sinks.contract import SinkFactory
from shoal.sinks.files import (
    altered_output,
    changed_output,
    foreign_output,
    identity,
    translate_errors,
)
from shoal.sinks.sqlite_reader import read_table

_SCHEMA = resources.files("shoal.sinks").joinpath("sqlite.sql").read_text()
_OWN_COLUMNS = ("_id", "_key")
_MAX_NAME_CHARS = 200
UNDO_FLUSHES = 16  # flushes that can be undone; a store that is behind by more has lost its checkpoints
_BUSY_TIMEOUT_S = 5.0  # for the transaction of another process
_TEMPORARY = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
}

Row = dict[str, Any]


class SqliteCheckpoint(msgspec.Struct, frozen=True, array_like=True):
    output: bytes
    flushes: int
    items: int = 0  # written, including those that replaced another one
    rows: int = 0  # in the table
    checksum: int | None = None  # of all rows, in any order; None: written by an earlier version


class SqliteSink:
    """Rows in a database; the checkpoint is the number of flushes, of items and of rows, and a checksum."""

    def __init__(self, path: Path | str, *, fsync: bool, overwrite: bool) -> None:
        self._path = Path(path)
        self._fsync = fsync
        self._overwrite = overwrite
        self._database: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None  # identity of the file
        self._state = SqliteCheckpoint(b"", 0)
        self._columns = Columns()
        self._names: list[str] = []  # names of the columns
        self._pending: list[Item] = []

    def restore(self, checkpoint: bytes | None) -> None:
        """Undo the flushes after the checkpoint."""
        with translate_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if checkpoint is None and self._overwrite:
                for ending in ("", "-wal", "-shm", "-journal"):
                    Path(f"{self._path}{ending}").unlink(missing_ok=True)
            if checkpoint is not None and not self._path.exists():
                raise changed_output(self._path)
        try:
            with self._translate_errors():
                self._database = database = self._connect()
                self._opened = identity(self._path)
                if checkpoint is None:
                    self._state = self._start(database)
                else:
                    self._state = msgspec.msgpack.decode(checkpoint, type=SqliteCheckpoint)
                    self._undo(database)
                    if self._state.checksum is None:
                        rows = database.execute("SELECT * FROM items")
                        checksum = sum_rows(_hash_row(row) for row in _named(rows))
                        self._state = msgspec.structs.replace(self._state, checksum=checksum)
                columns = database.execute(
                    "SELECT name, field FROM _shoal_columns ORDER BY position"
                ).fetchall()
        except BaseException:
            self.close()
            raise
        fields = [field for _, field in columns if field is not None]
        self._columns = Columns(fields, closed=len(fields) < len(columns))
        self._names = [name for name, _ in columns]

    def write(self, items: Sequence[Item]) -> None:
        """Buffer items."""
        self._pending += items

    def flush(self) -> bytes:
        """Write the buffered items to the table in one transaction."""
        assert self._database is not None, "restore first"
        if self._pending:
            self._check_file()
            records = [decode_item(item.json) for item in self._pending]
            columns = self._columns
            for record in records:
                if not columns.hold(record):
                    columns = columns.widen(record)
            names = columns.names(spell=_column_name, fold=str.lower, taken=_OWN_COLUMNS)
            names[: len(self._names)] = self._names
            rows = [
                (item.key, *map(_bind, columns.row(record)))
                for item, record in zip(self._pending, records, strict=True)
            ]
            with self._translate_errors(), _transaction(self._database) as database:
                self._number_flush(database)
                self._add_columns(database, columns, names)
                keys = {item.key for item in self._pending}
                replaced = _save_replaced(database, self._state.flushes + 1, keys)
                database.executemany(_upsert(names), rows)
            latest = {key: dict(zip(names, values, strict=True)) for key, *values in rows}
            checksum = sum_rows(
                [
                    self._state.checksum or 0,
                    *(_hash_row({"_key": key, **row}) for key, row in latest.items()),
                    *(-_hash_row(row) for row in replaced),
                ]
            )
            self._columns, self._names = columns, names
            self._state = SqliteCheckpoint(
                self._state.output,
                self._state.flushes + 1,
                self._state.items + len(rows),
                self._state.rows + len(keys) - len(replaced),
                checksum,
            )
            self._pending.clear()
        return msgspec.msgpack.encode(self._state)

    def finish(self) -> bytes:
        """Flush, and copy the write-ahead log into the database file."""
        checkpoint = self.flush()
        self._check_file()
        assert self._database is not None
        with self._translate_errors():
            self._database.execute("PRAGMA wal_checkpoint(PASSIVE)")  # does not wait for readers
        return checkpoint

    def close(self) -> None:
        """Close the database."""
        if self._database:
            self._database.close()
            self._database = None

    def _check_file(self) -> None:
        """Raise if the path no longer leads to the open file: SQLite would write to a deleted one, too."""
        with translate_errors(self._path):
            if identity(self._path) != self._opened:
                raise changed_output(self._path)

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(
            self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        try:
            # Before anything is changed: it may be the operator's own database.
            if database.execute("SELECT 1 FROM sqlite_master").fetchone() and _read_state(database) is None:
                raise foreign_output(self._path)
            database.execute("PRAGMA journal_mode=WAL")
            database.execute(f"PRAGMA synchronous={'FULL' if self._fsync else 'NORMAL'}")
        except BaseException:
            database.close()
            raise
        return database

    def _start(self, database: sqlite3.Connection) -> SqliteCheckpoint:
        if not database.execute("SELECT 1 FROM sqlite_master").fetchone():
            database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT")
        found = _read_state(database)
        if found is None or found[1]:
            raise foreign_output(self._path)
        return SqliteCheckpoint(*found, checksum=0)

    def _undo(self, database: sqlite3.Connection) -> None:
        found, wanted = _read_state(database), self._state
        if found is None or found[0] != wanted.output or found[1] < wanted.flushes:
            raise changed_output(self._path)
        if found[1] == wanted.flushes:
            return
        after = (wanted.flushes + 1,)
        first = database.execute("SELECT last_id FROM _shoal_flushes WHERE number = ?", after).fetchone()
        if first is None:
            raise changed_output(self._path)
        with _transaction(database):
            database.execute("DELETE FROM items WHERE _id > ?", first)
            # The oldest comes last: it has the row from before all of these flushes.
            undo = database.execute(
                "SELECT _id, item FROM _shoal_undo WHERE flush >= ? ORDER BY flush DESC", after
            )
            for _id, item in undo.fetchall():
                if _id <= first[0]:
                    _replace(database, _id, msgspec.msgpack.decode(item, type=Row))
            database.execute("DELETE FROM _shoal_undo WHERE flush >= ?", after)
            database.execute("DELETE FROM _shoal_flushes WHERE number >= ?", after)

    def _add_columns(self, database: sqlite3.Connection, columns: Columns, names: list[str]) -> None:
        fields = [*columns.fields, None] if columns.closed else columns.fields
        for name, field in list(zip(names, fields, strict=True))[len(self._names) :]:
            # A column without a type: each value keeps its own.
            database.execute(f"ALTER TABLE items ADD COLUMN {_quoted(name)}")
            database.execute("INSERT INTO _shoal_columns (name, field) VALUES (?, ?)", (name, field))

    def _number_flush(self, database: sqlite3.Connection) -> None:
        if _read_state(database) != (self._state.output, self._state.flushes):
            raise Misconfigured(f"output {self._path}: another crawl is writing it")
        number = self._state.flushes + 1
        database.execute("INSERT INTO _shoal_flushes SELECT ?, coalesce(max(_id), 0) FROM items", (number,))
        database.execute("DELETE FROM _shoal_flushes WHERE number <= ?", (number - UNDO_FLUSHES,))
        database.execute("DELETE FROM _shoal_undo WHERE flush <= ?", (number - UNDO_FLUSHES,))

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code is None:  # raised by the Python module and not by SQLite: a bug
                raise
            family = Unavailable if code & 0xFF in _TEMPORARY else Misconfigured
            raise family(f"output {self._path}: {error}") from error


def _read_state(database: sqlite3.Connection) -> tuple[bytes, int] | None:
    """Return the id of the output and its number of flushes; None: Shoal has not written this database."""
    if not database.execute("SELECT 1 FROM sqlite_master WHERE name = '_shoal_flushes'").fetchone():
        return None
    id, flushes = database.execute(
        "SELECT id, (SELECT max(number) FROM _shoal_flushes) FROM _shoal_output"
    ).fetchone()
    return id, flushes


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield database
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:  # SQLite ends the transaction itself when the disk is full
            database.execute("ROLLBACK")
        raise


def _save_replaced(database: sqlite3.Connection, flush: int, keys: Iterable[str]) -> list[Row]:
    """Copy the rows that the flush will replace to the undo table; return them."""
    replaced = []
    for key in keys:
        found = database.execute("SELECT * FROM items WHERE _key = ?", (key,))
        if row := found.fetchone():
            names = [name for name, *_ in found.description]
            before = dict(zip(names[1:], row[1:], strict=True))
            undo = (flush, row[0], msgspec.msgpack.encode(before))
            database.execute("INSERT INTO _shoal_undo VALUES (?, ?, ?)", undo)
            replaced.append(before)
    return replaced


def _named(rows: sqlite3.Cursor) -> Iterator[Row]:
    names = [name for name, *_ in rows.description]
    for row in rows:
        yield dict(zip(names, row, strict=True))


def _hash_row(row: Row) -> int:
    """Return a hash of the key and the fields of a row; a column that was added later changes nothing."""
    fields = sorted((name, value) for name, value in row.items() if value is not None and name != "_id")
    return int.from_bytes(hashlib.blake2b(msgspec.msgpack.encode(fields), digest_size=8).digest())


def sum_rows(hashes: Iterable[int]) -> int:
    """Return the checksum of rows, which does not depend on their order."""
    return sum(hashes) % (1 << 63)


def _replace(database: sqlite3.Connection, _id: int, row: Row) -> None:
    names = ", ".join(map(_quoted, row))
    marks = ", ?" * len(row)
    # Every name is quoted; values are bound.
    database.execute(f"INSERT OR REPLACE INTO items (_id, {names}) VALUES (?{marks})", (_id, *row.values()))  # noqa: S608


def _upsert(names: Sequence[str]) -> str:
    quoted = [_quoted(name) for name in names]
    # The key is set to itself, so that an item without fields has something to set.
    updates = ", ".join(f"{name} = excluded.{name}" for name in ["_key", *quoted])
    columns = ", ".join(["_key", *quoted])
    marks = ", ?" * len(names)
    return f"INSERT INTO items ({columns}) VALUES (?{marks}) ON CONFLICT (_key) DO UPDATE SET {updates}"  # noqa: S608


def _column_name(field: str) -> str:
    """Return a field as a column name that SQLite accepts."""
    return field.replace("\0", "\\0")[:_MAX_NAME_CHARS] or "_"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _bind(value: Any) -> str | int | float | None:
    if value is None or isinstance(value, str | float):
        return value
    if isinstance(value, int):
        return int(value) if -(1 << 63) <= value < 1 << 63 else str(value)
    return encode_json(value)


def _recount(output: str, checkpoint: bytes) -> int:
    """Count the rows of the flushes up to the checkpoint; each key has one row, however many items."""
    path, state = Path(output), msgspec.msgpack.decode(checkpoint, type=SqliteCheckpoint)
    if not path.exists():
        raise Rejected(f"output {path} is missing")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.execute("BEGIN")  # one snapshot, even while a crawl writes
            [newest] = database.execute("SELECT max(number) FROM _shoal_flushes").fetchone()
            later = database.execute(
                "SELECT last_id FROM _shoal_flushes WHERE number > ? ORDER BY number LIMIT 1",
                (state.flushes,),
            ).fetchone()
            last = later or (1 << 62,)
            found, keys = database.execute(
                "SELECT count(*), count(DISTINCT _key) FROM items WHERE _id <= ?", last
            ).fetchone()
            checksum = None if state.checksum is None else _checksum(database, state.flushes, last)
    except sqlite3.DatabaseError as error:
        raise Rejected(f"output {path} cannot be read: {error}") from None
    if newest is None or newest < state.flushes:
        raise Rejected(f"output {path} is older than this crawl has left it")
    if keys < found:
        raise Rejected(f"output {path} holds {found} rows for {keys} keys")
    # The database has the last flushes only: if the crawl has made more since, later rows count as well.
    overtaken = newest > state.flushes + UNDO_FLUSHES
    if found != state.rows and not (overtaken and found > state.rows):
        raise Rejected(f"output {path} holds {found} rows, but {state.rows} were written there")
    if checksum != state.checksum and not overtaken:
        raise altered_output(path, f"{found} rows", "as many as were written")
    return state.items


def _checksum(database: sqlite3.Connection, flushes: int, last: tuple[int]) -> int:
    """Return the checksum of the rows as they were after a number of flushes."""
    undo = database.execute(
        "SELECT _id, item FROM _shoal_undo WHERE flush > ? ORDER BY flush DESC", (flushes,)
    )
    before = {id: msgspec.msgpack.decode(item, type=Row) for id, item in undo}
    rows = _named(database.execute("SELECT * FROM items WHERE _id <= ?", last))
    return sum_rows(_hash_row(before.get(row["_id"], row)) for row in rows)


def _is_empty(output: str) -> bool:
    """Return whether a database has no tables, or those of an output without a flush."""
    try:
        with closing(sqlite3.connect(f"{Path(output).absolute().as_uri()}?mode=ro", uri=True)) as database:
            if not database.execute("SELECT 1 FROM sqlite_master").fetchone():
                return True
            state = _read_state(database)
            return state is not None and state[1] == 0
    except sqlite3.DatabaseError:
        return False


FACTORY = SinkFactory(open=SqliteSink, recount=_recount, read=read_table, is_empty=_is_empty, keyed=True)
