"""Leases out: the scheduler says which, the database says what they are."""

import math
from collections.abc import Sequence
from heapq import heappush

from shoal.frontier.sqlite.changes import Changes
from shoal.frontier.sqlite.lane import Lane
from shoal.frontier.sqlite.state import Batch, CrawlState, FrontierState, HeldLease, RequestRow
from shoal.model.errors import Misconfigured
from shoal.model.outcome import Grant, Lease
from shoal.model.request import unpack

_READ = 32  # rows read by one statement; always as many, so that it stays prepared
_ROWS = (
    "SELECT id, fp, priority, attempts, crashes, rests, first_at, request FROM request"  # noqa: S608
    f" WHERE id IN ({', '.join('?' * _READ)})"
)


def grant(
    state: FrontierState,
    crawls: Sequence[CrawlState],
    changes: Changes,
    now: float,
    *,
    holder: str,
    limit: int,
    ttl: float,
    pools: Sequence[str],
) -> Grant:
    """Lease up to `limit` requests that may go now."""
    rosters = [crawl.rosters[pool] for crawl in crawls for pool in pools if pool in crawl.rosters]
    suspects = [crawl.suspects[pool] for crawl in crawls for pool in pools if pool in crawl.suspects]
    if holder in state.with_suspect:
        suspects = []
    token = state.token + 1
    taken = state.scheduler.take(rosters, suspects, limit=limit, now=now, token=token)
    leases: list[Lease] = []
    if taken:
        state.token = token
        batch = Batch(token, holder, now, now + ttl)
        rows = _read(state, [id for _, id in taken])
        leases = [_hold(state, batch, lane, rows[id]) for lane, id in taken]
        heappush(state.deadlines, (batch.until, token, batch))
        changes.batches.add(batch)
        changes.crawls.update(lane.crawl for lane, _ in taken)
        if holder in state.with_suspect:
            suspects = []
    if len(leases) == limit:
        return Grant(leases, 0.0)
    wait = min(
        state.scheduler.wait((*rosters, *suspects), now),
        min((crawl.delayed[0][0] for crawl in crawls if crawl.delayed), default=math.inf) - now,
        state.next_deadline() - now,
    )
    return Grant(leases, max(wait, 0.0))


def _read(state: FrontierState, ids: Sequence[int]) -> dict[int, RequestRow]:
    rows: dict[int, RequestRow] = {}
    for begin in range(0, len(ids), _READ):
        chunk = ids[begin : begin + _READ]
        padded = (*chunk, *(0,) * (_READ - len(chunk)))
        for values in state.database.execute(_ROWS, padded):
            rows[values[0]] = RequestRow._make(values)
    if len(rows) < len(ids):
        raise Misconfigured(f"the store is damaged: {len(ids) - len(rows)} queued requests have no row")
    return rows


def _hold(state: FrontierState, batch: Batch, lane: Lane, row: RequestRow) -> Lease:
    crawl, host = lane.crawl, lane.host
    held = HeldLease(row, lane, batch, batch.until, host.interval)
    batch.held[row.id] = held
    crawl.out[row.fp] = held
    crawl.counts.waiting -= 1
    crawl.counts.leased += 1
    if lane.suspect:
        state.with_suspect.add(batch.holder)
    return Lease(
        crawl.name,
        row.fp,
        batch.token,
        host.name,
        unpack(row.request),
        row.attempts + 1,
        row.crashes,
        row.rests,
        batch.until,
        host.interval,
        host.burst,
    )
