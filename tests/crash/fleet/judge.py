"""What a crawl of the known graph has to look like afterwards, whatever was done to its workers and its store."""

from collections.abc import Iterable, Mapping
from typing import Any

import asyncpg
import msgspec
from tests.graph_crawl import FIELDS, assert_same
from tests.site.access_log import Hit, by_host, fetches, violations
from tests.site.graph import Expected

GROUP_COMMIT = 64  # pages that a worker may have fetched and not yet committed, on top of those in flight
OPEN = ("waiting", "delayed", "leased", "parsing")
# The crawler's clock is monotonic, the log's is the wall clock: while that is being adjusted they drift apart.
CLOCK_SLACK = 0.001


def assert_fetched(hits: Iterable[Hit], expected: Expected, *, blows: int, concurrency: int) -> int:
    """Every page was asked for, nothing else was, and no blow cost more than it may; return what all cost."""
    asked = fetches(hits)
    assert_same("fetched", set(asked), expected.fetched)
    again = asked.total() - len(expected.fetched)
    assert again <= blows * (concurrency + GROUP_COMMIT)
    return again


def assert_items(
    output: str, items: Iterable[Mapping[str, Any]], expected: Iterable[Mapping[str, Any]]
) -> None:
    """An output holds exactly the items that are expected, each of them once."""
    found = [tuple(item[field] for field in FIELDS) for item in items]
    assert_same(output, found, [tuple(item[field] for field in FIELDS) for item in expected])


def assert_counted(counts: Mapping[str, int], expected: Expected) -> None:
    """Every request has the final state that it must have."""
    ends = {
        "accepted": len(expected.fetched) + len(expected.disallowed),
        "done": len(expected.pages) + len(expected.redirects),
        "gone": len(expected.gone),
        "filtered": len(expected.disallowed),
        "dead": 0,
        **dict.fromkeys(OPEN, 0),
    }
    assert {state: counts[state] for state in ends} == ends


def assert_paced(hits: Iterable[Hit], rate: float) -> None:
    """No window of any length holds more requests to one host than the rate allows, over all workers."""
    for host, several in by_host(hits).items():
        found = violations([hit.arrived for hit in several], rate=rate, slack_s=CLOCK_SLACK)
        assert not found, f"{host}: {len(found)} windows, such as {found[:3]}"


async def rows(dsn: str) -> list[dict[str, Any]]:
    """Read the items of an output in PostgreSQL back."""
    address, _, table = dsn.partition("?table=")
    connection = await asyncpg.connect(address)
    try:
        found = await connection.fetch(f"SELECT item FROM {table}")
    finally:
        await connection.close()
    return [msgspec.json.decode(row["item"]) for row in found]
