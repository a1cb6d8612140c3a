"""What a running crawl talks to, wherever its state lives."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from shoal.engine.commit import Acknowledged, Store
from shoal.engine.leases import Lessor
from shoal.engine.outputs import OutputCommit
from shoal.engine.ownership import Ownership
from shoal.engine.page_quota import PageQuota
from shoal.engine.pages import Pages
from shoal.engine.scope_state import ScopeState
from shoal.fetch.fetcher import Fetcher
from shoal.frontier import Unparsed, Validator
from shoal.frontier.contract import FrontierHosts
from shoal.frontier.finished import CountsReader
from shoal.model import crawl_totals as sums
from shoal.model.outcome import Lease
from shoal.model.settings import Settings
from shoal.parse.pool import ParsePool


class CrawlFrontier(Lessor, Store, Protocol):
    """The part of a frontier that running a crawl needs: leasing, committing, and looking."""

    def landed(self, leases: Sequence[Lease]) -> None: ...
    async def validators(self, crawl: str, fingerprints: Sequence[int]) -> Mapping[int, Validator]: ...
    @property
    def hosts(self) -> FrontierHosts: ...
    @property
    def reader(self) -> CountsReader: ...


@dataclass(slots=True)
class Stations:
    """Everything a running crawl talks to."""

    crawl: str
    settings: Settings
    holder: str
    resumed: bool
    ownership: Ownership
    frontier: CrawlFrontier
    fetcher: Fetcher
    outlet: OutputCommit
    pages: Pages
    parser: ParsePool
    totals: sums.CrawlTotals
    border: ScopeState
    outputs: Sequence[str]
    store: str  # for people
    archive: Path | str
    rejects: Path
    fetches: bool = True  # False: this worker only parses
    parses: bool = True  # False: this worker only fetches
    unparsed: AsyncIterator[Unparsed] | None = None  # pages that others, or earlier runs, have fetched
    on_acknowledged: Acknowledged | None = None
    crowded: Callable[[], bool] | None = None  # whether the stages after fetching have enough to do
    allowance: PageQuota | None = None  # of pages; None: as many as there are
    version: int = 0  # of the spider, by the crawl's own count
