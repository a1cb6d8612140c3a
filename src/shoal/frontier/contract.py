"""The typed contract of a frontier: what a backend implements, and what its callers may use.

`Frontier` holds leasing and committing, which every request passes through. What is called less often is in
its four parts: `crawls`, `hosts`, `dead_letters` and `reader`. The guarantees behind the signatures (states,
atomicity, order, what survives a crash) are the prose of `shoal.frontier`.
`shoal.testing.contracts.frontier` holds the tests that a backend has to pass.

A caller that needs a few of these methods declares its own smaller Protocol.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Protocol

from shoal.frontier.generations import Generation
from shoal.frontier.results import (
    Added,
    Audit,
    Committed,
    Counts,
    CrawlStats,
    DeadLetter,
    HostQueue,
    HostView,
    LetterPosition,
    ListedRequest,
    Opened,
    RequestHistory,
    StoredRobots,
    Unparsed,
)
from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.failure import FailureClass
from shoal.model.outcome import Acknowledgement, Grant, Lease, Settlement
from shoal.model.pace import Pace
from shoal.model.page import PageRecord
from shoal.model.request import Link


class FrontierCrawls(Protocol):
    """Opening, pausing and deleting crawls."""

    async def open(
        self,
        name: str,
        *,
        pace: Pace | None = None,
        max_crashes: int | None = None,
        slowdown: SlowdownRules | None = None,
        host_budget: int | None = None,
        hosts: Mapping[str, Pace] | None = None,
        state: Mapping[str, bytes] | None = None,
    ) -> Opened:
        """Create or resume a crawl. Options that are None keep their value, or get the default if it is new.

        `hosts` maps host names to the pace that this crawl uses there instead of `pace`. `host_budget` is the
        number of requests that the crawl accepts per host; 0: unlimited. `state` holds the first values of a
        new crawl and is ignored if the crawl exists.
        """

    async def delete(
        self, name: str, *, checkpoints: Collection[str] = (), entirely: bool = False, keep: int = 1
    ) -> bool:
        """Delete a crawl and the named checkpoints; return False if there is no such crawl.

        Unless `entirely`, its pages become an earlier generation of the next crawl of that name, and `keep`
        of these stay. Raises `Misconfigured` if this process has the crawl open.
        """

    async def pause(self, crawl: str) -> None:
        """Stop leasing from a crawl until `resume`. The crawl need not be open; a restart keeps the pause."""

    async def resume(self, crawl: str) -> None: ...

    async def set_value(self, crawl: str, key: str, value: bytes) -> None:
        """Store a value with a crawl; `FrontierReader.value` reads it."""


class FrontierHosts(Protocol):
    """The pace of hosts, and their robots.txt."""

    async def get(self, host: str) -> HostView | None:
        """Return one host with what this process knows of it, or None if the frontier has no record."""

    async def all(self) -> Sequence[HostView]:
        """Return every host of the crawls that are open."""

    async def set(
        self,
        host: str,
        *,
        interval: float | None = None,
        burst: int | None = None,
        concurrency: int | None = None,
        crawl_delay: float | None = None,
        rest_until: float | None = None,
        paused: bool | None = None,
    ) -> HostView:
        """Override the pace of a host, rest it or pause it. What is None stays unchanged."""

    async def clear(self, host: str) -> HostView:
        """Remove the interval, burst and concurrency set for a host: the crawls' pace applies again."""

    async def get_robots(self, host: str) -> StoredRobots | None:
        """Return a host's robots.txt, or None if it is unknown or expired."""

    async def set_robots(self, host: str, *, expires: float, status: int, body: bytes) -> None: ...


class FrontierDeadLetters(Protocol):
    """Replaying and purging dead letters; `FrontierReader.dead_letters` lists them.

    Both methods select by failure class, host and fingerprint; an empty filter matches all. They take the
    letters in the order in which their requests were accepted and return how many they changed.
    """

    async def replay(
        self,
        crawl: str,
        *,
        classes: Collection[FailureClass] = (),
        host: str = "",
        fingerprints: Collection[int] = (),
        limit: int | None = None,
    ) -> int:
        """Put dead letters back into the queue with no attempts, crashes or rests counted.

        A letter of class `parse_error` or `poison` whose page is archived is parsed again instead of fetched.
        """

    async def purge(
        self,
        crawl: str,
        *,
        classes: Collection[FailureClass] = (),
        host: str = "",
        fingerprints: Collection[int] = (),
        limit: int | None = None,
    ) -> int:
        """Delete dead letters. Their requests stay dead and seen, and cannot be replayed."""


class FrontierReader(Protocol):
    """Everything that can be read without changing what is queued.

    Methods that take a crawl raise `Misconfigured` if the store has no crawl of that name.
    """

    async def crawls(self) -> list[str]:
        """Return the names of all crawls, oldest first."""

    async def counts(self, crawl: str) -> Counts:
        """Return the number of requests by state; O(1) in the number of requests."""

    async def waiting_by_pool(self, crawl: str) -> dict[str, int]:
        """Return the number of requests that wait for their turn or for a retry, by pool; no zeros."""

    async def paused(self, crawl: str) -> bool: ...

    async def value(self, crawl: str, key: str) -> bytes | None:
        """Return a value that `FrontierCrawls.set_value` or `commit` stored with the crawl."""

    async def checkpoint(self, name: str) -> bytes | None:
        """Return what the last commit stored under `name`."""

    def dead_letters(
        self,
        crawl: str,
        *,
        classes: Collection[FailureClass] = (),
        host: str = "",
        limit: int | None = None,
        before: LetterPosition | None = None,
    ) -> AsyncIterator[DeadLetter]:
        """Yield the dead letters of a crawl, latest first; with `before`, those that follow this position.

        Without `classes` and `host`, reading one page of letters takes as long however many there are.
        """

    def requests(self, crawl: str, states: Collection[str]) -> AsyncIterator[ListedRequest]:
        """Yield the requests in these states, other than `done`: `pages` and the archive have those.

        Requests move while they are listed: one may be missing, or come twice with another state. A store
        that keeps no record of requests that are gone or filtered yields none of them.
        """

    def held(self, crawl: str) -> AsyncIterator[Link]:
        """Yield the requests that are held back (`Filtered` by the rule `held`), as `readmit` takes them."""

    def pages(self, crawl: str) -> AsyncIterator[tuple[int, PageRecord]]:
        """Yield fingerprint and record of each archived page that the frontier has a record of."""

    async def generations(self, crawl: str) -> list[Generation]:
        """Return the generations that the store has, oldest first; the last one is the current one."""

    def histories(self, crawl: str, generation: int) -> AsyncIterator[tuple[int, bytes]]:
        """Yield fingerprint and record of every request that ended in a generation, at least once."""

    async def audit(self, crawl: str) -> Audit:
        """Recount every set from the data and compare it with the counters."""

    async def history(self, crawl: str, fingerprint: int, *, host: str = "") -> RequestHistory | None:
        """Return the history of one request, or None if the crawl never accepted it.

        Slow: a scan of what waits. With the host of its URL, a store may scan only the queue of that.
        """

    async def host(self, name: str) -> HostView | None:
        """Return a host as the store has it, or None if the store has no record."""

    async def stats(self, crawl: str) -> CrawlStats:
        """Return averages over the latest pages of a crawl, and its queue by host."""

    async def queues(self, max_hosts: int | None = None) -> list[HostQueue] | None:
        """Return the queue of each host over all crawls, or None if there are more than `max_hosts` hosts."""


class Frontier(Protocol):
    """Leasing and committing, and the parts of a frontier."""

    @property
    def crawls(self) -> FrontierCrawls: ...
    @property
    def hosts(self) -> FrontierHosts: ...
    @property
    def dead_letters(self) -> FrontierDeadLetters: ...
    @property
    def reader(self) -> FrontierReader: ...

    async def add(self, crawl: str, links: Sequence[Link]) -> Added:
        """Accept the links that the crawl has not seen. Idempotent."""

    async def readmit(
        self, crawl: str, links: Sequence[Link], rule: FailureClass = FailureClass.ROBOTS
    ) -> int:
        """Queue the links again whose requests a rule had filtered; return how many. Idempotent.

        The rule is `robots` or `held`: of other filtered requests a store keeps too little.

        They are new requests, with nothing charged, and their fingerprints stay seen.
        """

    async def lease(
        self,
        *,
        holder: str,
        limit: int,
        ttl: float,
        pools: Sequence[str] = ("http",),
        crawls: Sequence[str] | None = None,
    ) -> Grant:
        """Lease up to `limit` requests whose host is due, for `ttl` seconds.

        `crawls` restricts the lease to some open crawls; None: all of them. If the grant is not full, its
        `wait` is the number of seconds after which another call can return more.
        """

    async def extend(self, leases: Sequence[Lease], ttl: float) -> list[Lease]:
        """Move deadlines to `ttl` seconds from now, never earlier; return the leases that are still held."""

    def holds(self, lease: Lease) -> bool:
        """Return True if, as far as this process knows, a settlement of the lease would be accepted now."""

    async def held(self, leases: Sequence[Lease]) -> list[Lease]:
        """Return the leases whose settlement would be accepted now."""

    def keep_until_settled(self, leases: Sequence[Lease]) -> None:
        """Keep these leases past their deadlines: their pages are about to be written."""

    def mark_landed(self, leases: Sequence[Lease]) -> None:
        """Record that requests have left the wire, although they are not settled yet."""

    async def reclaim(self) -> int:
        """Take back the leases whose deadline has passed; return how many."""

    async def commit(
        self,
        settlements: Sequence[Settlement] = (),
        acknowledgements: Sequence[Acknowledgement] = (),
        checkpoints: Mapping[str, bytes] = {},
        crawl_state: Mapping[str, Mapping[str, bytes]] = {},
    ) -> Committed:
        """Settle leases, acknowledge pages, and store checkpoints and values of crawls."""

    async def settle(self, settlements: Sequence[Settlement]) -> Committed:
        """End attempts, each with its outcome and the links it found."""

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> Committed:
        """End the parsing of pages that were settled as `Fetched`."""

    def parsing(self, crawl: str) -> AsyncIterator[Unparsed]:
        """Yield the fetched pages that no process is parsing."""

    async def earlier_pages(
        self, crawl: str, fingerprints: Sequence[int], *, host: str = ""
    ) -> Mapping[int, bytes]:
        """Return the records (`PageRecord.history`) of these pages in the crawl's earlier generations.

        Of several, that of the latest generation which has fetched the page. `host` is the host of all of
        them: a sharded store then asks one shard.
        """
