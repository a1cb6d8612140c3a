"""Items as rows of an SQLite table, one row for each key.

Table `items`: `_id` (order of arrival), `_key`, then a column for each field as it is first met; an item
with the key of an earlier one replaces its row. Text, numbers and null keep their type (true is 1), lists
and objects are JSON, an integer beyond 64 bits is text. Columns whose names SQLite cannot tell apart are
numbered; beyond the limit of columns, the column `_more` takes the rest as JSON.

Exactly once. A flush is one transaction, which also counts itself and keeps what is needed to undo it: the
last `_id` before it, and the rows that it replaced. If the store never commits the checkpoint, `restore`
finds the count ahead and takes those transactions back, so that not even a replaced row keeps a value from a
page that was not settled. Columns that they added stay, empty.

The database can be read while a crawl writes it (write-ahead log); after a kill, the file
`-wal` beside it belongs to it.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.page import Item
from shoal.sinks.columns import Columns, decode_item, spell_json
from shoal.sinks.files import identity, refuse, refuse_changed, translated

_SCHEMA = resources.files("shoal.sinks").joinpath("sqlite.sql").read_text()
_OURS = ("_id", "_key")
_LONGEST_NAME = 200
UNDO = 16  # flushes that can be taken back; a store that is behind by more has lost its checkpoints
_WAIT = 5.0  # seconds for somebody else's transaction
_PASSING = {
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
    items: int = 0  # taken in, those that replaced another one included
    rows: int = 0  # that they came to


class SqliteSink:
    """Rows in a database; the checkpoint is the number of flushes, and what they have come to."""

    def __init__(self, path: Path, *, fsync: bool, overwrite: bool) -> None:
        self._path = path
        self._fsync = fsync
        self._overwrite = overwrite
        self._database: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None  # which file that is
        self._state = SqliteCheckpoint(b"", 0)
        self._columns = Columns()
        self._names: list[str] = []  # of the columns
        self._pending: list[Item] = []

    def restore(self, checkpoint: bytes | None) -> None:
        """Take back the flushes that the store never heard of."""
        with translated(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if checkpoint is None and self._overwrite:
                for ending in ("", "-wal", "-shm", "-journal"):
                    Path(f"{self._path}{ending}").unlink(missing_ok=True)
            if checkpoint is not None and not self._path.exists():
                raise refuse_changed(self._path)
        try:
            with self._translated():
                self._database = database = self._connect()
                self._opened = identity(self._path)
                if checkpoint is None:
                    self._state = self._start(database)
                else:
                    self._state = msgspec.msgpack.decode(checkpoint, type=SqliteCheckpoint)
                    self._take_back(database)
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
        """Take items in."""
        self._pending += items

    def flush(self) -> bytes:
        """Put what was taken in into the table, in one transaction."""
        assert self._database is not None, "restore first"
        if self._pending:
            self._check()
            records = [decode_item(item.json) for item in self._pending]
            columns = self._columns
            for record in records:
                if not columns.hold(record):
                    columns = columns.widened(record)
            names = columns.names(spell=_spell, fold=str.lower, taken=_OURS)
            names[: len(self._names)] = self._names
            rows = [
                (item.key, *map(_bind, columns.row(record)))
                for item, record in zip(self._pending, records, strict=True)
            ]
            with self._translated(), _transaction(self._database) as database:
                self._count(database)
                self._add_columns(database, columns, names)
                keys = {item.key for item in self._pending}
                replaced = _keep_replaced(database, self._state.flushes + 1, keys)
                database.executemany(_upsert(names), rows)
            self._columns, self._names = columns, names
            self._state = SqliteCheckpoint(
                self._state.output,
                self._state.flushes + 1,
                self._state.items + len(rows),
                self._state.rows + len(keys) - replaced,
            )
            self._pending.clear()
        return msgspec.msgpack.encode(self._state)

    def finish(self) -> bytes:
        """Flush, and bring everything into the one file."""
        checkpoint = self.flush()
        self._check()
        assert self._database is not None
        with self._translated():
            self._database.execute("PRAGMA wal_checkpoint(PASSIVE)")  # waits for nobody who is reading
        return checkpoint

    def close(self) -> None:
        """Close the database."""
        if self._database:
            self._database.close()
            self._database = None

    def _check(self) -> None:
        """See that the file is still where it was: one that was deleted can be written to all the same."""
        with translated(self._path):
            if identity(self._path) != self._opened:
                raise refuse_changed(self._path)

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, timeout=_WAIT, isolation_level=None, check_same_thread=False)
        try:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute(f"PRAGMA synchronous={'FULL' if self._fsync else 'NORMAL'}")
        except sqlite3.Error:
            database.close()
            raise
        return database

    def _start(self, database: sqlite3.Connection) -> SqliteCheckpoint:
        if not database.execute("SELECT 1 FROM sqlite_master").fetchone():
            database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT")
        found = self._found(database)
        if found is None or found[1]:
            raise refuse(self._path)
        return SqliteCheckpoint(*found)

    def _take_back(self, database: sqlite3.Connection) -> None:
        found, kept = self._found(database), self._state
        if found is None or found[0] != kept.output or found[1] < kept.flushes:
            raise refuse_changed(self._path)
        if found[1] == kept.flushes:
            return
        after = (kept.flushes + 1,)
        first = database.execute("SELECT last_id FROM _shoal_flushes WHERE number = ?", after).fetchone()
        if first is None:
            raise refuse_changed(self._path)
        with _transaction(database):
            database.execute("DELETE FROM items WHERE _id > ?", first)
            # The oldest comes last: it knows the row as it was before all of them.
            undo = database.execute(
                "SELECT _id, item FROM _shoal_undo WHERE flush >= ? ORDER BY flush DESC", after
            )
            for _id, item in undo.fetchall():
                if _id <= first[0]:
                    _replace(database, _id, msgspec.msgpack.decode(item, type=Row))
            database.execute("DELETE FROM _shoal_undo WHERE flush >= ?", after)
            database.execute("DELETE FROM _shoal_flushes WHERE number >= ?", after)

    def _found(self, database: sqlite3.Connection) -> tuple[bytes, int] | None:
        """Say which output this is and how many flushes it has; None: it is not one of ours."""
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = '_shoal_flushes'").fetchone():
            return None
        id, flushes = database.execute(
            "SELECT id, (SELECT max(number) FROM _shoal_flushes) FROM _shoal_output"
        ).fetchone()
        return id, flushes

    def _add_columns(self, database: sqlite3.Connection, columns: Columns, names: list[str]) -> None:
        fields = [*columns.fields, None] if columns.closed else columns.fields
        for name, field in list(zip(names, fields, strict=True))[len(self._names) :]:
            # Without a type: a value keeps the one it came with.
            database.execute(f"ALTER TABLE items ADD COLUMN {_quoted(name)}")
            database.execute("INSERT INTO _shoal_columns (name, field) VALUES (?, ?)", (name, field))

    def _count(self, database: sqlite3.Connection) -> None:
        if self._found(database) != (self._state.output, self._state.flushes):
            raise Misconfigured(f"output {self._path}: another crawl is writing it")
        number = self._state.flushes + 1
        database.execute("INSERT INTO _shoal_flushes SELECT ?, coalesce(max(_id), 0) FROM items", (number,))
        database.execute("DELETE FROM _shoal_flushes WHERE number <= ?", (number - UNDO,))
        database.execute("DELETE FROM _shoal_undo WHERE flush <= ?", (number - UNDO,))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code is None:  # not about the database: a bug
                raise
            family = Unavailable if code & 0xFF in _PASSING else Misconfigured
            raise family(f"output {self._path}: {error}") from error


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield database
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:  # a full disk ends it by itself
            database.execute("ROLLBACK")
        raise


def _keep_replaced(database: sqlite3.Connection, flush: int, keys: Iterable[str]) -> int:
    """Copy the rows that are about to be replaced; return how many."""
    replaced = 0
    for key in keys:
        found = database.execute("SELECT * FROM items WHERE _key = ?", (key,))
        if row := found.fetchone():
            names = [name for name, *_ in found.description]
            item = msgspec.msgpack.encode(dict(zip(names[1:], row[1:], strict=True)))
            database.execute("INSERT INTO _shoal_undo VALUES (?, ?, ?)", (flush, row[0], item))
            replaced += 1
    return replaced


def _replace(database: sqlite3.Connection, _id: int, row: Row) -> None:
    names = ", ".join(map(_quoted, row))
    marks = ", ?" * len(row)
    # Every name is quoted; values are bound.
    database.execute(f"INSERT OR REPLACE INTO items (_id, {names}) VALUES (?{marks})", (_id, *row.values()))  # noqa: S608


def _upsert(names: Sequence[str]) -> str:
    quoted = [_quoted(name) for name in names]
    # An update of the key to itself, so that an item without fields has something to set.
    updates = ", ".join(f"{name} = excluded.{name}" for name in ["_key", *quoted])
    columns = ", ".join(["_key", *quoted])
    marks = ", ?" * len(names)
    return f"INSERT INTO items ({columns}) VALUES (?{marks}) ON CONFLICT (_key) DO UPDATE SET {updates}"  # noqa: S608


def _spell(field: str) -> str:
    """Spell a field as a name that SQLite takes."""
    return field.replace("\0", "\\0")[:_LONGEST_NAME] or "_"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _bind(value: Any) -> str | int | float | None:
    if value is None or isinstance(value, str | float):
        return value
    if isinstance(value, int):
        return int(value) if -(1 << 63) <= value < 1 << 63 else str(value)
    return spell_json(value)
