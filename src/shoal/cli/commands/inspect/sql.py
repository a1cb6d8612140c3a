"""`shoal sql`: questions to the fetch log."""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.input.options import Config, Crawl, Json, Store, examples, option
from shoal.model.errors import Misconfigured

if TYPE_CHECKING:
    from shoal.services.analysis.query import QueryResult

WIDTH = 100  # columns, where there is no window
EXAMPLES = examples(
    ("Which views and columns are there?", "shoal sql"),
    ("The slowest hosts", 'shoal sql "SELECT host, p95_ms FROM hosts ORDER BY p95_ms DESC LIMIT 10"'),
    ("What failed, and why", 'shoal sql "SELECT * FROM failures" --store redis://queue.example'),
    ("For a spreadsheet", 'shoal sql "SELECT * FROM attempts" --csv > attempts.csv'),
)

Query = Annotated[
    str | None,
    typer.Argument(
        metavar="[QUERY]", help="One query; without it, the views are listed.", show_default=False
    ),
]
Csv = Annotated[bool, option("--csv", "", "Print CSV.")]


def command(
    query: Query = None,
    *,
    store: Store = None,
    crawl: Crawl = None,
    config: Config = None,
    csv: Csv = False,
    json: Json = False,
) -> None:
    """Query the fetch log with SQL: every attempt of every crawl, in a folder or in a fleet.

    The views attempts, pages, items, hosts, failures and cost are ready; the SQL is DuckDB's. Reads only:
    safe while a crawl runs.
    """
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.output import print_json, print_lines
    from shoal.services.analysis.query import describe_views, plain_value, run_query

    if csv and json:
        raise Misconfigured("--csv and --json: choose one")
    address = chosen_store(store, config=config)
    if query is None:
        views = run(describe_views(address, crawl))
        if json:
            print_json({name: dict(columns) for name, columns in views.items()})
        else:
            print_lines(view_lines(views))
        return
    found = run(run_query(address, crawl, query))
    if json:
        rows = [[plain_value(value) for value in row] for row in found.rows]
        print_json({"columns": list(found.columns), "rows": rows})
    else:
        print_lines(csv_lines(found) if csv else table_lines(found), whole=True)


def view_lines(views: Mapping[str, Sequence[tuple[str, str]]]) -> Iterator[str]:
    """Yield the views with their columns."""
    from shoal.cli.views.wrap import window_width, wrap

    width = window_width(sys.stdout) or WIDTH
    for name, columns in views.items():
        yield from wrap(f"{name:<10}{', '.join(column for column, _ in columns)}", width)


def text_of(value: object) -> str:
    """Return a value of a result as text of one line."""
    from shoal.model.printable import printable

    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return printable(value)
    return printable(str(value))


def table_lines(found: "QueryResult") -> Iterator[str]:
    """Yield a result as an aligned table."""
    from shoal.cli.views.format import table

    rows = [[text_of(_rounded(value)) for value in row] for row in found.rows]
    numbers = [all(_is_number(row[column]) for row in found.rows) for column in range(len(found.columns))]
    words = [column for column, is_number in enumerate(numbers) if not is_number]
    if not rows:
        yield from table(found.columns, [], words=range(len(found.columns)))
        yield "(no rows)"
        return
    yield from table(found.columns, rows, words=words)


def _rounded(value: object) -> object:
    """Return a number with as many digits as people read; --csv and --json have all of them."""
    if not isinstance(value, float) or not math.isfinite(value) or value == 0:
        return value
    return round(value, max(3, 2 - math.floor(math.log10(abs(value)))))


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def csv_lines(found: "QueryResult") -> Iterator[str]:
    """Yield a result as CSV; text that a terminal or a spreadsheet could act on is escaped."""
    import csv
    from io import StringIO

    from shoal.services.analysis.query import csv_text

    def cell(value: object) -> str:
        text = text_of(value)
        return text if _is_number(value) else csv_text(text)

    for row in (found.columns, *found.rows):
        line = StringIO()
        csv.writer(line, lineterminator="").writerow([cell(value) for value in row])
        yield line.getvalue()
