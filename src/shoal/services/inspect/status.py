"""Looking into a store from outside a crawl. It needs no ownership and works while a crawl runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from shoal.frontier import Counts
from shoal.frontier.results import HostQueue
from shoal.model import crawl_totals as sums
from shoal.model.failure import FailureClass
from shoal.stores.access import StoreReader, open_reader
from shoal.stores.address import is_redis, shown_store
from shoal.stores.folder.store import StoreFolder
from shoal.stores.reach import reached

if TYPE_CHECKING:
    from shoal.stores.redis.workers import Heartbeat


@dataclass(frozen=True, slots=True)
class CrawlStatus:
    name: str
    accepted: int
    counts: Mapping[str, int]  # requests by state
    dead_by_class: Mapping[str, int]
    filtered_by_rule: Mapping[str, int]
    links_filtered_by_rule: Mapping[str, int] = field(default_factory=dict)  # never made a request
    rejected: int = 0  # items that did not fit their model
    withheld: int = 0  # items of pages that call another address their own
    hook_faults: int = 0  # `on_error` hooks that raised or hung
    quarantined: Mapping[str, sums.ClosedPattern] = field(default_factory=dict)  # by pattern: too many URLs
    lookalikes: Mapping[str, sums.ClosedPattern] = field(
        default_factory=dict
    )  # by pattern: too many pages alike
    paused: bool = False
    unserved_pools: Mapping[str, int] = field(default_factory=dict)  # requests in pools without a worker
    mistaken: float = 0.0  # share of new links taken for known ones; 0: links are remembered exactly


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a fleet's crawl: what lies before it, and what it has in hand."""

    waiting: int
    in_hand: int = 0


@dataclass(frozen=True, slots=True)
class Fleet:
    """What only a store with many workers has."""

    workers: Sequence["Heartbeat"]
    stages: Mapping[str, Mapping[str, Stage]]  # crawl -> "fetch", "parse", "sink"
    outputs: Mapping[str, Sequence[str]] = field(default_factory=dict)  # crawl -> where its items go


@dataclass(frozen=True, slots=True)
class StoreStatus:
    store: str
    owner: str | None  # who has the store right now, for people; None: nobody
    crawls: Sequence[CrawlStatus]
    fleet: Fleet | None = None  # None: the store is a folder
    hosts: Sequence[HostQueue] | None = ()  # of a fleet, where something waits; None: too many to look at


async def status(store: str) -> StoreStatus:
    """Count the requests of every crawl of a store by state, as of its last transaction."""
    async with reached(store) as address:
        if is_redis(address):
            from shoal.services.inspect.fleet_status import fleet_status

            return await fleet_status(address, shown_store(store))
        async with open_reader(address) as reader:
            return await folder_status(address, reader)


async def folder_status(folder: str, reader: StoreReader) -> StoreStatus:
    """Count the requests in a folder, as one who reads there already."""
    crawls = [
        await crawl_status(reader, name, sums.CrawlTotals.load(await reader.value(name, sums.KEY)))
        for name in await reader.crawls()
    ]
    return StoreStatus(folder, StoreFolder(Path(folder)).owner(), crawls)


class Counter(Protocol):
    """The part of a frontier that counting needs."""

    async def counts(self, crawl: str) -> Counts: ...
    async def paused(self, crawl: str) -> bool: ...


async def crawl_status(reader: Counter, name: str, totals: sums.CrawlTotals) -> CrawlStatus:
    """Put together what is counted in a frontier and what is summed up beside it."""
    counts = await reader.counts(name)
    return CrawlStatus(
        name=name,
        accepted=counts.accepted,
        counts=counts.by_state(),
        dead_by_class=counts.dead_by_class,
        filtered_by_rule=counts.filtered_by_rule,
        links_filtered_by_rule=_with_budget(totals.links, counts.over_budget),
        rejected=totals.rejected,
        withheld=totals.withheld,
        hook_faults=totals.hook_faults,
        quarantined=totals.quarantined,
        lookalikes=totals.near_duplicates,
        paused=await reader.paused(name),
        mistaken=counts.mistaken,
    )


def _with_budget(links: Mapping[str, int], over_budget: int) -> Mapping[str, int]:
    return {**links, FailureClass.BUDGET.value: over_budget} if over_budget else links
