"""The figures of a report, read from the fetch log with a few queries."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shoal.services.analysis.query import LogDatabase

MAX_BINS = 120  # points of a chart over time
MAX_ROWS = 15  # of a list
STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 86_400, 604_800)
FAILED = "outcome IN ('retry', 'dead')"  # a page that is gone, or a request that a rule ends, has not failed
PHASES = ("queue", "dns", "connect", "tls", "first_byte", "body")


@dataclass(frozen=True, slots=True)
class Totals:
    attempts: int
    requests: int  # attempts that were sent
    pages: int
    items: int
    failures: int
    wire_bytes: int
    body_bytes: int
    hosts: int
    workers: int
    first_at: float  # epoch seconds
    last_at: float
    p50_ms: float
    p95_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Bin:
    """What happened in one step of time."""

    at: float  # epoch seconds of its start
    seconds: float  # of it that the log covers: less in the first and in the last one
    pages: int
    failures: int
    wire_bytes: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Share:
    """A count of something with a name, and how many of all that is."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Phase:
    name: str
    p50_ms: float
    p95_ms: float
    count: int  # attempts in which it took place


@dataclass(frozen=True, slots=True)
class Group:
    """The attempts of one host, worker or exit."""

    name: str
    requests: int
    pages: int
    failures: int
    wire_bytes: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class Figures:
    crawls: Sequence[str]
    totals: Totals
    step_s: int
    bins: Sequence[Bin]  # without gaps
    phases: Sequence[Phase]
    statuses: Sequence[Share]
    failure_classes: Sequence[Share]
    left_out: Sequence[Share]  # pages that are gone, and requests that a rule ended
    failing_hosts: Sequence[Group]
    slowest_hosts: Sequence[Group]
    exits: Sequence[Group]
    workers: Sequence[Group]


def step_for(seconds: float) -> int:
    """Return the seconds of one bin, so that there are at most `MAX_BINS`."""
    for step in STEPS_S:
        if seconds / step < MAX_BINS:
            return step
    days = 86_400
    return int(-(-seconds // (MAX_BINS * days)) * days)


def read_figures(database: LogDatabase) -> Figures | None:
    """Return the figures of all attempts in the log; None: it has none."""
    totals = _totals(database)
    if not totals.attempts:
        return None
    step = step_for(totals.last_at - totals.first_at)
    return Figures(
        crawls=[str(row[0]) for row in database.query("SELECT DISTINCT crawl FROM log ORDER BY crawl").rows],
        totals=totals,
        step_s=step,
        bins=fill_gaps(_bins(database, step), step, totals.first_at, totals.last_at),
        phases=_phases(database),
        statuses=_shares(
            database, "CASE status WHEN 0 THEN 'no response' ELSE status::VARCHAR END", "sent = 1"
        ),
        failure_classes=_shares(database, "failure", f"failure <> '' AND {FAILED}"),
        left_out=_shares(database, "failure", f"failure <> '' AND NOT {FAILED}"),
        failing_hosts=_groups(database, "host", "failures > 0", "failures DESC"),
        slowest_hosts=_groups(database, "host", "requests > 0", "p95_ms DESC"),
        exits=_groups(
            database, "CASE exit WHEN '' THEN 'direct' ELSE exit END", "requests > 0", "requests DESC"
        ),
        workers=_groups(database, "worker", "true", "requests DESC"),
    )


def _totals(database: LogDatabase) -> Totals:
    [row] = database.query(
        f"""
        SELECT count(*) FILTER (stage = 'fetch'), count(*) FILTER (sent = 1),
            count(*) FILTER (stage = 'fetch' AND segment <> ''), coalesce(sum(items), 0)::BIGINT,
            count(*) FILTER ({FAILED}), coalesce(sum(wire_bytes), 0)::BIGINT,
            coalesce(sum(body_bytes), 0)::BIGINT, count(DISTINCT host), count(DISTINCT worker),
            coalesce(epoch_us(min(started_at)), 0) / 1e6, coalesce(epoch_us(max(started_at)), 0) / 1e6,
            quantile_disc(total_ms - queue_ms, [0.5, 0.95, 0.99]) FILTER (sent = 1)
        FROM log
        """  # noqa: S608
    ).rows
    return Totals(*row[:-1], *_quantiles(row[-1], 3))


def _bins(database: LogDatabase, step: int) -> list[Bin]:
    rows = database.query(
        f"""
        SELECT epoch_us(started_at) // (? * 1000000) * ? AS start,
            count(*) FILTER (segment <> ''), count(*) FILTER ({FAILED}), sum(wire_bytes)::BIGINT,
            quantile_disc(total_ms - queue_ms, [0.5, 0.95, 0.99]) FILTER (sent = 1)
        FROM log WHERE stage = 'fetch' GROUP BY start ORDER BY start
        """,  # noqa: S608
        [step, step],
    ).rows
    return [Bin(float(row[0]), step, row[1], row[2], row[3], *_quantiles(row[4], 3)) for row in rows]


def fill_gaps(bins: Sequence[Bin], step: int, first_at: float, last_at: float) -> list[Bin]:
    """Return bins with empty ones where nothing happened, each with the seconds that it covers."""
    known = {int(one.at): one for one in bins}
    if not known:
        return []
    filled = []
    for start in range(min(known), max(known) + 1, step):
        one = known.get(start, Bin(float(start), step, 0, 0, 0, 0.0, 0.0, 0.0))
        covered = min(start + step, last_at) - max(start, first_at)
        filled.append(replace(one, seconds=max(covered, min(1.0, step))))
    return filled


def _phases(database: LogDatabase) -> list[Phase]:
    columns = ", ".join(
        f"quantile_disc({name}_ms, [0.5, 0.95]) FILTER ({name}_ms > 0), count(*) FILTER ({name}_ms > 0)"
        for name in PHASES
    )
    [row] = database.query(f"SELECT {columns} FROM log WHERE sent = 1").rows  # noqa: S608
    phases = []
    for number, name in enumerate(PHASES):
        p50, p95 = _quantiles(row[2 * number], 2)
        phases.append(Phase(name, p50, p95, row[2 * number + 1]))
    return phases


def _shares(database: LogDatabase, name: str, condition: str) -> list[Share]:
    rows = database.query(
        f"SELECT {name} AS name, count(*) AS n FROM log WHERE {condition}"  # noqa: S608
        f" GROUP BY name ORDER BY n DESC, name LIMIT {MAX_ROWS}"
    ).rows
    return [Share(str(row[0]), int(row[1])) for row in rows]


def _groups(database: LogDatabase, name: str, condition: str, order: str) -> list[Group]:
    rows = database.query(
        f"""
        WITH grouped AS (
            SELECT {name} AS name, count(*) FILTER (sent = 1) AS requests,
                count(*) FILTER (stage = 'fetch' AND segment <> '') AS pages,
                count(*) FILTER ({FAILED}) AS failures, sum(wire_bytes)::BIGINT AS wire_bytes,
                quantile_disc(total_ms - queue_ms, [0.5, 0.95]) FILTER (sent = 1) AS latency
            FROM log GROUP BY name
        )
        SELECT name, requests, pages, failures, wire_bytes, latency, latency[2] AS p95_ms
        FROM grouped WHERE {condition} ORDER BY {order}, name LIMIT {MAX_ROWS}
        """  # noqa: S608
    ).rows
    return [Group(str(row[0]), *row[1:5], *_quantiles(row[5], 2)) for row in rows]


def _quantiles(values: Sequence[float] | None, count: int) -> tuple[float, ...]:
    return tuple(round(float(value or 0.0), 1) for value in values) if values else (0.0,) * count
