"""Time passing: leases that run out, delays that end, a clock that is set back."""

from heapq import heapify, heappop, heappush

from shoal.frontier.rules import OVERRAN, poisoned
from shoal.frontier.sqlite.changes import Changes
from shoal.frontier.sqlite.settle import die, first_leased, let_go, note_attempt, put_back
from shoal.frontier.sqlite.state import FrontierState, HeldLease


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


def _crash(state: FrontierState, held: HeldLease, changes: Changes, now: float) -> None:
    """Charge a request whose holder died or overran."""
    row, lane, crawl = held.row, held.lane, held.lane.crawl
    could = lane.host.open
    let_go(state, held, changes)
    crawl.counts.crashes += 1
    crashes = row.crashes + 1
    note_attempt(crawl, row.fp, OVERRAN, changes, now, elapsed=now - held.batch.granted_at)
    if crashes >= crawl.terms.max_crashes:
        die(held, poisoned(crashes), changes, now, crashes=crashes)
    else:
        again = row._replace(attempts=row.attempts + 1, crashes=crashes, first_at=first_leased(held))
        put_back(state, lane if lane.suspect else state.beside(lane), again, changes, now, delay=0.0)
    if not could and lane.host.open:
        state.scheduler.place_all(lane.host, now)


def promote(state: FrontierState, now: float) -> None:
    """Let wait what was delayed until now. The rows on disk say since when already."""
    for crawl in state.crawls.values():
        while crawl.delayed and crawl.delayed[0][0] <= now:
            _, id, band, lane = heappop(crawl.delayed)
            crawl.counts.delayed -= 1
            crawl.counts.waiting += 1
            state.scheduler.push(lane, band, id, now)


def set_back(state: FrontierState, now: float, by: float) -> None:
    """Keep a clock that was set back from holding anything up: nothing is owed for longer than it can be."""
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
