"""Starting: charging crashes for what an earlier owner held, and rebuilding the state in RAM."""

import logging
import sqlite3
from array import array
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from heapq import heapify
from typing import NamedTuple

import msgspec

from shoal.frontier.results import Counts
from shoal.frontier.rules import DIED_PARSING, LOWEST_BAND, OVERRAN, band, poisoned, struck_out
from shoal.frontier.sqlite import quarantine
from shoal.frontier.sqlite.admit import load_accepted_by_host
from shoal.frontier.sqlite.changes import ATTEMPT, sweep
from shoal.frontier.sqlite.packing import unpack_ints
from shoal.frontier.sqlite.seen import SeenSet
from shoal.frontier.sqlite.state import ORDINAL_BITS, CrawlState, CrawlTerms, FrontierState, ParsingPage
from shoal.model.failure import Failure, FailureClass
from shoal.sqlite_database import transaction

log = logging.getLogger(__name__)

_PRIORITY_CLASSES = LOWEST_BAND + 1

decode_counts = msgspec.json.Decoder(Counts).decode
decode_terms = msgspec.json.Decoder(CrawlTerms).decode


def recover(database: sqlite3.Connection, now: float) -> int:
    """Increment the store's start counter and return it; charge a crash to all that the last owner held.

    One transaction, so that a crash is charged once even if this process dies in the middle of it.
    """
    with transaction(database):
        quarantine.create(database)
        [life] = database.execute(
            "INSERT INTO meta VALUES ('life', 1)"
            " ON CONFLICT(key) DO UPDATE SET value = value + 1 RETURNING value"
        ).fetchone()
        crawls = _readable_crawls(database, now)
        sweep(database)
        _reclaim_leases(database, crawls, now)
        charge_strikes(database, crawls, now)
        database.executemany(
            "UPDATE crawl SET counts = ? WHERE id = ?",
            [(msgspec.json.encode(counts).decode(), id) for id, (_, counts) in crawls.items()],
        )
    return int(life)


def _readable_crawls(database: sqlite3.Connection, now: float) -> dict[int, tuple[int, Counts]]:
    """Return max_crashes and counts by crawl. A crawl without readable ones is refused when it is opened."""
    crawls: dict[int, tuple[int, Counts]] = {}
    for id, terms, counts in database.execute("SELECT id, settings, counts FROM crawl").fetchall():
        with suppress(msgspec.DecodeError, TypeError):
            crawls[id] = (decode_terms(terms).max_crashes, decode_counts(counts))
    return crawls


def _reclaim_leases(database: sqlite3.Connection, crawls: dict[int, tuple[int, Counts]], now: float) -> None:
    for token, holder, granted_at, ids in database.execute(
        "SELECT token, holder, granted_at, ids FROM lease ORDER BY token"
    ).fetchall():
        try:
            held, granted_at = sorted(unpack_ints(ids)), float(granted_at)
        except (TypeError, ValueError) as error:
            # Its requests are still in their table: they wait again, uncharged.
            damaged = quarantine.DamagedRow(quarantine.NO_CRAWL, "lease", token, ids)
            quarantine.add(database, damaged, error, now)
            continue
        for id in held:
            if id >> ORDINAL_BITS not in crawls:
                continue
            max_crashes, counts = crawls[id >> ORDINAL_BITS]
            counts.leased -= 1
            found = database.execute(
                "UPDATE request SET attempts = attempts + 1, crashes = crashes + 1, due = NULL,"
                " first_at = coalesce(first_at, ?) WHERE id = ? RETURNING crashes, fp",
                (granted_at, id),
            ).fetchone()
            if found is None:  # the database was changed from outside
                log.error("store.damaged", extra={"why": f"leased request {id} is lost; see shoal verify"})
                counts.lost += 1
                continue
            [crashes, fp] = found
            _log(database, id, fp, OVERRAN, now, elapsed=max(now - granted_at, 0.0))
            counts.crashes += 1
            if crashes < max_crashes:
                counts.waiting += 1
                continue
            failure = poisoned(crashes)
            counts.die(failure.failure_class)
            database.execute(
                "INSERT INTO dead SELECT id, lane, fp, priority, ?, ?, 0, attempts + rests, crashes,"
                " first_at, ?, ?, request, NULL FROM request WHERE id = ?",
                (failure.failure_class.value, failure.reason, now, holder, id),
            )
            database.execute("DELETE FROM request WHERE id = ?", (id,))
    database.execute("DELETE FROM lease")
    for _, counts in crawls.values():
        counts.waiting, counts.leased = counts.waiting + counts.leased, 0


def charge_strikes(
    database: sqlite3.Connection,
    crawls: Mapping[int, tuple[int, Counts]],
    now: float,
    *,
    ids: tuple[int, int] = (0, (1 << 63) - 1),
) -> None:
    """Charge a strike to the pages that were being parsed; `ids` are the first and the last of them."""
    for id, fp, strikes in database.execute(
        "UPDATE parsing SET strikes = strikes + 1, taken = 0 WHERE taken AND id BETWEEN ? AND ?"
        " RETURNING id, fp, strikes",
        ids,
    ).fetchall():
        if id >> ORDINAL_BITS not in crawls:
            continue
        max_crashes, counts = crawls[id >> ORDINAL_BITS]
        _log(database, id, fp, DIED_PARSING, now, elapsed=0.0)
        counts.crashes += 1
        if strikes < max_crashes:
            continue
        failure = struck_out(strikes)
        counts.parsing -= 1
        counts.die(failure.failure_class)
        database.execute(
            "INSERT INTO dead SELECT id, lane, fp, priority, ?, ?, 0, attempts, crashes, first_at, ?, holder,"
            " request, page FROM parsing WHERE id = ?",
            (failure.failure_class.value, failure.reason, now, id),
        )
        database.execute("DELETE FROM parsing WHERE id = ?", (id,))


def _log(
    database: sqlite3.Connection, id: int, fp: int, failure: Failure, now: float, *, elapsed: float
) -> None:
    database.execute(
        ATTEMPT,
        (id >> ORDINAL_BITS, fp, now, elapsed, failure.status, failure.failure_class.value, failure.reason),
    )


def load(state: FrontierState, crawl: CrawlState, now: float) -> None:
    """Rebuild a crawl's state in RAM, in one pass over each of its tables."""
    database = state.database
    crawl.accepted_by_host = load_accepted_by_host(database, crawl.id)
    crawl.seen = SeenSet.of(seen_log(database, crawl.id), crawl.counts.accepted)
    for id, pool, host_id, name, *record in database.execute(
        "SELECT lane.id, pool, host.id, name,"
        " interval, burst, concurrency, crawl_delay, rest_until, slow, paused"
        " FROM lane JOIN host ON host.id = lane.host WHERE crawl = ? ORDER BY lane.id",
        (crawl.id,),
    ):
        host = state.hosts.get(name) or state.load_host(host_id, name, record)
        state.add_lane(id, crawl, host, pool)
    _load_requests(state, crawl, now)
    for fp, id, strikes in database.execute(
        "SELECT fp, id, strikes FROM parsing WHERE id BETWEEN ? AND ? ORDER BY id", id_range(crawl.id)
    ):
        crawl.parsing[fp] = ParsingPage(id, strikes, taken=False)
    crawl.earlier = [
        number
        for [number] in database.execute(
            "SELECT number FROM generation WHERE crawl = ? ORDER BY number", (crawl.id,)
        )
    ]
    for lane in crawl.lanes.values():
        for queue in (lane, lane.suspects):
            if queue is not None and queue.size:
                state.scheduler.stamp(queue, now)
                state.scheduler.place(queue, now)


class _Rows(NamedTuple):
    """The requests of a crawl, as read."""

    fresh: Mapping[int, "array[int]"]  # never leased: ids by lane * _PRIORITY_CLASSES + class
    returned: Sequence[tuple[int, int, int, int, int, float | None]]  # id, lane, priority, attempts, ...


def _read_requests(database: sqlite3.Connection, crawl_id: int, lanes: Container[int]) -> _Rows:
    """Read all rows; raise if one of them cannot be read."""
    ids = id_range(crawl_id)
    # Most requests have never been leased. Lane and class as one number and one append per row: two million
    # rows take one second.
    queues: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))
    for id, queue in database.execute(
        f"SELECT id, lane * {_PRIORITY_CLASSES} + max(0, min(priority, {LOWEST_BAND})) FROM request"  # noqa: S608
        " WHERE id BETWEEN ? AND ? AND attempts = 0 AND due IS NULL ORDER BY id",
        ids,
    ):
        queues[queue].append(id)
    returned = database.execute(
        "SELECT id, lane, priority, attempts, crashes, due FROM request"
        " WHERE id BETWEEN ? AND ? AND NOT (attempts = 0 AND due IS NULL) ORDER BY id",
        ids,
    ).fetchall()
    for _, lane, priority, attempts, crashes, due in returned:
        if type(attempts) is not int or type(crashes) is not int or isinstance(due, str | bytes):
            raise ValueError(f"lane {lane}: attempts, crashes or due are not numbers")
        band(priority, attempts)
    for lane in {queue // _PRIORITY_CLASSES for queue in queues} | {row[1] for row in returned}:
        if type(lane) is not int or lane not in lanes:
            raise ValueError(f"there is no lane {lane!r}")
    return _Rows(queues, returned)


_UNREADABLE = """
    SELECT id, fp, request FROM request WHERE id BETWEEN ? AND ? AND (
      typeof(lane) <> 'integer' OR typeof(fp) <> 'integer' OR typeof(priority) <> 'integer'
      OR typeof(attempts) <> 'integer' OR typeof(crashes) <> 'integer' OR typeof(rests) <> 'integer'
      OR typeof(due) NOT IN ('null', 'real', 'integer') OR typeof(first_at) NOT IN ('null', 'real', 'integer')
      OR typeof(request) <> 'blob' OR lane NOT IN (SELECT id FROM lane WHERE crawl = ?))"""


def _quarantine_requests(
    database: sqlite3.Connection, crawl: CrawlState, now: float, reason: Exception
) -> None:
    """Move requests whose rows cannot be read to the quarantine, inside the caller's transaction."""
    for id, fp, request in database.execute(_UNREADABLE, (*id_range(crawl.id), crawl.id)).fetchall():
        quarantine.add(database, quarantine.DamagedRow(crawl.id, "request", id, request), reason, now)
        database.execute("DELETE FROM request WHERE id = ?", (id,))
        if isinstance(fp, int):
            database.execute(
                "INSERT INTO ended(crawl, fp, state, ended_at, status, rule) VALUES (?, ?, 'dead', ?, 0, ?)",
                (crawl.id, fp, now, FailureClass.UNREADABLE.value),
            )
            crawl.counts.die(FailureClass.UNREADABLE)
        crawl.counts.waiting -= 1  # or delayed: only their sum is used
    database.execute(
        "UPDATE crawl SET counts = ? WHERE id = ?",
        (msgspec.json.encode(crawl.counts).decode(), crawl.id),
    )


def _load_requests(state: FrontierState, crawl: CrawlState, now: float) -> None:
    lanes = {lane.id: lane for lane in crawl.lanes.values()}
    try:
        rows = _read_requests(state.database, crawl.id, lanes)
    except (TypeError, ValueError, OverflowError) as error:
        _quarantine_requests(state.database, crawl, now, error)
        rows = _read_requests(state.database, crawl.id, lanes)
    for queue, waiting in rows.fresh.items():
        lane_id, number = divmod(queue, _PRIORITY_CLASSES)
        lanes[lane_id].fill(number, waiting)
    for id, lane_id, priority, attempts, crashes, due in rows.returned:
        lane = state.suspect_lane(lanes[lane_id]) if crashes else lanes[lane_id]
        if due is not None and due > now:
            crawl.delayed.append((due, id, band(priority, attempts), lane))
        else:
            lane.push(band(priority, attempts), id)
    heapify(crawl.delayed)
    # A delay ends without a write, so the stored split between waiting and delayed is out of date.
    waiting_or_delayed = crawl.counts.waiting + crawl.counts.delayed
    crawl.counts.delayed = len(crawl.delayed)
    crawl.counts.waiting = waiting_or_delayed - crawl.counts.delayed


def seen_log(database: sqlite3.Connection, crawl_id: int) -> Iterator["array[int]"]:
    for [fps] in database.execute("SELECT fps FROM seen WHERE crawl = ?", (crawl_id,)):
        # A damaged row still has whole numbers in it: what is lost may be fetched once more.
        yield unpack_ints(fps[: len(fps) // 8 * 8] if isinstance(fps, bytes) else b"")


def id_range(crawl_id: int) -> tuple[int, int]:
    """Return the first and the last id that a request of a crawl can have."""
    return crawl_id << ORDINAL_BITS, ((crawl_id + 1) << ORDINAL_BITS) - 1
