"""`shoal status`: the crawls of a store by state, whether or not one is running."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from shoal.cli.input.options import Config, Json, Store, examples
from shoal.cli.views.exits import refusal_text, spending_text
from shoal.cli.views.format import by_count, by_reason, count, plural, table
from shoal.cli.views.levels import level_lines
from shoal.cli.views.traps import pattern_lines
from shoal.cli.views.words import AHEAD, ENDED, plain_counts
from shoal.cli.views.workers import mixed_versions, sandbox_lines, worker_lines
from shoal.model.printable import printable

if TYPE_CHECKING:
    from shoal.model.quarantine import QuarantinedEntry
    from shoal.services.inspect.status import StoreStatus

EXAMPLES = examples(
    ("The store in this folder", "shoal status"),
    ("For a script", "shoal status --store /data/shop --json"),
    ("A fleet, with its workers", "shoal status --store redis://queue.example"),
)


MAX_HOSTS = 5
WIDTH = 100  # columns of the table of hosts, where there is no window


def command(store: Store = None, config: Config = None, json: Json = False) -> None:
    """Show the crawls of a store by state, what limits them, and the workers.

    Reads only; safe while a crawl runs.
    """
    import sys
    import time
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.output import print_json, print_lines
    from shoal.cli.views.wrap import window_width
    from shoal.services.inspect.status import status
    from shoal.services.inspect.status_json import status_json

    found = run(status(chosen_store(store, config=config)))
    if json:
        print_json(status_json(found, time.time()))
    else:
        print_lines(status_lines(found, time.time(), window_width(sys.stdout)))


def status_lines(status: "StoreStatus", now: float, width: int = 0) -> Iterator[str]:
    """Yield a table of the crawls without the states that are empty, then bottlenecks and workers.

    `width` is that of the window; 0: there is no window. In a window that is too narrow for the table, each
    crawl has its figures behind its name.
    """
    from shoal.cli.views.hosts import host_lines, stored_host
    from shoal.services.inspect.bottlenecks import beyond_alerts, find_bottlenecks
    from shoal.services.inspect.monitor import slowest
    from shoal.spider.arguments import show_arguments

    owner = f"in use by {status.owner}" if status.owner else "not in use"
    if status.fleet:
        owner = plural(len(status.fleet.workers), "worker")
    yield f"{status.store}: {plural(len(status.crawls), 'crawl')}, {owner}"
    if not status.crawls:
        return
    counts = {crawl.name: plain_counts(crawl.counts) for crawl in status.crawls}
    words = [word for word in (*AHEAD, *ENDED) if any(one.get(word) for one in counts.values())]
    to_write = {
        name: stages["sink"].waiting for name, stages in (status.fleet.stages if status.fleet else {}).items()
    }
    last = ["to write"] if any(to_write.values()) else []
    rows: list[Sequence[str]] = [
        [
            crawl.name,
            count(crawl.accepted),
            *(count(counts[crawl.name].get(word, 0)) for word in words),
            *(count(to_write[crawl.name]) for _ in last),
        ]
        for crawl in status.crawls
    ]
    heading = ["crawl", "accepted", *words, *last]
    lines = list(table(heading, rows))
    if not width or max(map(len, lines)) <= width:
        yield from lines
    else:
        for name, *figures in rows:
            of_words = zip(figures, heading[1:], strict=True)
            yield f"{name}: {', '.join(f'{figure} {word}' for figure, word in of_words if figure != '0')}"
    yield from (printable(f"{alert.level.value}: {alert.text}") for alert in status.alerts)
    held = beyond_alerts(find_bottlenecks(status, now), status.alerts)
    yield from (found.text for found in held)
    for host, change in status.refusing.items():
        yield f"{host} {refusal_text(change, now)}"
    if status.hosts is None:
        yield "too many hosts to check which ones rest: shoal top checks them, which takes longer"
    for crawl in status.crawls:
        if crawl.arguments:
            yield f"arguments of {crawl.name}: {printable(show_arguments(crawl.arguments))}"
        if crawl.dead_by_class:
            yield f"failed in {crawl.name}: {by_count(crawl.dead_by_class)}"
        if dropped := Counter(crawl.filtered_by_rule) + Counter(crawl.links_filtered_by_rule):
            yield f"skipped in {crawl.name}: {by_count(dropped)}"
        if crawl.retries or crawl.duplicates:
            retries = [plural(crawl.retries, "retry", "retries")] if crawl.retries else []
            links = [plural(crawl.duplicates, "duplicate link")] if crawl.duplicates else []
            yield f"repeated in {crawl.name}: {', '.join(retries + links)}"
        yield from pattern_lines(crawl.closed, crawl.large, of=f" in {crawl.name}")
        if crawl.lost:
            yield f"lost in {crawl.name}: {plural(crawl.lost, 'request')}; see shoal verify"
        if crawl.unreadable:
            yield unreadable_line(crawl.unreadable, of=f" of {crawl.name}")
        if crawl.mistaken:
            lost = count(round(1 / crawl.mistaken))
            yield f"{crawl.name} uses an approximate seen set: it drops one in {lost} new links"
        if crawl.rejected:
            yield f"rejected in {crawl.name}: {plural(crawl.rejected, 'item')}"
        if crawl.discarded:
            yield f"dropped by item hooks in {crawl.name}: {by_reason(crawl.discarded)}"
        if crawl.spending is not None:
            yield f"through exits in {crawl.name}: {spending_text(crawl.spending)}"
        if crawl.withheld:
            yield f"skipped in {crawl.name} for a canonical page: {plural(crawl.withheld, 'item')}"
        if crawl.partial:
            yield f"read in part in {crawl.name}: {plural(crawl.partial, 'page')}; see the log"
        if crawl.hook_faults:
            yield f"on_error hooks that failed in {crawl.name}: {count(crawl.hook_faults)}; see the log"
    if status.hosts:
        slow = [stored_host(host, now) for host in slowest(status.hosts, now)[:MAX_HOSTS]]
        for line in host_lines(slow, width or WIDTH):
            yield "".join(text for text, _ in line).rstrip()
    yield from level_lines(status.levels, now)
    for name, spent in status.browser_pages.items():
        if name in counts and spent.pages:
            yield f"rendered in {name} because hosts needed it: {plural(spent.pages, 'page')}"
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
