"""Items as rows of a PostgreSQL table, one row per key.

`postgresql://user@host:port/database?table=books`; the default table is `items`, and `schema.table` works,
too. The table has `_id` (order of arrival), `_key` and `item`, a jsonb with the fields; an item with the
key of an earlier one replaces it. One jsonb instead of a column per field: the fields of pages and their
types change, and every new column or type would lock the table while others read it. Use an expression
index or a view for the fields that you query.

Exactly once. A flush is one transaction: COPY into a temporary table, an upsert from there, and the number
of the flush in `_shoal_outputs`, whose row lock also excludes any other writer of the table. The flush
stores the random id of its attempt: a sink that has lost the server's answer finds the number and the id,
and knows that the flush was committed. A flush also stores what is needed to undo it (`_shoal_undo`): if
the crawl's store never commits the checkpoint, `restore` undoes it.

A flush with a writer position needs no undo: the position is committed with the items, and the next writer
continues from it. A sink that has read the position (`last_flush`) writes only if no other one has written
since: its process may have been suspended and replaced by another writer, whose items must not be undone.
It then raises `Unavailable`, and the writer reads the position again.

What cannot be stored. NUL becomes `\\0`. A row that PostgreSQL rejects (too long, too deep, violating a
constraint of yours) does not block the others: they are stored, and the rejected row goes to
`_shoal_rejected` with the reason.

Put passwords into PGPASSWORD, PGPASSFILE or ~/.pgpass; a password in the address works, and is never shown.
"""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from shoal.model.errors import Misconfigured, Rejected, Unavailable
from shoal.model.page import Item
from shoal.sinks.contract import LastFlush
from shoal.sinks.files import altered_output, changed_output, foreign_output
from shoal.sinks.names import canonical_name
from shoal.sinks.postgres.rows import ItemRow, UnfitItem, row_of
from shoal.sinks.postgres.session import Connection, Session, Unstorable
from shoal.sinks.postgres.sql import (
    BATCH,
    CHECKSUM,
    CHECKSUM_COLUMN,
    CHECKSUMS,
    COUNT,
    ITEMS,
    PUT,
    SCHEMA,
    UNDO,
    UPSERT,
)

log = logging.getLogger(__name__)

UNDO_FLUSHES = 16  # flushes that can be undone, as in `sqlite.py`
RETRY_S = 5.0  # for a lost connection, a deadlock or a server that is starting
_MAX_NAME_BYTES = 63  # of an identifier


class PostgresCheckpoint(msgspec.Struct, frozen=True, array_like=True):
    output: bytes
    flushes: int
    items: int = 0  # written, including those that replaced another one or were rejected
    rows: int = 0  # in the table
    checksum: int | None = None  # of all rows, in any order; None: written by an earlier version


@dataclass(frozen=True, slots=True)
class _Batch:
    """The content of one flush; kept until its commit is confirmed, and repeated unchanged."""

    attempt: bytes
    items: Sequence[Item]
    position: bytes | None


class PostgresSink:
    """Rows in a table; the checkpoint is the number of flushes, of items and of rows."""

    def __init__(self, dsn: str, *, overwrite: bool = False, retry_s: float = RETRY_S) -> None:
        self._name = canonical_name(dsn)
        schema, self._table = table_of(dsn, self._name)
        self._schema = f"{quoted(schema)}." if schema else ""
        self._items = self._schema + quoted(self._table)
        self._overwrite = overwrite
        self._session = Session(dsn, name=self._name, retry_s=retry_s, first_statement=BATCH)
        self._state = PostgresCheckpoint(b"", 0)
        self._position: bytes | None = None
        self._position_read = False  # by `last_flush`
        self._state_read: PostgresCheckpoint | None = None  # the state that `last_flush` has found
        self._pending: list[Item] = []
        self._sending: _Batch | None = None

    def last_flush(self) -> LastFlush | None:
        """Return checkpoint and position of the last flush with a position; None: there is no such flush."""
        return self._session.run(self._last_flush)

    def restore(self, checkpoint: bytes | None) -> None:
        """Undo the flushes after the checkpoint."""
        try:
            if checkpoint is None:
                self._state = self._session.run(self._start)
            else:
                self._state = msgspec.msgpack.decode(checkpoint, type=PostgresCheckpoint)
                self._session.run(self._undo)
                if self._state.checksum is None:
                    self._state = self._session.run(self._add_checksum)
        except BaseException:
            self.close()
            raise

    def recount(self, checkpoint: bytes) -> int:
        """Count the items of the flushes up to a checkpoint; raise `Rejected` if rows are missing."""
        return self._session.run(
            partial(self._count, msgspec.msgpack.decode(checkpoint, type=PostgresCheckpoint))
        )

    def write(self, items: Sequence[Item]) -> None:
        """Buffer items."""
        self._pending += items

    def flush(self, position: bytes | None = None) -> bytes:
        """Write the buffered items, and the position if it is new, in one transaction."""
        if self._sending:
            self._send(self._sending)
        if self._pending or (position is not None and position != self._position):
            self._sending = _Batch(os.urandom(8), self._pending, position)
            self._pending = []
            self._send(self._sending)
        return msgspec.msgpack.encode(self._state)

    def finish(self, position: bytes | None = None) -> bytes:
        """Flush; nothing else is left to do."""
        return self.flush(position)

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def _send(self, batch: _Batch) -> None:
        rows: dict[str, ItemRow] = {}  # the last of several items with the same key is written
        unfit: list[UnfitItem] = []
        for item in batch.items:
            match row_of(item):
                case ItemRow() as row:
                    rows[row.key] = row
                case UnfitItem() as rejected:
                    unfit.append(rejected)
        try:
            self._state = self._session.run(partial(self._put, batch, list(rows.values()), unfit))
        except Unstorable:
            reasons = self._find_unstorable(list(rows.values()))
            unfit += [UnfitItem.of(key, rows.pop(key).json.encode(), why) for key, why in reasons.items()]
            self._state = self._session.run(partial(self._put, batch, list(rows.values()), unfit))
        for rejected in unfit:
            log.warning("item.rejected", extra={"output": self._name, "reason": rejected.reason})
        self._position = batch.position if batch.position is not None else self._position
        self._sending = None

    def _find_unstorable(self, rows: Sequence[ItemRow]) -> dict[str, str]:
        """Return the keys of the rows that the server rejects, each with the reason, by bisection."""
        try:
            self._session.run(partial(self._try, rows))
        except Unstorable as error:
            if len(rows) == 1:
                return {rows[0].key: str(error)}
            half = len(rows) // 2
            return self._find_unstorable(rows[:half]) | self._find_unstorable(rows[half:])
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
        self, batch: _Batch, rows: Sequence[ItemRow], unfit: Sequence[UnfitItem], connection: Connection
    ) -> PostgresCheckpoint:
        number = self._state.flushes + 1
        async with connection.transaction():
            found = await self._read_state(connection, "FOR UPDATE")
            if found is None:
                raise changed_output(self._name)
            state, attempt = found
            if state.flushes == number and attempt == batch.attempt:
                return state  # an earlier attempt was committed, and its answer was lost
            if state != self._state and batch.position is not None:
                raise self._replaced()
            if state.output != self._state.output:
                raise changed_output(self._name)
            if state.flushes != self._state.flushes:
                raise Misconfigured(f"output {self._name}: another crawl is writing it")
            await self._copy(rows, connection)
            if unfit:
                await connection.executemany(
                    f"INSERT INTO {self._schema}_shoal_rejected VALUES ($1, $2, $3, $4, $5)",  # noqa: S608 (quoted)
                    [(self._table, number, row.key, row.reason, row.beginning) for row in unfit],
                )
            put = await connection.fetchrow(
                self._statement(PUT),
                *(self._table, number, UNDO_FLUSHES, batch.attempt, batch.position, len(batch.items)),
            )
        assert put
        return PostgresCheckpoint(*put)

    async def _copy(self, rows: Sequence[ItemRow], connection: Connection) -> None:
        await connection.copy_records_to_table(
            "_shoal_batch", records=[(number, row.key, row.json) for number, row in enumerate(rows)]
        )

    async def _read_state(
        self, connection: Connection, lock: str = ""
    ) -> tuple[PostgresCheckpoint, bytes | None] | None:
        found = await connection.fetchrow(
            f"SELECT to_jsonb(outputs) ->> 'checksum', attempt, id, flushes, items, rows"  # noqa: S608 (quoted)
            f" FROM {self._schema}_shoal_outputs AS outputs WHERE output = $1 {lock}",
            self._table,
        )
        if found is None:
            return None
        checksum, attempt, *state = found
        return _checkpoint(state, checksum), attempt

    async def _last_flush(self, connection: Connection) -> LastFlush | None:
        self._position_read, self._state_read = True, None
        if not await self._exists(connection, f"{self._schema}_shoal_outputs"):
            return None
        # In one query: a suspended writer may still commit its flush, and a position needs its own
        # checkpoint.
        found = await connection.fetchrow(
            f"SELECT to_jsonb(outputs) ->> 'checksum', note, id, flushes, items, rows"  # noqa: S608 (quoted)
            f" FROM {self._schema}_shoal_outputs AS outputs WHERE output = $1",
            self._table,
        )
        if found is None:
            return None
        checksum, position, *state = found
        self._state_read = _checkpoint(state, checksum)
        return None if position is None else LastFlush(msgspec.msgpack.encode(self._state_read), position)

    def _check_not_replaced(self, found: tuple[PostgresCheckpoint, bytes | None] | None) -> None:
        if self._position_read and self._state_read != (found and found[0]):
            raise self._replaced()

    def _replaced(self) -> Unavailable:
        return Unavailable(f"output {self._name}: another worker has written to it since")

    async def _start(self, connection: Connection) -> PostgresCheckpoint:
        async with connection.transaction():
            # Two sinks that start at once do this one after the other: creating a table twice is an error.
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext('shoal'))")
            await connection.execute(self._statement(SCHEMA))
            await connection.execute(self._statement(CHECKSUM_COLUMN))
            found = await self._read_state(connection, "FOR UPDATE")
            self._check_not_replaced(found)
            exists = await self._exists(connection, self._items)
            if exists and (found is None or (found[0].flushes and not self._overwrite)):
                raise foreign_output(self._name)
            if exists and self._overwrite:
                await connection.execute(f"DROP TABLE {self._items}")
            if not exists or self._overwrite:
                await connection.execute(self._statement(ITEMS))
                for table in ("outputs", "flushes", "undo", "rejected"):
                    await connection.execute(
                        f"DELETE FROM {self._schema}_shoal_{table} WHERE output = $1",  # noqa: S608 (quoted)
                        self._table,
                    )
                await connection.execute(
                    f"INSERT INTO {self._schema}_shoal_outputs (output, id, checksum) VALUES ($1, $2, 0)",  # noqa: S608
                    *(self._table, os.urandom(16)),
                )
            found = await self._read_state(connection)
        assert found
        return found[0]

    async def _undo(self, connection: Connection) -> None:
        wanted = self._state
        async with connection.transaction():
            found = None
            if await self._exists(connection, self._items):
                found = await self._read_state(connection, "FOR UPDATE")
            if found is not None:
                self._check_not_replaced(found)
            if found is None or found[0].output != wanted.output or found[0].flushes < wanted.flushes:
                raise changed_output(self._name)
            if found[0].flushes > wanted.flushes:
                done = await connection.execute(
                    self._statement(UNDO),
                    *(self._table, wanted.flushes, wanted.items, wanted.rows, wanted.checksum),
                )
                if done != "UPDATE 1":  # too many flushes ago
                    raise changed_output(self._name)

    async def _add_checksum(self, connection: Connection) -> PostgresCheckpoint:
        """Compute the checksum of a table that an earlier version has written."""
        async with connection.transaction():
            await connection.execute(self._statement(CHECKSUM_COLUMN))
            found = await self._read_state(connection, "FOR UPDATE")
            if found is None or msgspec.structs.replace(found[0], checksum=None) != self._state:
                raise self._replaced()
            checksum = await connection.fetchval(self._statement(CHECKSUM), self._table)
        if self._state_read is not None:
            self._state_read = msgspec.structs.replace(self._state_read, checksum=checksum)
        return msgspec.structs.replace(self._state, checksum=checksum)

    async def _count(self, wanted: PostgresCheckpoint, connection: Connection) -> int:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            found = None
            if await self._exists(connection, self._items):
                found = await self._read_state(connection)
            if found is None or found[0].output != wanted.output or found[0].flushes < wanted.flushes:
                raise changed_output(self._name)
            counted = await connection.fetchrow(self._statement(COUNT), *(self._table, wanted.flushes))
            assert counted
        rows, checksum = counted
        # The table has the last flushes only: if the crawl has made more since, later rows count as well.
        overtaken = found[0].flushes > wanted.flushes + UNDO_FLUSHES
        if rows != wanted.rows and not (overtaken and rows > wanted.rows):
            raise Rejected(f"output {self._name} holds {rows} rows, but {wanted.rows} were written there")
        # A fleet's writer stores nothing to undo, so rows that it has replaced since cannot be checked.
        since = found[0].flushes > wanted.flushes
        unknown = wanted.checksum is None or overtaken or (since and self._position_read)
        if checksum != wanted.checksum and not unknown:
            raise altered_output(self._name, f"{rows} rows", "as many as were written")
        return wanted.items

    async def _exists(self, connection: Connection, table: str) -> bool:
        return await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", table) is True

    def _statement(self, statement: str) -> str:
        upsert = UPSERT.format(items=self._items)
        return statement.format(schema=self._schema, items=self._items, upsert=upsert, **CHECKSUMS)


def _checkpoint(state: Sequence[Any], checksum: str | None) -> PostgresCheckpoint:
    output, flushes, items, rows = state
    return PostgresCheckpoint(output, flushes, items, rows, None if checksum is None else int(checksum))


def table_of(dsn: str, name: str) -> tuple[str, str]:
    """Return schema (empty: the search path of the server) and table of an address."""
    [option] = parse_qs(urlsplit(dsn).query).get("table", ["items"])[-1:]
    schema, dot, table = option.rpartition(".")
    parts = [schema, table] if dot else [table]
    if any(not part or len(part.encode()) > _MAX_NAME_BYTES or "\0" in part for part in parts):
        raise Misconfigured(f"output {name}: {option!r} cannot be the name of a table")
    return schema, table


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
