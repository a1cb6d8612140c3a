"""The state of a store: its crawls by state, and for a shared store its stages and workers.

Reading needs no ownership and works while a crawl runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from shoal.frontier.results import HostQueue
from shoal.model.crawl_totals import ClosedPattern
from shoal.model.failure import FailureClass
from shoal.model.quarantine import QuarantinedEntry
from shoal.sinks.names import public_name
from shoal.stores.contract.heartbeat import Heartbeat, served_pools, unserved_pools
from shoal.stores.contract.store import Store
from shoal.stores.open import open_store

__all__ = ["CrawlStatus", "FleetStatus", "Heartbeat", "Stage", "StoreStatus", "read_status", "status"]

MAX_HOSTS = 10_000  # that one status reads: each takes the store some 10 µs


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
    quarantined: Mapping[str, ClosedPattern] = field(default_factory=dict)  # by pattern: too many URLs
    near_duplicates: Mapping[str, ClosedPattern] = field(default_factory=dict)
    identical: Mapping[str, ClosedPattern] = field(default_factory=dict)
    paused: bool = False
    unserved_pools: Mapping[str, int] = field(default_factory=dict)  # requests in pools without a worker
    lost: int = 0  # requests that a repair found in no state
    unreadable: Sequence[QuarantinedEntry] = ()  # entries of the store that could not be read
    mistaken: float = 0.0  # share of new links taken for known ones; 0: links are remembered exactly


@dataclass(frozen=True, slots=True)
class Stage:
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


async def status(dsn: str) -> StoreStatus:
    """Count the requests of every crawl of a store by state, as of its last transaction."""
    async with open_store(dsn) as store:
        found = await read_status(store)
        if not store.capabilities.shared:
            return found
        queues = await store.frontier.queues(MAX_HOSTS)
        return replace(found, hosts=queues and [queue for queue in queues if queue.queued])


async def read_status(store: Store) -> StoreStatus:
    """Do what `status` does for a store that is open, without its hosts."""
    crawls = [await read_crawl(store, name) for name in await store.crawls.names()]
    if not store.capabilities.shared:
        unreadable = await store.quarantined(None)
        return StoreStatus(store.address, store.workers.owner(), crawls, unreadable=unreadable)
    workers = await store.workers.all()
    served = served_pools(workers)
    crawls = [
        replace(
            crawl, unserved_pools=unserved_pools(await store.frontier.waiting_by_pool(crawl.name), served)
        )
        for crawl in crawls
    ]
    return StoreStatus(
        store.address,
        store.workers.owner(),
        crawls,
        await _read_fleet(store, crawls, workers),
        unreadable=await store.quarantined(None),
    )


async def read_crawl(store: Store, name: str) -> CrawlStatus:
    """Return what the frontier counts of a crawl, and what is summed up beside it."""
    totals = await store.crawls.totals(name)
    counts = await store.frontier.counts(name)
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
        quarantined=totals.quarantined,
        near_duplicates=totals.near_duplicates,
        identical=totals.identical,
        paused=await store.frontier.paused(name),
        lost=counts.lost,
        unreadable=await store.quarantined(name),
        mistaken=counts.mistaken,
    )


async def _read_fleet(
    store: Store, crawls: Sequence[CrawlStatus], workers: Sequence[Heartbeat]
) -> FleetStatus:
    stages = {crawl.name: await _stages(store, crawl) for crawl in crawls}
    outputs = {
        record.name: tuple(map(public_name, record.outputs)) for record in await store.crawls.records()
    }
    return FleetStatus(workers, stages, outputs)


async def _stages(store: Store, crawl: CrawlStatus) -> dict[str, Stage]:
    counts = crawl.counts
    return {
        "fetch": Stage(counts["waiting"] + counts["delayed"], counts["leased"]),
        "parse": Stage(counts["parsing"]),
        "sink": Stage(await store.outputs.unwritten_pages(crawl.name)),
    }


def _with_budget(links: Mapping[str, int], over_budget: int) -> Mapping[str, int]:
    return {**links, FailureClass.BUDGET.value: over_budget} if over_budget else links
