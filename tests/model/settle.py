"""Settling leases and acknowledging pages in the model.

The same state changes are implemented for SQLite in `frontier/sqlite/settle.py`, and for Redis in
`frontier/redis/lua/settle.lua` and `acknowledge.lua` with the outcomes packed by
`frontier/redis/packing.py`. The table that they follow is in `frontier/__init__.py`.
"""

from typing import assert_never

import msgspec
from tests.model.state import Crawl, Entry, State

from shoal.frontier.rules import host_signal
from shoal.model.adaptive_delay import Signal
from shoal.model.failure import Failure
from shoal.model.outcome import Dead, Done, Fetched, Filtered, Gone, Released, Retry, Settlement
from shoal.model.request import Request, pack


def settle(state: State, crawl: Crawl, entry: Entry, settlement: Settlement) -> None:
    """Apply an outcome to the request of a lease."""
    now = state.clock.now()
    lease, host = settlement.lease, state.hosts[entry.link.host]
    state.end_lease(entry)
    if not settlement.sent:
        host.return_turn(lease.token, lease.interval)
    signal = host_signal(settlement)
    alone = signal is not None and host.blames_request(
        signal, charged=entry.attempts - entry.crashes, rests=entry.rests
    )
    if alone or (signal is not None and host.record_response(signal)):
        host.update_pace()
    if not isinstance(settlement.outcome, Released):
        entry.first_at = entry.granted_at if entry.first_at is None else entry.first_at
    entry.ended_at, entry.elapsed, entry.status = now, settlement.elapsed, 0
    match settlement.outcome:
        case Done(page=page):
            entry.page, entry.status, entry.elapsed = page, page.status, page.elapsed
            state.move(crawl, entry, "done")
        case Fetched(page=page):
            entry.page, entry.taken, entry.strikes = page, True, 0
            entry.attempts += 1
            state.move(crawl, entry, "parsing")
        case Gone(status=status):
            entry.status = status
            state.move(crawl, entry, "gone")
        case Filtered(rule=rule):
            state.move(crawl, entry, "filtered", Failure(rule, settlement.outcome.reason))
        case Dead(failure=failure, page=page):
            host.failures += 1
            entry.attempts += 1
            entry.page = page
            entry.log_attempt(failure, now, settlement.elapsed)
            state.die(crawl, entry, failure, now)
        case Retry() as retry:
            host.failures += 1
            crawl.counts.retries += 1
            entry.log_attempt(retry.failure, now, settlement.elapsed)
            is_charged = retry.charged or alone
            entry.attempts += is_charged
            entry.rests += not is_charged
            if retry.rest > 0 and not alone:
                host.rest(now + retry.rest)
            replace(entry, retry.instead)
            delay = retry.delay
            if signal is Signal.RATE_LIMITED and not alone:
                delay = host.retry_delay(delay, retry.rest)
            state.put_back(crawl, entry, delay, now)
        case Released(delay=delay, instead=instead):
            replace(entry, instead)
            state.put_back(crawl, entry, delay, now)
        case _:
            assert_never(settlement.outcome)


def replace(entry: Entry, instead: Request | None) -> None:
    """Replace the content of a request that waits again, and its pool."""
    if instead is not None:
        entry.link = msgspec.structs.replace(entry.link, pool=instead.pool, packed=pack(instead))


def acknowledge(state: State, crawl: Crawl, entry: Entry, outcome: Done | Dead) -> None:
    """End the parsing of a page."""
    now = state.clock.now()
    entry.taken = False
    entry.ended_at = now
    match outcome:
        case Done(page=page):
            entry.page, entry.status, entry.elapsed = page, page.status, page.elapsed
            state.move(crawl, entry, "done")
        case Dead(failure=failure, page=page):
            entry.page = entry.page if page is None else page
            entry.log_attempt(failure, now, 0.0)
            state.die(crawl, entry, failure, now)
        case _:
            assert_never(outcome)
