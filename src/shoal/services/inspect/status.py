"""The state of a store: its crawls by state, and for a shared store its stages and workers.

Reading needs no ownership and works while a crawl runs.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec

from shoal.engine.runs.facts import KEY as COMMAND
from shoal.engine.runs.facts import CommandFacts
from shoal.fetch.escalation.browser_budget import SpentPages
from shoal.fetch.exits.ledger import crawl_key, read_spending
from shoal.fetch.exits.refusing_hosts import read_refusing
from shoal.fetch.exits.shared_health import EXIT, read_records
from shoal.frontier.results import HostQueue
from shoal.model.alert import Alert, read_book
from shoal.model.crawl_totals import ClosedPattern
from shoal.model.errors import Unavailable
from shoal.model.exits.health import ExitRecord
from shoal.model.exits.refusal import HostExits
from shoal.model.exits.spending import Spending
from shoal.model.failure import FailureClass
from shoal.model.levels.learned import HostLevels
from shoal.model.quarantine import QuarantinedEntry
from shoal.model.yields.counts import YieldDrop
from shoal.services.control.levels import read_levels
from shoal.services.inspect.finished import why_stopped
from shoal.sinks.names import public_name
from shoal.stores.contract.heartbeat import Heartbeat, served_pools, unserved_pools
from shoal.stores.contract.monitoring import ALERTS
from shoal.stores.contract.store import Store
from shoal.stores.open import open_store, public_address
from shoal.worker.figures import WorkerFigures, read_figures

__all__ = ["CrawlStatus", "FleetStatus", "Heartbeat", "Stage", "StoreStatus", "read_status", "status"]

ANSWER_S = 10.0
READ_AT_ONCE = 32  # crawls of a shared store
MAX_HOSTS = 10_000  # that one status reads: each takes the store some 10 µs

K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CrawlStatus:
    name: str
    accepted: int
    counts: Mapping[str, int]  # requests by state
    dead_by_class: Mapping[str, int]
    filtered_by_rule: Mapping[str, int]
    links_filtered_by_rule: Mapping[str, int] = field(default_factory=dict)  # they never became requests
    rejected: int = 0  # items that did not fit their model
    withheld: int = 0  # items of pages that name another address as canonical
    partial: int = 0  # pages of which a part could not be read
    hook_faults: int = 0  # `on_error` hooks that raised or hung
    duplicates: int = 0  # links that were already known
    retries: int = 0  # attempts that were followed by another one
    discarded: Mapping[str, int] = field(default_factory=dict)  # items dropped by item hooks, by reason
    large: Mapping[str, ClosedPattern] = field(default_factory=dict)  # patterns with very many URLs
    closed: Mapping[str, ClosedPattern] = field(default_factory=dict)  # shapes that bring nothing new
    arguments: Mapping[str, str] = field(default_factory=dict)  # of its spider, those that are not defaults
    paused: bool = False
    stopped: str = ""  # why it sends nothing although requests wait: a limit is reached
    unserved_pools: Mapping[str, int] = field(default_factory=dict)  # requests in pools without a worker
    lost: int = 0  # requests that a repair found in no state
    unreadable: Sequence[QuarantinedEntry] = ()  # entries of the store that could not be read
    spending: Spending | None = None  # on exits; None: nothing
    crashes: int = 0  # leases that expired, and parses during which the process died
    yield_dropped: Sequence[YieldDrop] = ()  # out of the range of the generations before
    no_data: str = ""  # why the generation has no item, if that is a failure
    mistaken: float = 0.0  # share of new links taken for known ones; 0: links are remembered exactly

    @property
    def traps(self) -> int:
        """The number of URL patterns that were closed as traps."""
        return len(self.closed)


class Stage(msgspec.Struct, frozen=True):
    """One stage of a crawl of a fleet: pages before it, and pages in progress."""

    waiting: int
    in_hand: int = 0


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """What only a shared store has."""

    workers: Sequence[Heartbeat]
    stages: Mapping[str, Mapping[str, Stage]]  # crawl -> "fetch", "parse", "sink"
    outputs: Mapping[str, Sequence[str]] = field(default_factory=dict)  # crawl -> where its items go


@dataclass(frozen=True, slots=True)
class StoreStatus:
    store: str
    owner: str | None  # the process that owns the store, for people; None: no process does
    crawls: Sequence[CrawlStatus]
    fleet: FleetStatus | None = None  # None: the store is not shared
    hosts: Sequence[HostQueue] | None = ()  # of a shared store, those with requests waiting; None: too many
    unreadable: Sequence[QuarantinedEntry] = ()  # entries that could not be read and belong to no crawl
    exits: Mapping[str, ExitRecord] = field(default_factory=dict)  # by name; those that processes use
    levels: Mapping[str, HostLevels] = field(default_factory=dict)  # by host; those that were not plain
    browser_pages: Mapping[str, SpentPages] = field(default_factory=dict)  # by crawl: because of escalation
    refusing: Mapping[str, HostExits] = field(default_factory=dict)  # hosts that refuse addresses
    figures: Mapping[str, WorkerFigures] = field(default_factory=dict)  # of its processes, by name
    held: Mapping[str, int] = field(default_factory=dict)  # hosts that are paused, resting or slowed
    used_ratio: float = 0.0  # of the store's memory, or of the disk of its folder; 0: not known
    alerts: Sequence[Alert] = ()  # the worst first; empty as well if no process evaluates them
    alerts_at: float = 0.0  # when they were evaluated, epoch seconds


async def status(dsn: str) -> StoreStatus:
    """Count the requests of every crawl of a store by state, as of its last transaction.

    Raise `Unavailable` if the store does not answer for `ANSWER_S` seconds: a person waits.
    """
    try:
        async with asyncio.timeout(ANSWER_S), open_store(dsn) as store:
            found = await read_status(store)
            queues = await store.frontier.queues(MAX_HOSTS)
            levels, spent = await read_levels(store)
            return replace(
                found,
                hosts=queues and [queue for queue in queues if queue.queued],
                levels=levels,
                browser_pages=spent,
            )
    except TimeoutError:
        raise Unavailable(
            f"store: {public_address(dsn)} has not answered for {ANSWER_S:.0f} s: it is stopped, busy or out"
            " of reach. Workers send no request until it answers, and continue by themselves then"
        ) from None


async def read_status(store: Store) -> StoreStatus:
    """Do what `status` does for a store that is open, without its hosts."""
    names, spent = await store.crawls.names(), await store.exits.all()
    crawls = await _read_each(store, names, lambda name: _read_crawl(store, name, spent))
    if not store.capabilities.shared:
        unreadable = await store.quarantined(None)
        exits, refusing = await _read_exits(store)
        owner = store.workers.owner()
        found = StoreStatus(
            store.address, owner, crawls, unreadable=unreadable, exits=exits, refusing=refusing
        )
        return found if owner is None else await _with_monitoring(store, found)
    workers = await store.workers.all()
    served = served_pools(workers)
    waiting = await _read_each(store, names, store.frontier.waiting_by_pool)
    crawls = [
        replace(crawl, unserved_pools=unserved_pools(pools, served))
        for crawl, pools in zip(crawls, waiting, strict=True)
    ]
    exits, refusing = await _read_exits(store)
    found = StoreStatus(
        store.address,
        store.workers.owner(),
        crawls,
        await _read_fleet(store, crawls, workers),
        unreadable=await store.quarantined(None),
        exits=exits,
        refusing=refusing,
    )
    return await _with_monitoring(store, found)


async def _with_monitoring(store: Store, found: StoreStatus) -> StoreStatus:
    """Return a status with what the processes of the store have published."""
    records = await store.monitoring.all()
    figures, book = read_figures(records), read_book(records.get(ALERTS))
    is_gone = found.fleet is not None and not found.fleet.workers
    if is_gone or not book.is_current(time.time()):
        return replace(found, figures=figures)
    return replace(
        found,
        figures=figures,
        alerts=book.active,
        alerts_at=book.at,
        held=book.held,
        used_ratio=book.used_ratio,
    )


async def _read_exits(store: Store) -> tuple[Mapping[str, ExitRecord], Mapping[str, HostExits]]:
    stored = await store.exits.all()
    exits = {
        key.removeprefix(EXIT): record for key, record in read_records(stored).items() if key.startswith(EXIT)
    }
    return exits, read_refusing(stored, time.time())


async def _read_each(store: Store, keys: Sequence[K], read: Callable[[K], Coroutine[Any, Any, T]]) -> list[T]:
    """Return what `read` finds for each key, in order; a shared store is asked for many of them at a time."""
    at_once = READ_AT_ONCE if store.capabilities.shared else 1
    found: list[T] = []
    for first in range(0, len(keys), at_once):
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(read(key)) for key in keys[first : first + at_once]]
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from failed
        found += [task.result() for task in tasks]
    return found


async def read_crawl(store: Store, name: str) -> CrawlStatus:
    """Return what the frontier counts of a crawl, and what is summed up beside it."""
    return await _read_crawl(store, name, await store.exits.all())


async def _read_crawl(store: Store, name: str, spent: Mapping[str, bytes]) -> CrawlStatus:
    totals = await store.crawls.totals(name)
    counts, spending = await store.frontier.counts(name), _read_spending(spent, name)
    stopped = ""
    if counts.open and counts.pages and not counts.leased and not counts.parsing:
        command = CommandFacts.load(await store.frontier.value(name, COMMAND))
        stopped = why_stopped(counts, command, spending)
    return CrawlStatus(
        name=name,
        accepted=counts.accepted,
        counts=counts.by_state(),
        dead_by_class=counts.dead_by_class,
        filtered_by_rule=counts.filtered_by_rule,
        links_filtered_by_rule=_with_budget(totals.links, counts.over_budget),
        rejected=totals.rejected,
        withheld=totals.withheld,
        partial=totals.partial,
        hook_faults=totals.hook_faults,
        duplicates=counts.duplicate + totals.repeats,
        retries=counts.retries,
        discarded=totals.discarded,
        large=totals.large,
        closed=totals.closed,
        arguments=await store.crawls.arguments(name),
        paused=await store.frontier.paused(name),
        stopped=stopped,
        lost=counts.lost,
        unreadable=await store.quarantined(name),
        yield_dropped=totals.dropped,
        no_data=totals.no_data,
        mistaken=counts.mistaken,
        spending=spending,
        crashes=counts.crashes,
    )


def _read_spending(spent: Mapping[str, bytes], crawl: str) -> Spending | None:
    packed = spent.get(crawl_key(crawl))
    return None if packed is None else read_spending(packed)


async def _read_fleet(
    store: Store, crawls: Sequence[CrawlStatus], workers: Sequence[Heartbeat]
) -> FleetStatus:
    found = await _read_each(store, crawls, lambda crawl: read_stages(store, crawl))
    stages = {crawl.name: of_crawl for crawl, of_crawl in zip(crawls, found, strict=True)}
    outputs = {
        record.name: tuple(map(public_name, record.outputs)) for record in await store.crawls.records()
    }
    return FleetStatus(workers, stages, outputs)


async def read_stages(store: Store, crawl: CrawlStatus) -> dict[str, Stage]:
    """Return what waits before each stage of a crawl of a shared store."""
    counts = crawl.counts
    return {
        "fetch": Stage(counts["waiting"] + counts["delayed"], counts["leased"]),
        "parse": Stage(counts["parsing"]),
        "sink": Stage(await store.outputs.unwritten_pages(crawl.name)),
    }


def _with_budget(links: Mapping[str, int], over_budget: int) -> Mapping[str, int]:
    return {**links, FailureClass.BUDGET.value: over_budget} if over_budget else links
