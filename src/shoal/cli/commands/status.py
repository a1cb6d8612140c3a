"""`shoal status`: the crawls of a store by state, whether or not one is running."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from shoal.cli.input.options import Config, Json, Store, examples
from shoal.cli.views.format import by_count, count, plural, table
from shoal.cli.views.traps import pattern_lines
from shoal.cli.views.workers import mixed_versions, sandbox_lines, worker_lines

if TYPE_CHECKING:
    from shoal.model.quarantine import QuarantinedEntry
    from shoal.services.inspect.status import StoreStatus

EXAMPLES = examples(
    ("The store in this folder", "shoal status"),
    ("For a script", "shoal status --store /data/shop --json"),
    ("A fleet, with its workers", "shoal status --store redis://queue.example"),
)


def command(store: Store = None, config: Config = None, json: Json = False) -> None:
    """Show the crawls of a store by state, what limits them, and the workers.

    Reads only; safe while a crawl runs.
    """
    import time
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.output import print_json, print_lines
    from shoal.services.inspect.status import status
    from shoal.services.inspect.status_json import status_json

    found = run(status(chosen_store(store, config=config)))
    if json:
        print_json(status_json(found, time.time()))
    else:
        print_lines(status_lines(found, time.time()))


def status_lines(status: "StoreStatus", now: float) -> Iterator[str]:
    """Yield a table of the crawls without the states that are empty, then bottlenecks and workers."""
    from shoal.services.inspect.bottlenecks import find_bottlenecks

    owner = f"in use by {status.owner}" if status.owner else "not in use"
    if status.fleet:
        owner = plural(len(status.fleet.workers), "worker")
    yield f"{status.store}: {plural(len(status.crawls), 'crawl')}, {owner}"
    if not status.crawls:
        return
    states = [
        state for state in status.crawls[0].counts if any(crawl.counts[state] for crawl in status.crawls)
    ]
    to_write = {
        name: stages["sink"].waiting for name, stages in (status.fleet.stages if status.fleet else {}).items()
    }
    last = ["to write"] if any(to_write.values()) else []
    rows: list[Sequence[str]] = [
        [
            crawl.name,
            count(crawl.accepted),
            *(count(crawl.counts[state]) for state in states),
            *(count(to_write[crawl.name]) for _ in last),
        ]
        for crawl in status.crawls
    ]
    yield from table(["crawl", "accepted", *states, *last], rows)
    yield from (found.text for found in find_bottlenecks(status, now))
    if status.hosts is None:
        yield "too many hosts to check which ones rest: shoal top checks them, which takes longer"
    for crawl in status.crawls:
        if crawl.dead_by_class:
            yield f"given up in {crawl.name}: {by_count(crawl.dead_by_class)}"
        if dropped := Counter(crawl.filtered_by_rule) + Counter(crawl.links_filtered_by_rule):
            yield f"filtered in {crawl.name}: {by_count(dropped)}"
        closed = (crawl.quarantined, crawl.near_duplicates, crawl.identical)
        yield from pattern_lines(*closed, of=f" in {crawl.name}")
        if crawl.lost:
            yield f"lost in {crawl.name}: {plural(crawl.lost, 'request')}; see shoal verify"
        if crawl.unreadable:
            yield unreadable_line(crawl.unreadable, of=f" of {crawl.name}")
        if crawl.mistaken:
            lost = count(round(1 / crawl.mistaken))
            yield f"{crawl.name} uses an approximate seen set: it drops one in {lost} new links"
        if crawl.rejected:
            yield f"rejected in {crawl.name}: {plural(crawl.rejected, 'item')}"
        if crawl.withheld:
            yield f"skipped in {crawl.name} for a canonical page: {plural(crawl.withheld, 'item')}"
        if crawl.partial:
            yield f"read in part in {crawl.name}: {plural(crawl.partial, 'page')}; see the log"
        if crawl.hook_faults:
            yield f"on_error hooks that failed in {crawl.name}: {count(crawl.hook_faults)}; see the log"
    if status.unreadable:
        yield unreadable_line(status.unreadable)
    if status.fleet and status.fleet.workers:
        for name, versions in mixed_versions(status.fleet.workers).items():
            yield f"workers currently run {versions} versions of {name}"
        yield from sandbox_lines(status.fleet.workers)
        yield from worker_lines(status.fleet.workers)


def unreadable_line(entries: "Sequence[QuarantinedEntry]", *, of: str = "") -> str:
    """Count the entries that could not be read, and name the latest."""
    last = entries[-1]
    which = f" {last.entry_id}" if last.entry_id else ""
    how_many = f"{count(len(entries))} {'entry' if len(entries) == 1 else 'entries'} of the store{of}"
    return f"{how_many} could not be read and were set aside; the latest: {last.place}{which} ({last.reason})"
