"""Items as rows of a PostgreSQL table, one row for each key.

`postgresql://user@host:port/database?table=books`; the table is `items` if none is named, and may be
`schema.table`. It has `_id` (order of arrival), `_key` and `item`, a jsonb with the fields; an item with the
key of an earlier one replaces it. One jsonb instead of a column for each field: fields of pages come and
change their types as they like, and every new column or type would lock the table that others are reading.
An expression index or a view gives the fields that matter a place of their own.

Exactly once. A flush is one transaction: COPY into a temporary table, an upsert from there, and its own
number in `_shoal_outputs`, where it also locks out any other writer of the table. Whoever has not seen the
answer finds the number, and the mark of that very attempt, and knows. A flush keeps what is needed to undo it
(`_shoal_undo`): if the crawl's store never commits the checkpoint, `restore` takes it back. A flush with a
note needs no undo: the note is committed with the items, and says where to go on. Whoever has looked at the
note (`kept`) goes on only if nobody has written since: it may have been stopped, and replaced by another
writer whose items must not be taken back. It hears that the output is unavailable, and looks again.

What cannot be stored. NUL becomes `\\0`. A row that PostgreSQL refuses (too long, too deep, a constraint of
yours) does not hold up the others: they are stored, and it goes to `_shoal_rejected`, with the reason.

Passwords belong into PGPASSWORD, PGPASSFILE or ~/.pgpass; one in the address works, and is never shown.
"""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import parse_qs, urlsplit

import msgspec

from shoal.model.errors import Misconfigured, Rejected, Unavailable
from shoal.model.page import Item
from shoal.sinks.files import refuse, refuse_changed
from shoal.sinks.names import name_of
from shoal.sinks.postgres.rows import ItemRow, Unfit, row_of
from shoal.sinks.postgres.session import Connection, Session, Unstorable
from shoal.sinks.postgres.sql import BATCH, COUNT, ITEMS, PUT, SCHEMA, TAKE_BACK, UPSERT

log = logging.getLogger(__name__)

UNDO = 16  # flushes that can be taken back, as in `sqlite.py`
PATIENCE = 5.0  # seconds for a lost connection, a deadlock or a server that is starting
_LONGEST_NAME = 63  # bytes of an identifier


class PostgresCheckpoint(msgspec.Struct, frozen=True, array_like=True):
    output: bytes
    flushes: int
    items: int = 0  # taken in, those included that replaced another one or were rejected
    rows: int = 0  # that they came to


@dataclass(frozen=True, slots=True)
class _Batch:
    """What one flush puts; kept until it is known to be there, and repeated as it is."""

    attempt: bytes
    items: Sequence[Item]
    note: bytes | None


class PostgresSink:
    """Rows in a table; the checkpoint is the number of flushes, and what they have come to."""

    def __init__(self, dsn: str, *, overwrite: bool = False, patience: float = PATIENCE) -> None:
        self._name = name_of(dsn)
        schema, self._table = _table_of(dsn, self._name)
        self._schema = f"{_quoted(schema)}." if schema else ""
        self._items = self._schema + _quoted(self._table)
        self._overwrite = overwrite
        self._session = Session(dsn, name=self._name, patience=patience, first=BATCH)
        self._state = PostgresCheckpoint(b"", 0)
        self._note: bytes | None = None
        self._looked = False  # by `kept`
        self._seen: PostgresCheckpoint | None = None  # what there was then
        self._pending: list[Item] = []
        self._sending: _Batch | None = None

    def kept(self) -> tuple[bytes, bytes] | None:
        """Return the checkpoint and the note of the last flush that had one; None: there was none."""
        return self._session.run(self._kept)

    def restore(self, checkpoint: bytes | None) -> None:
        """Take back the flushes that the store never heard of."""
        try:
            if checkpoint is None:
                self._state = self._session.run(self._start)
            else:
                self._state = msgspec.msgpack.decode(checkpoint, type=PostgresCheckpoint)
                self._session.run(self._take_back)
        except BaseException:
            self.close()
            raise

    def recount(self, checkpoint: bytes) -> int:
        """Count the items of the flushes that a checkpoint knows; raise `Rejected` if rows are missing."""
        return self._session.run(
            partial(self._count, msgspec.msgpack.decode(checkpoint, type=PostgresCheckpoint))
        )

    def write(self, items: Sequence[Item]) -> None:
        """Take items in."""
        self._pending += items

    def flush(self, note: bytes | None = None) -> bytes:
        """Put what was taken in into the table, in one transaction; a new note with it."""
        if self._sending:
            self._send(self._sending)
        if self._pending or (note is not None and note != self._note):
            self._sending = _Batch(os.urandom(8), self._pending, note)
            self._pending = []
            self._send(self._sending)
        return msgspec.msgpack.encode(self._state)

    def finish(self, note: bytes | None = None) -> bytes:
        """Nothing is left to do after the last flush."""
        return self.flush(note)

    def close(self) -> None:
        """Let go of the connection."""
        self._session.close()

    def _send(self, batch: _Batch) -> None:
        rows: dict[str, ItemRow] = {}  # of several with the same key the last one counts
        unfit: list[Unfit] = []
        for item in batch.items:
            match row_of(item):
                case ItemRow() as row:
                    rows[row.key] = row
                case Unfit() as refused:
                    unfit.append(refused)
        try:
            self._state = self._session.run(partial(self._put, batch, list(rows.values()), unfit))
        except Unstorable:
            reasons = self._unstorable(list(rows.values()))
            unfit += [Unfit.of(key, rows.pop(key).json.encode(), why) for key, why in reasons.items()]
            self._state = self._session.run(partial(self._put, batch, list(rows.values()), unfit))
        for refused in unfit:
            log.warning("item.rejected", extra={"output": self._name, "reason": refused.reason})
        self._note = batch.note if batch.note is not None else self._note
        self._sending = None

    def _unstorable(self, rows: Sequence[ItemRow]) -> dict[str, str]:
        """Find the rows that the server does not take, by halves; each with the reason."""
        try:
            self._session.run(partial(self._try, rows))
        except Unstorable as error:
            if len(rows) == 1:
                return {rows[0].key: str(error)}
            half = len(rows) // 2
            return self._unstorable(rows[:half]) | self._unstorable(rows[half:])
        return {}

    async def _try(self, rows: Sequence[ItemRow], connection: Connection) -> None:
        attempt = connection.transaction()
        await attempt.start()
        try:
            await self._copy(rows, connection)
            await connection.execute(UPSERT.format(items=self._items))
        finally:
            await attempt.rollback()

    async def _put(
        self, batch: _Batch, rows: Sequence[ItemRow], unfit: Sequence[Unfit], connection: Connection
    ) -> PostgresCheckpoint:
        number = self._state.flushes + 1
        async with connection.transaction():
            found = await self._find(connection, "FOR UPDATE")
            if found is None:
                raise refuse_changed(self._name)
            state, attempt = found
            if state.flushes == number and attempt == batch.attempt:
                return state  # an earlier attempt, whose answer was lost
            if state != self._state and batch.note is not None:
                raise self._replaced()
            if state.output != self._state.output:
                raise refuse_changed(self._name)
            if state.flushes != self._state.flushes:
                raise Misconfigured(f"output {self._name}: another crawl is writing it")
            await self._copy(rows, connection)
            if unfit:
                await connection.executemany(
                    f"INSERT INTO {self._schema}_shoal_rejected VALUES ($1, $2, $3, $4, $5)",  # noqa: S608 (quoted)
                    [(self._table, number, row.key, row.reason, row.beginning) for row in unfit],
                )
            put = await connection.fetchrow(
                self._spelled(PUT),
                *(self._table, number, UNDO, batch.attempt, batch.note, len(batch.items)),
            )
        assert put
        return PostgresCheckpoint(*put)

    async def _copy(self, rows: Sequence[ItemRow], connection: Connection) -> None:
        await connection.copy_records_to_table(
            "_shoal_batch", records=[(number, row.key, row.json) for number, row in enumerate(rows)]
        )

    async def _find(
        self, connection: Connection, lock: str = ""
    ) -> tuple[PostgresCheckpoint, bytes | None] | None:
        found = await connection.fetchrow(
            f"SELECT id, flushes, items, rows, attempt FROM {self._schema}_shoal_outputs"  # noqa: S608 (quoted)
            f" WHERE output = $1 {lock}",
            self._table,
        )
        return None if found is None else (PostgresCheckpoint(*found[:4]), found[4])

    async def _kept(self, connection: Connection) -> tuple[bytes, bytes] | None:
        self._looked, self._seen = True, None
        if not await self._exists(connection, f"{self._schema}_shoal_outputs"):
            return None
        # In one look: a writer that was stopped may still end its flush, and a note goes with its checkpoint.
        found = await connection.fetchrow(
            f"SELECT note, id, flushes, items, rows FROM {self._schema}_shoal_outputs"  # noqa: S608 (quoted)
            " WHERE output = $1",
            self._table,
        )
        if found is None:
            return None
        note, *state = found
        self._seen = PostgresCheckpoint(*state)
        return None if note is None else (msgspec.msgpack.encode(self._seen), note)

    def _check_unseen(self, found: tuple[PostgresCheckpoint, bytes | None] | None) -> None:
        if self._looked and self._seen != (found and found[0]):
            raise self._replaced()

    def _replaced(self) -> Unavailable:
        return Unavailable(f"output {self._name}: another worker has written to it meanwhile")

    async def _start(self, connection: Connection) -> PostgresCheckpoint:
        async with connection.transaction():
            # Of two that start at once one waits: making a table that is being made is an error.
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext('shoal'))")
            await connection.execute(self._spelled(SCHEMA))
            found = await self._find(connection, "FOR UPDATE")
            self._check_unseen(found)
            exists = await self._exists(connection, self._items)
            if exists and (found is None or (found[0].flushes and not self._overwrite)):
                raise refuse(self._name)
            if exists and self._overwrite:
                await connection.execute(f"DROP TABLE {self._items}")
            if not exists or self._overwrite:
                await connection.execute(self._spelled(ITEMS))
                for table in ("outputs", "flushes", "undo", "rejected"):
                    await connection.execute(
                        f"DELETE FROM {self._schema}_shoal_{table} WHERE output = $1",  # noqa: S608 (quoted)
                        self._table,
                    )
                await connection.execute(
                    f"INSERT INTO {self._schema}_shoal_outputs (output, id) VALUES ($1, $2)",  # noqa: S608 (quoted)
                    *(self._table, os.urandom(16)),
                )
            found = await self._find(connection)
        assert found
        return found[0]

    async def _take_back(self, connection: Connection) -> None:
        kept = self._state
        async with connection.transaction():
            found = None
            if await self._exists(connection, self._items):
                found = await self._find(connection, "FOR UPDATE")
            if found is not None:
                self._check_unseen(found)
            if found is None or found[0].output != kept.output or found[0].flushes < kept.flushes:
                raise refuse_changed(self._name)
            if found[0].flushes > kept.flushes:
                done = await connection.execute(
                    self._spelled(TAKE_BACK), *(self._table, kept.flushes, kept.items, kept.rows)
                )
                if done != "UPDATE 1":  # so far back that it is not remembered
                    raise refuse_changed(self._name)

    async def _count(self, kept: PostgresCheckpoint, connection: Connection) -> int:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            found = None
            if await self._exists(connection, self._items):
                found = await self._find(connection)
            if found is None or found[0].output != kept.output or found[0].flushes < kept.flushes:
                raise refuse_changed(self._name)
            rows = await connection.fetchval(self._spelled(COUNT), *(self._table, kept.flushes))
        # The table knows its last flushes only: if a crawl went on for more, later rows count as well.
        forgotten = found[0].flushes > kept.flushes + UNDO
        if rows != kept.rows and not (forgotten and rows > kept.rows):
            raise Rejected(f"output {self._name} holds {rows} rows, but {kept.rows} were written there")
        return kept.items

    async def _exists(self, connection: Connection, table: str) -> bool:
        return await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", table) is True

    def _spelled(self, statement: str) -> str:
        upsert = UPSERT.format(items=self._items)
        return statement.format(schema=self._schema, items=self._items, upsert=upsert)


def _table_of(dsn: str, name: str) -> tuple[str, str]:
    """Return schema (empty: the server's choice) and table of an address."""
    [spelled] = parse_qs(urlsplit(dsn).query).get("table", ["items"])[-1:]
    schema, dot, table = spelled.rpartition(".")
    parts = [schema, table] if dot else [table]
    if any(not part or len(part.encode()) > _LONGEST_NAME or "\0" in part for part in parts):
        raise Misconfigured(f"output {name}: {spelled!r} cannot be the name of a table")
    return schema, table


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
