"""What a running crawl talks to, wherever its state is stored."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from shoal.engine.commit import CommitFrontier, PageBus
from shoal.engine.fetch_log.recorder import FetchLog
from shoal.engine.fetchers import Pools
from shoal.engine.generations.earlier import EarlierPage, ParseIdentity
from shoal.engine.leases import Lessor, Ownership
from shoal.engine.outputs import OutputCommit, Writer, WriterThread
from shoal.engine.parsing import PageArchive, Parser
from shoal.engine.scope_state import ScopeState
from shoal.engine.traps.counts import TrapCounters
from shoal.fetch.browser.pool import BrowserPool
from shoal.fetch.contract import Fetcher
from shoal.fetch.escalation.learned_levels import LearnedLevels
from shoal.fetch.exits.exit_pool import ExitPool
from shoal.fetch.exits.ledger import ExitLedger
from shoal.fetch.http.body_memory import BodyMemory
from shoal.fetch.http.client import HttpClient
from shoal.fetch.shared_gate import SharedGate
from shoal.frontier import Unparsed
from shoal.frontier.contract import FrontierHosts
from shoal.frontier.finished import CountsReader
from shoal.model.crawl_totals import CrawlTotals
from shoal.model.generations.page_history import PageHistory
from shoal.model.outcome import Lease
from shoal.model.page import Response
from shoal.model.settings import Settings
from shoal.spider.source import SpiderDescription
from shoal.stores.contract.fleet import SiteBudget


class CrawlFrontier(Lessor, CommitFrontier, Protocol):
    """The part of a frontier that running a crawl needs: leasing, committing, reading."""

    def mark_landed(self, leases: Sequence[Lease]) -> None: ...
    async def earlier_pages(
        self, crawl: str, fingerprints: Sequence[int], *, host: str = ""
    ) -> Mapping[int, bytes]: ...
    @property
    def hosts(self) -> FrontierHosts: ...
    @property
    def reader(self) -> CountsReader: ...


class CrawlArchive(PageArchive, Protocol):
    """The part of `Pages` that running a crawl needs."""

    async def earlier(self, history: PageHistory, identity: bytes) -> EarlierPage: ...
    async def compare(self, response: Response, earlier: EarlierPage) -> EarlierPage: ...


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
    def longest_sleep_s(self) -> float:
        """Seconds after which a crawl that had nothing to lease asks the frontier again."""

    @property
    def later_stages_full(self) -> bool:
        """Whether enough pages wait to be parsed, or items to be written: fetching pauses."""


class CallerCapacity(msgspec.Struct, frozen=True):
    """The capacity of a crawl whose items a program takes: it pauses while the program is behind."""

    is_behind: Callable[[], bool]
    max_requests: int = sys.maxsize
    longest_sleep_s: float = 1.0

    @property
    def later_stages_full(self) -> bool:
        return self.is_behind()


@dataclass(frozen=True, slots=True)
class WorkShare:
    """The part of a crawl's work that this process does. Default: all of it."""

    fetches: bool = True
    parses: bool = True
    pools: Pools = field(default_factory=Pools)
    capacity: Capacity | None = None  # None: limited by its concurrency alone
    bus: PageBus | None = None  # None: no other process fetches
    exits: ExitPool | None = None  # for all crawls of this process; None: requests leave directly
    learned: LearnedLevels | None = None  # of hosts, likewise; None: those of the store that it owns
    served_pools: Callable[[], Collection[str]] | None = None  # by all workers; None: those of this process
    permits: AbstractAsyncContextManager[None] | None = None  # for each request; None: no limit besides
    browsers: BrowserPool | None = None  # of all crawls of this process; None: it has only one
    memory: BodyMemory | None = None  # for the bodies of all crawls of this process; None: it has only one
    client: HttpClient | None = None  # that serves the pool `http`; None: a new one
    open_writer: Callable[[], Writer] = WriterThread  # what outputs and archive are written in


class Locations(msgspec.Struct, frozen=True):
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
    fetch_log: FetchLog | None = None  # None: attempts are not logged
    unparsed: AsyncIterator[Unparsed] | None = None  # pages that earlier runs or other workers have fetched

    # what it may do
    ownership: Ownership
    scope: ScopeState
    identity: ParseIdentity | None = None  # None: nothing is kept for, or taken from, other generations
    totals: CrawlTotals
    trap_counters: TrapCounters = field(default_factory=TrapCounters)
    site_budget: SiteBudget | None = None  # None: no limit
    other_workers: Callable[[], Awaitable[Mapping[str, bytes]]] | None = None  # reads what they store
    quota: PageQuota | None = None  # None: no limit
    share: WorkShare = WorkShare()
    ledger: ExitLedger | None = None  # of the traffic through exits; None: requests leave directly
    exits_used: str = ""  # in words: how many exits there are and how the list is used
    no_exit: Callable[[], str] | None = None  # why the crawl waits for exits no longer; None: without limit
    gate: SharedGate | None = None  # whose turns come from the store
