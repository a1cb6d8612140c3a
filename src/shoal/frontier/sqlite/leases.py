"""Leases: granting them, reclaiming those that expire, and what else happens with time.

The scheduler chooses the requests; the database has their content.
"""

import math
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import msgspec

from shoal.frontier.rules import OVERRAN, poisoned
from shoal.frontier.sqlite import quarantine
from shoal.frontier.sqlite.changes import Changes
from shoal.frontier.sqlite.lane import Lane
from shoal.frontier.sqlite.settle import die, end_lease, first_leased, log_attempt, put_back
from shoal.frontier.sqlite.state import Batch, CrawlState, FrontierState, HeldLease, RequestRow
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.failure import FailureClass
from shoal.model.outcome import Grant, Lease
from shoal.model.request import unpack

ASKS_WITHIN_S = 1.0  # a process that waits asks again by then, if it wants more at all
DEFERRED_S = 0.01  # after which a process asks again that has let another one go first
_READ_ROWS = 32  # per statement; always the same number, so that the statement stays prepared
_ROWS = (
    "SELECT id, fp, priority, attempts, crashes, rests, first_at, request FROM request"  # noqa: S608
    f" WHERE id IN ({', '.join('?' * _READ_ROWS)})"
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
    """Lease up to `limit` requests whose host is due."""
    rosters = [crawl.rosters[pool] for crawl in crawls for pool in pools if pool in crawl.rosters]
    suspects = [crawl.suspects[pool] for crawl in crawls for pool in pools if pool in crawl.suspects]
    if holder in state.with_suspect:
        suspects = []
    token = state.token + 1
    taken = state.scheduler.take(rosters, suspects, crawls=crawls, limit=limit, now=now, token=token)
    leases: list[Lease] = []
    if taken:
        state.token = token
        batch = Batch(token, holder, now, now + ttl)
        rows = _read(state, [id for _, id in taken])
        held = [_hold(state, batch, lane, rows[id]) for lane, id in taken]
        leases = [lease for one in held if (lease := _lease(state, one, changes, now)) is not None]
        heappush(state.deadlines, (batch.until, token, batch))
        changes.batches.add(batch)
        changes.crawls.update(lane.crawl for lane, _ in taken)
        if holder in state.with_suspect:
            suspects = []
    if len(leases) == limit:
        _note_next(crawls, -math.inf)
        return Grant(leases, 0.0)
    wait = min(
        DEFERRED_S if state.scheduler.deferred else math.inf,
        state.scheduler.wait((*rosters, *suspects), now),
        min((crawl.delayed[0][0] for crawl in crawls if crawl.delayed), default=math.inf) - now,
        state.next_deadline() - now,
    )
    _note_next(crawls, now + min(max(wait, 0.0), ASKS_WITHIN_S))
    return Grant(leases, max(wait, 0.0))


def _note_next(crawls: Sequence[CrawlState], asks_at: float) -> None:
    """Record when the process of these crawls asks again: until then, others leave it its turns."""
    for crawl in crawls:
        crawl.asks_at = asks_at


def _read(state: FrontierState, ids: Sequence[int]) -> dict[int, RequestRow]:
    rows: dict[int, RequestRow] = {}
    for begin in range(0, len(ids), _READ_ROWS):
        chunk = ids[begin : begin + _READ_ROWS]
        padded = (*chunk, *(0,) * (_READ_ROWS - len(chunk)))
        for values in state.database.execute(_ROWS, padded):
            rows[values[0]] = RequestRow._make(values)
    if len(rows) < len(ids):
        raise Misconfigured(f"the store is damaged: {len(ids) - len(rows)} queued requests have no row")
    return rows


def _hold(state: FrontierState, batch: Batch, lane: Lane, row: RequestRow) -> HeldLease:
    crawl = lane.crawl
    held = HeldLease(row, lane, batch, batch.until, lane.host.interval)
    batch.held[row.id] = held
    crawl.out[row.fp] = held
    crawl.counts.waiting -= 1
    crawl.counts.leased += 1
    if lane.suspect:
        state.with_suspect.add(batch.holder)
    return held


def _lease(state: FrontierState, held: HeldLease, changes: Changes, now: float) -> Lease | None:
    """Return what the caller gets; None: the request cannot be read and was given up."""
    row, batch, crawl, host = held.row, held.batch, held.lane.crawl, held.lane.host
    try:
        request = unpack(row.request)
    except (Rejected, msgspec.DecodeError, TypeError, ValueError) as error:
        _give_up_unreadable(state, held, changes, now, error)
        return None
    return Lease(
        crawl.name,
        row.fp,
        batch.token,
        host.name,
        request,
        row.attempts + 1,
        row.crashes,
        row.rests,
        batch.until,
        host.interval,
        host.burst,
    )


def _give_up_unreadable(
    state: FrontierState, held: HeldLease, changes: Changes, now: float, error: Exception
) -> None:
    """Move a request to the quarantine: dead, and without a dead letter, which could not be read either."""
    row, crawl, host = held.row, held.lane.crawl, held.lane.host
    was_open = host.open
    end_lease(state, held, changes)
    host.return_turn(held.batch.token, held.interval)
    crawl.counts.die(FailureClass.UNREADABLE)
    changes.removed.append(row.id)
    kind, why = FailureClass.UNREADABLE.value, quarantine.describe(error)
    changes.ended.append((crawl.id, row.fp, "dead", now, 0, kind, why, 0.0, None, None, None))
    damaged = quarantine.DamagedRow(crawl.id, "request", row.id, row.request)
    changes.quarantined.append(quarantine.row(damaged, error, now))
    if host.open and not was_open:
        state.scheduler.place_all(host, now)


def reclaim(state: FrontierState, changes: Changes, now: float) -> int:
    """Take back every lease whose deadline has passed; return how many."""
    expired: list[HeldLease] = []
    while state.deadlines and state.deadlines[0][0] <= now:
        _, token, batch = heappop(state.deadlines)
        expired += [held for held in batch.held.values() if held.until <= now]
        if later := [held.until for held in batch.held.values() if held.until > now]:
            batch.until = min(later)
            heappush(state.deadlines, (batch.until, token, batch))
    for held in sorted(expired, key=lambda held: (held.batch.token, held.lane.crawl.name, held.row.id)):
        _crash(state, held, changes, now)
    return len(expired)


def reclaim_all(state: FrontierState, crawl: CrawlState, changes: Changes, now: float) -> None:
    """Take back every lease of a crawl: the process that held them has ended."""
    for held in sorted(crawl.out.values(), key=lambda held: (held.batch.token, held.row.id)):
        _crash(state, held, changes, now)


def _crash(state: FrontierState, held: HeldLease, changes: Changes, now: float) -> None:
    """Charge a crash to a request whose holder died or let the lease expire."""
    row, lane, crawl = held.row, held.lane, held.lane.crawl
    was_open = lane.host.open
    end_lease(state, held, changes)
    crawl.counts.crashes += 1
    crashes = row.crashes + 1
    log_attempt(crawl, row.fp, OVERRAN, changes, now, elapsed=now - held.batch.granted_at)
    if crashes >= crawl.terms.max_crashes:
        die(held, poisoned(crashes), changes, now, crashes=crashes)
    else:
        charged = row._replace(attempts=row.attempts + 1, crashes=crashes, first_at=first_leased(held))
        put_back(state, lane if lane.suspect else state.suspect_lane(lane), charged, changes, now, delay=0.0)
    if not was_open and lane.host.open:
        state.scheduler.place_all(lane.host, now)


def promote(state: FrontierState, now: float) -> None:
    """Move requests whose delay has ended to `waiting`. Their rows on disk stay as they are."""
    for crawl in state.crawls.values():
        while crawl.delayed and crawl.delayed[0][0] <= now:
            _, id, band, lane = heappop(crawl.delayed)
            crawl.counts.delayed -= 1
            crawl.counts.waiting += 1
            state.scheduler.push(lane, band, id, now)


def set_back(state: FrontierState, now: float, by: float) -> None:
    """Adjust to a clock that was set back by `by` seconds: no host and no lease waits that much longer."""
    state.opened_at = min(state.opened_at, now)
    for host in state.hosts.values():
        host.set_back(now)
        state.scheduler.place_all(host, now)
    for _, _, batch in state.deadlines:
        batch.until -= by
        for held in batch.held.values():
            held.until -= by
    state.deadlines = [(batch.until, token, batch) for _, token, batch in state.deadlines if batch.held]
    heapify(state.deadlines)
