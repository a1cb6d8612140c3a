"""Accepting links: what a crawl has not seen waits in its lane, within the budget of its host."""

import sqlite3
from collections.abc import Iterable

from shoal.frontier.rules import band
from shoal.frontier.sqlite.changes import Changes
from shoal.frontier.sqlite.state import ORDINAL_BITS, CrawlState, FrontierState
from shoal.model.failure import FailureClass
from shoal.model.request import Link

READMITTED = 1 << (ORDINAL_BITS - 1)  # where the ids of readmitted requests begin, within those of a crawl
_ACCEPTED_PREFIX = "brought/"  # of the keys among a crawl's values that hold the number of requests per host


def admit(
    state: FrontierState, crawl: CrawlState, links: Iterable[Link], changes: Changes, now: float
) -> tuple[int, int]:
    """Accept links; return how many were new and how many had been seen before."""
    if crawl.terms.host_budget:
        links = _within_budget(crawl, links, changes)
    add, push, lanes = crawl.seen.add, state.scheduler.push, crawl.lanes
    fresh: list[int] = []
    first = id = crawl.first_id + crawl.counts.accepted
    total = 0
    for link in links:
        total += 1
        if not add(link.fingerprint):
            continue
        lane = lanes.get((link.host, link.pool))
        if lane is None:
            lane = state.lane(crawl, link.host, link.pool, changes)
        id += 1
        fresh.append(link.fingerprint)
        changes.added.append((id, lane.id, link.fingerprint, link.priority, link.packed))
        push(lane, band(link.priority, 0), id, now)
    new = id - first
    counts = crawl.counts
    counts.accepted += new
    counts.waiting += new
    counts.duplicate += total - new
    if fresh:
        changes.seen.setdefault(crawl.id, []).extend(fresh)
    changes.crawls.add(crawl)
    return new, total - new


def readmit(
    state: FrontierState,
    crawl: CrawlState,
    links: Iterable[Link],
    changes: Changes,
    now: float,
    *,
    rule: FailureClass,
) -> int:
    """Queue the links whose requests a rule had filtered; return how many."""
    wanted = {link.fingerprint: link for link in links}
    found = state.database.execute(
        "SELECT number, fp FROM ended WHERE crawl = ? AND state = 'filtered' AND rule = ? ORDER BY number",
        (crawl.id, rule.value),
    )
    chosen = [(number, wanted[fp]) for number, fp in found if fp in wanted]
    if not chosen:
        return 0
    id = _last_readmitted_id(state.database, crawl)
    for number, link in chosen:
        id += 1
        lane = crawl.lanes.get((link.host, link.pool)) or state.lane(crawl, link.host, link.pool, changes)
        changes.added.append((id, lane.id, link.fingerprint, link.priority, link.packed))
        changes.readmitted.append((number,))
        state.scheduler.push(lane, band(link.priority, 0), id, now)
        crawl.counts.readmit(rule)
        crawl.counts.waiting += 1
    changes.crawls.add(crawl)
    changes.sweep = True  # rows that are yet to be deleted have ids of the same range
    return len(chosen)


def _last_readmitted_id(database: sqlite3.Connection, crawl: CrawlState) -> int:
    """Return the largest id of a readmitted request.

    The id that the request had is not known any more, and ids of the lower half are places in the order of
    acceptance: readmitted requests have ids of the upper half.
    """
    first, end = crawl.first_id + READMITTED, crawl.first_id + 2 * READMITTED
    [last] = database.execute(
        "SELECT max(id) FROM ("
        " SELECT max(id) AS id FROM request WHERE id >= :first AND id < :end"
        " UNION ALL SELECT max(id) FROM parsing WHERE id >= :first AND id < :end"
        " UNION ALL SELECT max(id) FROM dead WHERE id >= :first AND id < :end)",
        {"first": first, "end": end},
    ).fetchone()
    return first if last is None else int(last)


def _within_budget(crawl: CrawlState, links: Iterable[Link], changes: Changes) -> list[Link]:
    """Return the links that were seen before, and as many new ones as the budgets of their hosts allow."""
    accepted, allowed = crawl.accepted_by_host, []
    fresh: set[int] = set()
    touched: set[str] = set()
    for link in links:
        if link.fingerprint not in crawl.seen and link.fingerprint not in fresh:
            if accepted.get(link.host, 0) >= crawl.terms.host_budget:
                crawl.counts.over_budget += 1
                continue
            accepted[link.host] = accepted.get(link.host, 0) + 1
            fresh.add(link.fingerprint)
            touched.add(link.host)
        allowed.append(link)
    changes.crawl_state += [(crawl.id, _ACCEPTED_PREFIX + host, b"%d" % accepted[host]) for host in touched]
    changes.crawls.add(crawl)
    return allowed


def load_accepted_by_host(database: sqlite3.Connection, crawl_id: int) -> dict[str, int]:
    """Read how many requests a crawl has accepted per host, counted since it has a budget."""
    rows = database.execute(
        "SELECT key, value FROM crawl_state WHERE crawl = ? AND key >= ? AND key < ?",
        (crawl_id, _ACCEPTED_PREFIX, _ACCEPTED_PREFIX + "\U0010ffff"),
    )
    return {key.removeprefix(_ACCEPTED_PREFIX): int(value) for key, value in rows}
