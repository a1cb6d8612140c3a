"""SQL over the fetch log of a store: DuckDB in memory, on the Parquet parts and a copy of the others.

The database is private to the query. It may read the parts of the log and nothing else: no other file, no
network, no extension. So a query can neither change the log nor disturb the crawl that writes it.
"""

import asyncio
import datetime
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from shoal.archive.fetch_log import FetchLogReader
from shoal.model.errors import Misconfigured
from shoal.sinks import csv_safety
from shoal.stores.contract.store import select_crawls
from shoal.stores.open import open_store

if TYPE_CHECKING:
    import duckdb

NEEDS_EXTRA = "run  pip install 'shoal[sql]'  first"
VIEWS = ("attempts", "pages", "items", "hosts", "failures", "cost")
_ONE_STATEMENT = "give one query: SELECT, WITH, DESCRIBE, SHOW or EXPLAIN"


@dataclass(frozen=True, slots=True)
class QueryResult:
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


class LogDatabase:
    """The views over some parts of fetch logs; not for several threads at once."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection") -> None:
        self._connection = connection

    def query(self, sql: str, parameters: Sequence[object] = ()) -> QueryResult:
        """Return the result of one query; raise `Misconfigured` with the reason if it has none."""
        import duckdb

        try:
            statements = self._connection.extract_statements(sql)
            if len(statements) != 1 or statements[0].type not in (
                duckdb.StatementType.SELECT,
                duckdb.StatementType.EXPLAIN,
            ):
                raise Misconfigured(f"sql: {_ONE_STATEMENT}")
            ran = self._connection.execute(sql, list(parameters))
            rows = ran.fetchall()
            return QueryResult([column[0] for column in ran.description or ()], rows)
        except duckdb.Error as error:
            raise Misconfigured(f"sql: {str(error).strip()}") from None


def open_database(parts: Sequence[Path], folder: Path) -> LogDatabase:
    """Open a database with the views over Parquet files; `folder` is for what does not fit into memory."""
    import duckdb

    settings: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    connection = duckdb.connect(":memory:", config=settings)
    names = [str(part) for part in parts]
    listed = ", ".join("'{}'".format(name.replace("'", "''")) for name in names)
    connection.execute(f"CREATE VIEW log AS SELECT * FROM read_parquet([{listed}], union_by_name = true)")  # noqa: S608
    connection.execute(files(__package__).joinpath("views.sql").read_text())
    connection.execute("SET temp_directory = ?", [str(folder)])
    connection.execute("SET allowed_paths = ?", [names])
    connection.execute("SET allowed_directories = ?", [[str(folder)]])
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return LogDatabase(connection)


@asynccontextmanager
async def open_log(dsn: str, crawl: str | None) -> AsyncIterator[LogDatabase]:
    """Open the fetch logs of one crawl or of all crawls of a store, as far as this machine reaches them."""
    check_extra()
    async with open_store(dsn) as store:
        logs = []
        for name in await select_crawls(store, crawl):
            try:
                logs.append((await store.archive_of(name)).fetch_log)
            except Misconfigured:  # it was never submitted to the end
                if crawl is not None:
                    raise
        with TemporaryDirectory(prefix="shoal-sql-") as folder:
            parts = await asyncio.to_thread(snapshot, logs, Path(folder))
            yield await asyncio.to_thread(open_database, parts, Path(folder))


def snapshot(logs: Sequence[FetchLogReader], folder: Path) -> list[Path]:
    """Return Parquet files with the rows of fetch logs as they are now; copies go into `folder`."""
    from shoal.archive.fetch_log.parquet import write_parquet

    parts = [path for number, log in enumerate(logs) for path in log.snapshot(folder / str(number))]
    if not parts:
        empty = folder / "empty.parquet"
        empty.write_bytes(write_parquet([]))
        parts = [empty]
    return parts


def check_extra() -> None:
    """Raise `Misconfigured` if the packages for SQL are not installed."""
    try:
        import duckdb  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError:
        raise Misconfigured(NEEDS_EXTRA) from None


async def run_query(dsn: str, crawl: str | None, sql: str) -> QueryResult:
    """Return the result of a query over the fetch log of a store."""
    async with open_log(dsn, crawl) as database:
        return await asyncio.to_thread(database.query, sql)


async def describe_views(dsn: str, crawl: str | None) -> dict[str, list[tuple[str, str]]]:
    """Return the columns of each view, with their types."""
    async with open_log(dsn, crawl) as database:
        return {
            view: [(str(row[0]), str(row[1])) for row in database.query(f"DESCRIBE {view}").rows]
            for view in VIEWS
        }


def plain_value(value: object) -> object:
    """Return a value as JSON has it."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case Decimal():
            return float(value)
        case bytes():
            return value.hex()
        case list() | tuple():
            return [plain_value(one) for one in value]
        case dict():
            return {str(name): plain_value(one) for name, one in value.items()}
    return str(value)


def csv_text(text: str) -> str:
    """Return the text of a CSV cell that no spreadsheet takes for a formula."""
    return csv_safety.escape_formulas(text)
