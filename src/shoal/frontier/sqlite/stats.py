"""What a crawl has been like so far, and what is left of it, host by host."""

import sqlite3
from collections import Counter

import msgspec

from shoal.frontier.results import HostQueue, Measured
from shoal.frontier.rules import HostRecord, applied_pace
from shoal.frontier.sqlite.deferred_deletes import spent_ids
from shoal.frontier.sqlite.load import decode_terms, id_range

LATEST = 10_000  # pages that are looked back on


def measured(database: sqlite3.Connection, crawl_id: int) -> Measured:
    """Measure a crawl, inside a transaction of the caller's."""
    pages, latency, wire_bytes, span = database.execute(
        "SELECT count(*), coalesce(avg(elapsed), 0.0), coalesce(avg(wire_bytes), 0.0),"
        " coalesce(max(ended_at) - min(ended_at), 0.0) FROM"
        " (SELECT elapsed, wire_bytes, ended_at FROM ended WHERE crawl = ? AND state = 'done'"
        " ORDER BY number DESC LIMIT ?)",
        (crawl_id, LATEST),
    ).fetchone()
    return Measured(pages, latency, wire_bytes, span, _queues(database, crawl_id))


def _queues(database: sqlite3.Connection, crawl_id: int) -> list[HostQueue]:
    [settings] = database.execute("SELECT settings FROM crawl WHERE id = ?", (crawl_id,)).fetchone()
    terms = decode_terms(settings)
    ended = Counter(
        lane
        for [lane] in database.execute(
            "SELECT lane FROM request WHERE id IN (SELECT value FROM json_each(?))",
            (msgspec.json.encode(sorted(spent_ids(database))).decode(),),
        )
    )
    lanes = dict(
        database.execute(
            "SELECT lane, count(*) FROM request WHERE id BETWEEN ? AND ? GROUP BY lane", id_range(crawl_id)
        ).fetchall()
    )
    queues: dict[str, HostQueue] = {}
    for lane, name, *columns in database.execute(
        "SELECT lane.id, name, interval, burst, concurrency, crawl_delay, rest_until, slow, paused"
        " FROM lane JOIN host ON host.id = lane.host WHERE crawl = ? ORDER BY lane.id",
        (crawl_id,),
    ):
        record = HostRecord(*columns)
        pace = applied_pace(record, [terms.pace_at(name)], terms.slowdown)
        before = queues[name].queued if name in queues else 0
        queued = before + lanes.get(lane, 0) - ended[lane]
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
