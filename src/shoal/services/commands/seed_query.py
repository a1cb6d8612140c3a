"""Start URLs from a SQL query: on an SQLite file, a PostgreSQL database, or the fetch log of a store.

The first column of each row is a URL. Databases are opened for reading only. Rows are read in batches, except
those of the fetch log.
"""

import asyncio
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

from shoal.model.errors import Misconfigured, ShoalError

POSTGRES = ("postgres://", "postgresql://")
BATCH_ROWS = 10_000


def query_name(database: str | None) -> str:
    """Return what a query reads, for messages: an address without its password."""
    if database is None:
        return "the fetch log"
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1@", database)


def query_urls(database: str | None, sql: str, *, store: str) -> Iterator[str]:
    """Yield the first column of a query's rows; None: those of the fetch log of `store`.

    Raise `Misconfigured` if the database cannot be read or the query is not valid.
    """
    if database is None:
        rows = _from_log(store, sql)
    elif database.startswith(POSTGRES):
        rows = _from_postgres(database, sql)
    else:
        rows = _from_sqlite(Path(database), sql)
    for value in rows:
        if value is not None:
            # As in any URL, line breaks mean nothing; here each URL gets a line.
            yield str(value).replace("\r", "").replace("\n", "")


def _from_sqlite(path: Path, sql: str) -> Iterator[object]:
    if not path.is_file():
        raise Misconfigured(f"--seeds {path}: no such SQLite file")
    try:
        # Several threads read from it, one after the other.
        address = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, check_same_thread=False)) as database:
            found = database.execute(sql)
            if found.description is None:
                raise Misconfigured(f"--query: on {path}: not a query that returns rows")
            for [value, *_] in found:
                yield value
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise Misconfigured(f"--query: on {path}: {error}") from None


def _from_postgres(dsn: str, sql: str) -> Iterator[object]:
    try:
        from shoal.sinks.postgres.session import Connection, Session
    except ImportError:
        raise Misconfigured("--seeds postgresql://: run  pip install 'shoal[postgres]'  first") from None

    name = query_name(dsn)
    read_only = "SET default_transaction_read_only = on"
    session = Session(dsn, name=name, retry_s=0.0, first_statement=read_only, what="--seeds")

    async def begin(connection: Connection) -> None:
        await connection.execute("BEGIN")
        await connection.execute(f"DECLARE shoal_seeds NO SCROLL CURSOR FOR {sql}")

    async def fetch(connection: Connection) -> list[object]:
        return [row[0] for row in await connection.fetch(f"FETCH {BATCH_ROWS} FROM shoal_seeds")]

    with closing(session):
        session.run(begin)
        while values := session.run(fetch):
            yield from values


def _from_log(store: str, sql: str) -> Iterator[object]:
    from shoal.services.analysis.query import run_query

    found = asyncio.run(run_query(store, None, sql))
    yield from (row[0] for row in found.rows)


class QueryBytes:
    """The result of a query as a file with one URL per line."""

    def __init__(self, urls: Iterator[str]) -> None:
        self._urls = urls

    def read(self, size: int) -> bytes:
        """Return whole lines of about `size` bytes; b"": that was all."""
        lines: list[str] = []
        while size > 0 and (batch := list(islice(self._urls, 1_000))):
            lines += batch
            size -= sum(map(len, batch))
        return "".join(f"{line}\n" for line in lines).encode(errors="surrogateescape")

    def close(self) -> None:
        with suppress(ShoalError):
            self._urls.close()  # type: ignore[attr-defined]  # a generator
