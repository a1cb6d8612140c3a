"""Settling leases and acknowledging pages.

The same state changes are implemented for Redis in `frontier/redis/lua/settle.lua` and `acknowledge.lua`,
with the outcomes packed by `frontier/redis/packing.py`, and in the model, `tests/model/settle.py`. The table
that they follow is in `frontier/__init__.py`.
"""

from heapq import heappush
from typing import assert_never

from shoal.frontier.rules import band, host_signal
from shoal.frontier.sqlite import quarantine
from shoal.frontier.sqlite.changes import Changes
from shoal.frontier.sqlite.lane import Lane
from shoal.frontier.sqlite.packing import pack_page
from shoal.frontier.sqlite.state import CrawlState, FrontierState, HeldLease, ParsingPage, RequestRow
from shoal.model.adaptive_delay import Signal
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import (
    Acknowledgement,
    Dead,
    Done,
    Fetched,
    Filtered,
    Gone,
    Lease,
    Released,
    Retry,
    Settlement,
)
from shoal.model.page import PageRecord
from shoal.model.request import Request, pack


def find_held(state: FrontierState, lease: Lease) -> HeldLease | None:
    """Return the state of a lease, or None if it was settled or reclaimed."""
    crawl = state.crawls.get(lease.crawl)
    found = crawl.out.get(lease.fingerprint) if crawl is not None else None
    return found if found is not None and found.batch.token == lease.token else None


def settle(
    state: FrontierState, settlement: Settlement, held: HeldLease, changes: Changes, now: float
) -> None:
    """Apply an outcome to the request of a lease. The caller adds the links."""
    host = held.lane.host
    was_open, ready = host.open, host.ready
    end_lease(state, held, changes)
    if not settlement.sent:
        host.return_turn(held.batch.token, held.interval)
    signal, row = host_signal(settlement), held.row
    alone = signal is not None and host.blames_request(
        signal, charged=row.attempts - row.crashes, rests=row.rests
    )
    if alone or (signal is not None and host.record_response(signal)):
        host.update_pace()
        changes.hosts.add(host)
    _apply(state, settlement, held, changes, now, alone=alone, limited=signal is Signal.RATE_LIMITED)
    if settlement.lease.request.headers or settlement.lease.request.body:
        changes.erase_removed(held.row.id)
    if host.open and (not was_open or host.ready < ready):
        state.scheduler.place_all(host, now)


def _apply(
    state: FrontierState,
    settlement: Settlement,
    held: HeldLease,
    changes: Changes,
    now: float,
    *,
    alone: bool,
    limited: bool,
) -> None:
    row, crawl, host = held.row, held.lane.crawl, held.lane.host
    counts = crawl.counts
    match settlement.outcome:
        case Done(page=page):
            counts.done += 1
            changes.removed.append(row.id)
            changes.pages.append(_page_row(crawl, row.fp, page, now))
        case Fetched(page=page):
            counts.parsing += 1
            changes.removed.append(row.id)
            changes.fetched.append(_parsing_row(held, page))
            crawl.parsing[row.fp] = ParsingPage(row.id, 0, taken=True)
        case Gone(status=status):
            counts.gone += 1
            changes.removed.append(row.id)
            changes.ended.append(_ended_row(settlement, row.fp, crawl.id, "gone", now, status, None, None))
        case Filtered(rule=rule, reason=reason):
            counts.filter(rule)
            changes.removed.append(row.id)
            changes.ended.append(
                _ended_row(settlement, row.fp, crawl.id, "filtered", now, None, rule.value, reason)
            )
        case Dead(failure=failure, page=page):
            host.failures += 1
            log_attempt(crawl, row.fp, failure, changes, now, elapsed=settlement.elapsed)
            die(held, failure, changes, now, crashes=row.crashes, page=page)
        case Retry() as retry:
            host.failures += 1
            counts.retries += 1
            log_attempt(crawl, row.fp, retry.failure, changes, now, elapsed=settlement.elapsed)
            is_charged = retry.charged or alone
            if retry.rest > 0 and not alone:
                host.rest(now + retry.rest)
                changes.hosts.add(host)
            charged = row._replace(
                attempts=row.attempts + is_charged,
                rests=row.rests + (not is_charged),
                first_at=first_leased(held),
            )
            lane = _next_lane(state, held, retry.instead, changes)
            delay = retry.delay
            if limited and not alone:
                delay = host.retry_delay(delay, retry.rest)
            put_back(state, lane, charged, changes, now, delay=delay)
        case Released(delay=delay, instead=instead):
            lane = _next_lane(state, held, instead, changes)
            # These columns of the row change only if there is a delay.
            put_back(state, lane, row, changes if delay > 0 else None, now, delay=delay)
        case _:
            assert_never(settlement.outcome)


def log_attempt(
    crawl: CrawlState, fp: int, failure: Failure, changes: Changes, now: float, *, elapsed: float
) -> None:
    """Log an attempt that ended without a page."""
    changes.attempts.append(
        (crawl.id, fp, now, elapsed, failure.status, failure.failure_class.value, failure.reason)
    )


def end_lease(state: FrontierState, held: HeldLease, changes: Changes) -> None:
    """Remove a lease; the caller decides the next state of its request."""
    batch, lane = held.batch, held.lane
    del lane.crawl.out[held.row.fp]
    del batch.held[held.row.id]
    lane.crawl.counts.leased -= 1
    if not held.landed:
        lane.host.inflight -= 1
    if lane.suspect:
        state.with_suspect.remove(batch.holder)
    changes.batches.add(batch)
    changes.crawls.add(lane.crawl)


def _next_lane(state: FrontierState, held: HeldLease, instead: Request | None, changes: Changes) -> Lane:
    """Return the lane that a request waits in next; `instead` replaces it, maybe in another pool."""
    if instead is None:
        return held.lane
    lane = state.lane(held.lane.crawl, held.lane.host.name, instead.pool, changes)
    changes.replaced.append((lane.id, pack(instead), held.row.id))
    return state.suspect_lane(lane) if held.lane.suspect else lane


def put_back(
    state: FrontierState, lane: Lane, row: RequestRow, changes: Changes | None, now: float, *, delay: float
) -> None:
    """Queue a request again, now or after `delay` seconds."""
    crawl = lane.crawl
    due = now + delay if delay > 0 else None
    if changes is not None:
        changes.put_back.append((row.attempts, row.crashes, row.rests, due, row.first_at, row.id))
    priority_class = band(row.priority, row.attempts)
    if due is None:
        crawl.counts.waiting += 1
        state.scheduler.push(lane, priority_class, row.id, now)
    else:
        crawl.counts.delayed += 1
        heappush(crawl.delayed, (due, row.id, priority_class, lane))


def die(
    held: HeldLease,
    failure: Failure,
    changes: Changes,
    now: float,
    *,
    crashes: int,
    page: PageRecord | None = None,
) -> None:
    """Turn a request into a dead letter."""
    row, lane = held.row, held.lane
    lane.crawl.counts.die(failure.failure_class)
    changes.removed.append(row.id)
    changes.died.append(
        (
            row.id,
            lane.id,
            row.fp,
            row.priority,
            failure.failure_class.value,
            failure.text,
            failure.status,
            row.attempts + 1 + row.rests,
            crashes,
            first_leased(held),
            now,
            held.batch.holder,
            row.request,
            None if page is None else pack_page(page),
        )
    )


def acknowledge(crawl: CrawlState, acknowledgement: Acknowledgement, changes: Changes, now: float) -> bool:
    """End the parsing of a page; return False if it is not being parsed."""
    page = crawl.parsing.pop(acknowledgement.fingerprint, None)
    if page is None:
        return False
    crawl.counts.parsing -= 1
    changes.crawls.add(crawl)
    changes.parsed.append((page.id,))
    match acknowledgement.outcome:
        case Done(page=record):
            crawl.counts.done += 1
            changes.pages.append(_page_row(crawl, acknowledgement.fingerprint, record, now))
        case Dead(failure=failure, page=final):
            crawl.counts.die(failure.failure_class)
            log_attempt(crawl, acknowledgement.fingerprint, failure, changes, now, elapsed=0.0)
            blob = None if final is None else pack_page(final)
            changes.died_parsing.append(
                (failure.failure_class.value, failure.text, failure.status, now, blob, page.id)
            )
        case _:
            assert_never(acknowledgement.outcome)
    return True


def give_up_unreadable_page(
    crawl: CrawlState, fp: int, changes: Changes, now: float, *, error: Exception, body: bytes
) -> None:
    """Move a page that waits to be parsed to the quarantine: dead, without a dead letter."""
    page = crawl.parsing.pop(fp)
    crawl.counts.parsing -= 1
    crawl.counts.die(FailureClass.UNREADABLE)
    changes.crawls.add(crawl)
    changes.parsed.append((page.id,))
    unreadable = FailureClass.UNREADABLE.value
    damaged = quarantine.DamagedRow(crawl.id, "parsing", page.id, body)
    changes.ended.append(
        (crawl.id, fp, "dead", now, 0, unreadable, quarantine.describe(error), 0.0, None, None, None)
    )
    changes.quarantined.append(quarantine.row(damaged, error, now))


def first_leased(held: HeldLease) -> float:
    return held.batch.granted_at if held.row.first_at is None else held.row.first_at


def _ended_row(settlement: Settlement, fp: int, crawl: int, *facts: object) -> tuple[object, ...]:
    """Return the row of a request that ended without a page: state, instant, status, rule and reason."""
    request, outcome = settlement.lease.request, settlement.outcome
    held = isinstance(outcome, Filtered) and outcome.rule is FailureClass.HELD
    released = pack(request) if held else None
    return (crawl, fp, *facts, settlement.elapsed, request.found_on, request.url, released)


def _page_row(crawl: CrawlState, fp: int, page: PageRecord, now: float) -> tuple[object, ...]:
    ref = page.ref
    return (
        crawl.id,
        fp,
        now,
        page.status,
        ref.segment,
        ref.offset,
        ref.length,
        page.fetched_at,
        page.items,
        page.links,
        page.etag,
        page.modified,
        page.digest,
        page.elapsed,
        page.wire_bytes,
        page.version or None,
        page.history or None,
    )


def _parsing_row(held: HeldLease, page: PageRecord) -> tuple[object, ...]:
    row = held.row
    return (
        row.id,
        held.lane.id,
        row.fp,
        row.priority,
        row.attempts + 1 + row.rests,
        row.crashes,
        first_leased(held),
        held.batch.holder,
        row.request,
        pack_page(page),
    )
