"""Statistics of a crawl, its queue by host, and hosts as the database has them."""

import sqlite3
from collections import Counter

import msgspec

from shoal.frontier.results import CrawlStats, HostQueue, HostView
from shoal.frontier.rules import HostRecord, applied_pace
from shoal.frontier.sqlite.changes import spent_ids
from shoal.frontier.sqlite.history import read_leases
from shoal.frontier.sqlite.load import decode_terms, id_range
from shoal.model.adaptive_delay import SlowdownRules

STATS_PAGES = 10_000  # latest pages that the averages cover


def crawl_stats(database: sqlite3.Connection, crawl_id: int) -> CrawlStats:
    """Return averages and queues of a crawl, inside the caller's transaction."""
    pages, latency, wire_bytes, span = database.execute(
        "SELECT count(*), coalesce(avg(elapsed), 0.0), coalesce(avg(wire_bytes), 0.0),"
        " coalesce(max(ended_at) - min(ended_at), 0.0) FROM"
        " (SELECT elapsed, wire_bytes, ended_at FROM ended WHERE crawl = ? AND state = 'done'"
        " ORDER BY number DESC LIMIT ?)",
        (crawl_id, STATS_PAGES),
    ).fetchone()
    return CrawlStats(pages, latency, wire_bytes, span, _queues(database, crawl_id))


def waiting_by_pool(database: sqlite3.Connection, crawl_id: int) -> dict[str, int]:
    """Return the requests of a crawl that have not ended, by pool; those that are leased count as well."""
    lanes = _requests_by_lane(database, crawl_id)
    waiting: Counter[str] = Counter()
    for lane, pool in database.execute("SELECT id, pool FROM lane WHERE crawl = ?", (crawl_id,)):
        waiting[pool] += lanes[lane]
    return dict(+waiting)


def _requests_by_lane(database: sqlite3.Connection, crawl_id: int) -> Counter[int]:
    lanes = Counter(
        dict(
            database.execute(
                "SELECT lane, count(*) FROM request WHERE id BETWEEN ? AND ? GROUP BY lane",
                id_range(crawl_id),
            ).fetchall()
        )
    )
    lanes.subtract(
        lane
        for [lane] in database.execute(
            "SELECT lane FROM request WHERE id IN (SELECT value FROM json_each(?))",
            (msgspec.json.encode(sorted(spent_ids(database))).decode(),),
        )
    )
    return lanes


def _queues(database: sqlite3.Connection, crawl_id: int) -> list[HostQueue]:
    [settings] = database.execute("SELECT settings FROM crawl WHERE id = ?", (crawl_id,)).fetchone()
    terms = decode_terms(settings)
    lanes = _requests_by_lane(database, crawl_id)
    queues: dict[str, HostQueue] = {}
    for lane, name, *columns in database.execute(
        "SELECT lane.id, name, interval, burst, concurrency, crawl_delay, rest_until, slow, paused"
        " FROM lane JOIN host ON host.id = lane.host WHERE crawl = ? ORDER BY lane.id",
        (crawl_id,),
    ):
        record = HostRecord(*columns)
        pace = applied_pace(record, [terms.pace_at(name)], terms.slowdown)
        before = queues[name].queued if name in queues else 0
        queued = before + lanes[lane]
        queues[name] = HostQueue(
            name,
            queued,
            pace.interval,
            pace.concurrency,
            bool(record.paused),
            record.rest_until,
            record.crawl_delay,
            record.slow,
        )
    return list(queues.values())


def stored_host(database: sqlite3.Connection, name: str) -> HostView | None:
    """Return a host with the pace that its record and its crawls result in, or None if there is no record."""
    known = database.execute(
        "SELECT id, interval, burst, concurrency, crawl_delay, rest_until, slow, paused"
        " FROM host WHERE name = ?",
        (name,),
    ).fetchone()
    if known is None:
        return None
    id, *columns = known
    record = HostRecord(*columns)
    terms = [
        decode_terms(settings)
        for [settings] in database.execute(
            "SELECT DISTINCT crawl.settings FROM lane JOIN crawl ON crawl.id = lane.crawl"
            " WHERE lane.host = ? AND NOT dropped ORDER BY lane.id",
            (id,),
        )
    ]
    rules = terms[0].slowdown if terms else SlowdownRules()
    pace = applied_pace(record, [term.pace_at(name) for term in terms], rules)
    spent = spent_ids(database)
    leased = {id for _, _, ids in read_leases(database) for id in ids}
    queued = {
        id
        for [id] in database.execute(
            "SELECT request.id FROM request JOIN lane ON lane.id = request.lane WHERE lane.host = ?", (id,)
        )
        if id not in spent
    }
    return HostView(
        host=name,
        waiting=len(queued - leased),
        inflight=len(queued & leased),
        interval=pace.interval,
        burst=pace.burst,
        concurrency=pace.concurrency,
        next_turn=record.rest_until,
        crawl_delay=record.crawl_delay,
        rest_until=record.rest_until,
        slow=record.slow,
        paused=bool(record.paused),
        failures=0,
    )
