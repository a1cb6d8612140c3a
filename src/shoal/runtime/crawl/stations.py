"""What a running crawl talks to, wherever its state lives."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from shoal.fetch.attempt import Fetcher
from shoal.fetch.cookies import CookieJar
from shoal.frontier import Counts, HostView, Unparsed, Validator
from shoal.model.failure import FailureClass
from shoal.model.outcome import Acknowledgement, Grant, Lease, Settlement
from shoal.model.scope import Scope
from shoal.model.settings import Settings
from shoal.model.url import host_key
from shoal.parse.pool import ParsePool
from shoal.runtime import sums
from shoal.runtime.crawl.commit import Acknowledged
from shoal.runtime.outlet import Outlet
from shoal.runtime.pages import Pages


class Frontier(Protocol):
    """The part of a frontier that running a crawl needs."""

    async def lease(
        self, *, holder: str, limit: int, ttl: float, crawls: Sequence[str] | None = None
    ) -> Grant: ...
    def holds(self, lease: Lease) -> bool: ...
    def landed(self, leases: Sequence[Lease]) -> None: ...
    async def extend(self, leases: Sequence[Lease], ttl: float) -> Sequence[Lease]: ...
    async def commit(
        self,
        settlements: Sequence[Settlement] = (),
        acknowledgements: Sequence[Acknowledgement] = (),
        checkpoints: Mapping[str, bytes] = {},
        crawl_state: Mapping[str, Mapping[str, bytes]] = {},
    ) -> object: ...
    def parsing(self, crawl: str) -> AsyncIterator[Unparsed]: ...
    async def counts(self, crawl: str) -> Counts: ...
    async def validators(self, crawl: str, fingerprints: Sequence[int]) -> Mapping[int, Validator]: ...
    async def host_set(self, host: str, *, crawl_delay: float | None = None) -> object: ...
    async def hosts(self) -> Sequence[HostView]: ...


@dataclass(slots=True)
class Stations:
    """Everything a running crawl talks to."""

    crawl: str
    settings: Settings
    holder: str
    resumed: bool
    frontier: Frontier
    fetcher: Fetcher
    jar: CookieJar
    outlet: Outlet
    pages: Pages
    parser: ParsePool
    totals: sums.Sums
    border: "Border"
    outputs: Sequence[str]
    store: str  # for people
    archive: Path | str
    rejects: Path
    shared: bool = False  # other workers run this crawl, too
    fetches: bool = True  # False: this worker only parses
    parses: bool = True  # False: this worker only fetches
    unparsed: AsyncIterator[Unparsed] | None = None  # fetched by others; None: ask the frontier
    on_acknowledged: Acknowledged | None = None
    crowded: Callable[[], bool] | None = None  # whether the stages after fetching have enough to do
    version: int = 0  # of the spider, by the crawl's own count


class Border:
    """The crawl's scope, as it stands: a seed that redirects to another host takes that host in."""

    def __init__(self, scope: Scope, parser: ParsePool) -> None:
        self._parser = parser
        self._move(scope)

    @property
    def hosts(self) -> frozenset[str] | None:
        return self._scope.hosts

    def refuse(self, url: str, depth: int) -> FailureClass | None:
        """Judge a redirect's target; one that a seed leads to is where the user wanted to go."""
        if depth == 0:
            self.admit(host_key(url))
        return self._scope.refuse(url, depth)

    def admit(self, *others: str) -> None:
        """Take hosts in."""
        hosts = self._scope.hosts
        if hosts is not None and not hosts.issuperset(others):
            self._move(msgspec.structs.replace(self._scope, hosts=hosts.union(others)))

    def watch(self, pattern: str) -> None:
        """Have every page of a pattern compared with the others."""
        self._move(msgspec.structs.replace(self._scope, lookalikes=self._scope.lookalikes | {pattern}))

    def renew(self) -> None:
        """Make the parse children forget which links they have handed over: some of them were dropped."""
        self._parser.configure(self._scope)

    def _move(self, scope: Scope) -> None:
        self._scope = scope
        self._parser.configure(scope)
