"""Start URLs from the rows of a query."""

import sqlite3
from pathlib import Path

import pytest

from shoal.model.errors import Misconfigured
from shoal.services.commands.seed_query import QueryBytes, query_name, query_urls


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE products (url TEXT, stale INTEGER)")
        rows = [(f"https://a.test/{number}", number % 2) for number in range(5_000)]
        made.executemany("INSERT INTO products VALUES (?, ?)", [*rows, (None, 1), ("https://b.test/\nx", 1)])
    made.close()
    return str(path)


def test_the_first_column_of_each_row_is_a_line(database: str) -> None:
    sql = "SELECT url, stale FROM products WHERE stale ORDER BY rowid"
    read = QueryBytes(query_urls(database, sql, store=""))
    text = b""
    while chunk := read.read(1_000):
        assert chunk.endswith(b"\n")
        text += chunk
    read.close()
    lines = text.decode().splitlines()
    assert lines == [*(f"https://a.test/{number}" for number in range(1, 5_000, 2)), "https://b.test/x"]


@pytest.mark.parametrize(
    ("sql", "complaint"),
    [
        ("SELECT none FROM products", "no such column: none"),
        ("DELETE FROM products", "attempt to write a readonly database"),
        ("BEGIN", "not a query that returns rows"),
        ("SELECT 1; SELECT 2", "one statement at a time"),
    ],
)
def test_a_query_that_does_not_read_rows_is_refused(database: str, sql: str, complaint: str) -> None:
    with pytest.raises(Misconfigured, match=complaint):
        list(query_urls(database, sql, store=""))


def test_a_database_that_is_not_there_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="no such SQLite file"):
        list(query_urls(str(tmp_path / "none.db"), "SELECT 1", store=""))
    assert not (tmp_path / "none.db").exists()


def test_no_message_shows_a_password() -> None:
    assert query_name("postgresql://me:secret@db:5432/shop") == "postgresql://me@db:5432/shop"
    assert query_name(None) == "the fetch log"
