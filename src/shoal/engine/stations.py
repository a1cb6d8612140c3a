"""What a running crawl talks to, wherever its state is stored."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from shoal.archive.reader import StoredPage
from shoal.engine.commit import CommitFrontier, PageBus
from shoal.engine.fetchers import Pools
from shoal.engine.leases import Lessor, Ownership
from shoal.engine.outputs import OutputCommit
from shoal.engine.parsing import PageArchive, Parser
from shoal.engine.scope_state import ScopeState
from shoal.engine.traps.counts import TrapCounters
from shoal.fetch.contract import Fetcher
from shoal.fetch.http.body_memory import BodyMemory
from shoal.fetch.shared_gate import SharedGate
from shoal.frontier import Unparsed, Validator
from shoal.frontier.contract import FrontierHosts
from shoal.frontier.finished import CountsReader
from shoal.model.crawl_totals import CrawlTotals
from shoal.model.outcome import Lease
from shoal.model.page import PageRef
from shoal.model.settings import Settings
from shoal.spider.source import SpiderDescription
from shoal.stores.contract.fleet import SiteBudget


class CrawlFrontier(Lessor, CommitFrontier, Protocol):
    """The part of a frontier that running a crawl needs: leasing, committing, reading."""

    def mark_landed(self, leases: Sequence[Lease]) -> None: ...
    async def validators(self, crawl: str, fingerprints: Sequence[int]) -> Mapping[int, Validator]: ...
    @property
    def hosts(self) -> FrontierHosts: ...
    @property
    def reader(self) -> CountsReader: ...


class CrawlArchive(PageArchive, Protocol):
    """The part of `Pages` that running a crawl needs."""

    def earlier(self, ref: PageRef) -> StoredPage | None: ...


class CrawlBacklog(Protocol):
    @property
    def pages(self) -> int: ...
    @property
    def bytes(self) -> int: ...


class CrawlParser(Parser, Protocol):
    """The part of the parse pool that running a crawl needs."""

    @property
    def description(self) -> SpiderDescription: ...
    @property
    def sandbox_warning(self) -> str: ...
    @property
    def backlog(self) -> CrawlBacklog: ...

    async def watch(self) -> None:
        """Wait forever; raise if the pool can no longer answer."""


class PageQuota(Protocol):
    """`--max-pages`: how many requests may be in progress without exceeding the limit.

    A request that ends without a page frees its place, so the limit is met exactly.
    """

    async def take(self, held: int, wanted: int) -> int:
        """Return how many of the `wanted` leases may be taken, where `held` are in progress."""

    async def leave(self) -> None:
        """Release what this process holds: it takes no more."""


class Capacity(Protocol):
    """What limits a crawl that shares its worker with others, and its fleet with later stages."""

    @property
    def max_requests(self) -> int:
        """The requests that the crawl may have in progress here."""

    @property
    def later_stages_full(self) -> bool:
        """Whether enough pages wait to be parsed, or items to be written: fetching pauses."""


@dataclass(frozen=True, slots=True)
class WorkShare:
    """The part of a crawl's work that this process does. Default: all of it."""

    fetches: bool = True
    parses: bool = True
    pools: Pools = field(default_factory=Pools)
    capacity: Capacity | None = None  # None: limited by its concurrency alone
    bus: PageBus | None = None  # None: no other process fetches
    memory: BodyMemory | None = None  # for the bodies of all crawls of this process; None: it has only one


@dataclass(frozen=True, slots=True)
class Locations:
    """Where things are, for people: no secrets."""

    store: str
    archive: str
    outputs: Sequence[str]
    rejects: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Stations:
    """Everything a running crawl talks to."""

    # what runs
    crawl: str
    holder: str  # the name under which this process leases
    settings: Settings
    version: int = 0  # of the spider, as the crawl counts them
    resumed: bool = False
    locations: Locations

    # what it reads and writes
    frontier: CrawlFrontier
    fetcher: Fetcher
    pages: CrawlArchive
    parser: CrawlParser
    outputs: OutputCommit
    unparsed: AsyncIterator[Unparsed] | None = None  # pages that earlier runs or other workers have fetched

    # what it may do
    ownership: Ownership
    scope: ScopeState
    totals: CrawlTotals
    trap_counters: TrapCounters = field(default_factory=TrapCounters)
    site_budget: SiteBudget | None = None  # None: no limit
    other_workers: Callable[[], Awaitable[Mapping[str, bytes]]] | None = None  # reads what they store
    quota: PageQuota | None = None  # None: no limit
    share: WorkShare = WorkShare()
    gate: SharedGate | None = None  # whose turns come from the store
