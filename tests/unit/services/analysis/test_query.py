"""SQL over the fetch log: the ready views, and what a query may not do."""

from pathlib import Path

import pytest
from tests.unit.services.analysis.log_rows import ROWS, database

from shoal.cli.commands.inspect.sql import csv_lines, table_lines
from shoal.model.errors import Misconfigured
from shoal.services.analysis.query import VIEWS, LogDatabase, QueryResult, plain_value


@pytest.fixture
def log(tmp_path: Path) -> LogDatabase:
    return database(tmp_path, ROWS)


def test_attempts_have_the_trace_id_of_log_lines(log: LogDatabase) -> None:
    found = log.query("SELECT trace, outcome, found_on, total_ms FROM attempts ORDER BY started_at").rows
    assert [one[:3] for one in found] == [
        ("0000000000000001", "done", None),
        ("0000000000000002", "retry", "0000000000000001"),
        ("0000000000000003", "fetched", "0000000000000001"),
        ("0000000000000005", "filtered", None),
    ]
    assert str(log.query("SELECT min(started_at) FROM attempts").rows[0][0]) == "2026-11-17 12:00:01"


def test_a_page_that_another_worker_parsed_is_one_page(log: LogDatabase) -> None:
    found = log.query("SELECT trace, outcome, fetched_by, parsed_by, items FROM pages ORDER BY trace").rows
    assert found == [
        ("0000000000000001", "done", "w", "w", 2),
        ("0000000000000003", "done", "w", "p", 2),
    ]


def test_items_have_their_keys(log: LogDatabase) -> None:
    found = log.query("SELECT key FROM items ORDER BY trace, key").rows
    assert found == [("a",), ("b",), ("0000000000000003-0",), ("0000000000000003-1",)]


def test_hosts_failures_and_cost_are_summed_up(log: LogDatabase) -> None:
    [host] = log.query(
        "SELECT attempts, pages, failures, success_percent, p50_ms, wire_bytes FROM hosts"
    ).rows
    assert host == (4, 2, 1, 66.7, 20.0, 3_000)
    failures = log.query("SELECT failure, attempts, retried, last_url FROM failures ORDER BY failure").rows
    assert failures == [("robots", 1, 0, "http://a.test/5"), ("target_error", 1, 1, "http://a.test/2")]
    [cost] = log.query("SELECT requests, pages, items, wire_bytes, exit FROM cost").rows
    assert cost == (3, 2, 4, 3_000, "")


def test_a_log_without_rows_has_views_without_rows(tmp_path: Path) -> None:
    empty = database(tmp_path, [])
    assert [len(empty.query(f"SELECT * FROM {view}").rows) for view in VIEWS] == [0] * len(VIEWS)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP VIEW attempts",
        "SELECT 1; SELECT 2",
        "SET enable_external_access = true",
        "COPY log TO 'stolen.csv'",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM read_csv('/etc/passwd')",
        "ATTACH 'other.db'",
        "INSTALL httpfs",
        "SELECT nothing FROM attempts",
        "SELECT",
        "",
    ],
)
def test_a_query_can_only_ask(log: LogDatabase, statement: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"^sql: "):
        log.query(statement)
    assert not list(tmp_path.rglob("stolen.csv"))


def test_results_are_shown_as_lines_that_no_value_can_break() -> None:
    found = QueryResult(["host", "n"], [("a\x1b[2J\nb", 1), (None, 22)])
    assert list(table_lines(found)) == ["host          n", "a\\x1b[2J\\nb   1", "             22"]
    assert list(csv_lines(found)) == ["host,n", "a\\x1b[2J\\nb,1", ",22"]
    assert list(table_lines(QueryResult(["n"], [])))[-1] == "(no rows)"


def test_no_name_or_value_of_a_result_is_a_formula_in_csv() -> None:
    found = QueryResult(["@SUM(A1)", "n"], [("=1+1", -2), ({"@SUM(A1)": 1}, 1.5)])
    assert list(csv_lines(found)) == ["'@SUM(A1),n", "'=1+1,-2", "{'@SUM(A1)': 1},1.5"]


def test_values_are_plain_in_json(log: LogDatabase) -> None:
    [values] = log.query(
        "SELECT DATE '2026-11-17', 1.5::DECIMAL(4,1), [1, 2], {'a': 1}, NULL, 'x', 2::HUGEINT"
    ).rows
    assert [plain_value(value) for value in values] == ["2026-11-17", 1.5, [1, 2], {"a": 1}, None, "x", 2]
