"""Links in: what a crawl has not seen waits in its lane."""

from collections.abc import Iterable

from shoal.frontier.rules import band
from shoal.frontier.sqlite.budget import within
from shoal.frontier.sqlite.changes import Changes
from shoal.frontier.sqlite.state import CrawlState, FrontierState
from shoal.model.request import Link


def admit(
    state: FrontierState, crawl: CrawlState, links: Iterable[Link], changes: Changes, now: float
) -> tuple[int, int]:
    """Accept links; return how many were new and how many had been seen."""
    if crawl.terms.host_budget:
        links = within(crawl, links, changes)
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
