"""The items of a table, for `shoal export`. Nothing is written: the connection is read-only."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import TypeAlias

from shoal.model.page import Item
from shoal.sinks.names import canonical_name
from shoal.sinks.postgres.session import Connection, Session
from shoal.sinks.postgres.sink import RETRY_S, quoted, table_of
from shoal.sinks.postgres.sql import READ

_BATCH_ROWS = 1000  # of one statement: an item may have megabytes

Row: TypeAlias = tuple[int, str, str]


def read_items(dsn: str) -> Iterator[Item]:
    """Yield the items of a table that Shoal has written, in the order of arrival."""
    name = canonical_name(dsn)
    schema, table = table_of(dsn, name)
    items = f"{quoted(schema)}.{quoted(table)}" if schema else quoted(table)
    read_only = "SET default_transaction_read_only = on"
    session = Session(dsn, name=name, retry_s=RETRY_S, first_statement=read_only)
    with closing(session):
        last = 0
        while rows := session.run(partial(_read_after, items, last)):
            yield from (Item(key, item.encode()) for _, key, item in rows)
            last = rows[-1][0]


async def _read_after(items: str, last: int, connection: Connection) -> list[Row]:
    found = await connection.fetch(READ.format(items=items), last, _BATCH_ROWS)
    return [(row["_id"], row["_key"], row["item"]) for row in found]
