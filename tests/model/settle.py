"""Outcomes: what becomes of a request, and of a page."""

from typing import assert_never

from tests.model.state import Crawl, Entry, State

from shoal.frontier.rules import answered
from shoal.model.failure import Failure
from shoal.model.outcome import Dead, Done, Fetched, Filtered, Gone, Released, Retry, Settlement


def settle(state: State, crawl: Crawl, entry: Entry, settlement: Settlement) -> None:
    """Apply an outcome to what was held."""
    now = state.clock.now()
    lease, host = settlement.lease, state.hosts[entry.link.host]
    state.let_go(entry)
    if not settlement.sent:
        host.give_back(lease.token, lease.interval)
    elif answered(settlement) and host.hear(settlement.blocked):
        host.repace()
    if not isinstance(settlement.outcome, Released):
        entry.first_at = entry.granted_at if entry.first_at is None else entry.first_at
    match settlement.outcome:
        case Done(page=page):
            entry.page = page
            state.move(crawl, entry, "done")
        case Fetched(page=page):
            entry.page, entry.taken, entry.strikes = page, True, 0
            entry.attempts += 1
            state.move(crawl, entry, "parsing")
        case Gone():
            state.move(crawl, entry, "gone")
        case Filtered(rule=rule):
            state.move(crawl, entry, "filtered", Failure(rule, settlement.outcome.reason))
        case Dead(failure=failure, page=page):
            host.failures += 1
            entry.attempts += 1
            entry.page = page
            state.die(crawl, entry, failure, now)
        case Retry() as retry:
            host.failures += 1
            crawl.counts.retries += 1
            entry.attempts += retry.charged
            entry.rests += not retry.charged
            if retry.rest > 0:
                host.rest(now + retry.rest)
            state.put_back(crawl, entry, retry.delay, now)
        case Released(delay=delay):
            state.put_back(crawl, entry, delay, now)
        case _:
            assert_never(settlement.outcome)


def acknowledge(state: State, crawl: Crawl, entry: Entry, outcome: Done | Dead) -> None:
    """End a page that was being parsed."""
    entry.taken = False
    match outcome:
        case Done(page=page):
            entry.page = page
            state.move(crawl, entry, "done")
        case Dead(failure=failure, page=page):
            entry.page = entry.page if page is None else page
            state.die(crawl, entry, failure, state.clock.now())
        case _:
            assert_never(outcome)
