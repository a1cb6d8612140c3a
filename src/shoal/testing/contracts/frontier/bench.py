"""The bench of a contract test: a frontier on a clock that the test moves, and helpers to use it."""

from collections.abc import Sequence
from typing import Protocol

from shoal.frontier.contract import Frontier
from shoal.model.adaptive_delay import Signal
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Lease, Outcome, Settlement
from shoal.model.pace import Pace
from shoal.model.page import PageRecord, PageRef
from shoal.model.request import Link, Request

START = 1_800_000_000.0  # epoch seconds at which a `ManualClock` starts

TIMEOUT = Failure(FailureClass.TIMEOUT, "no answer")
BLOCKED = Failure(FailureClass.IP_BLOCKED, "403", status=403)
BROKEN = Failure(FailureClass.PARSE_ERROR, "the spider raised", status=200)
UNLIMITED = Pace(interval=0.0, burst=1, concurrency=1000)


class ManualClock:
    """A clock that moves only when `advance` is called."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class FrontierBench(Protocol):
    """A frontier and what a test can do to it."""

    clock: ManualClock

    @property
    def frontier(self) -> Frontier: ...

    async def kill(self) -> None:
        """End the owner without settling its leases and start another one. Its crawls are not open yet.

        If the frontier has no owner, end a worker and expire its leases.
        """


def link(path: str, *, host: str = "a.test", priority: int = 5, pool: str = "http", depth: int = 0) -> Link:
    return Link.to(Request(url=f"https://{host}/{path}", priority=priority, pool=pool, depth=depth))


def page(number: int = 0, *, items: int = 0, links: int = 0) -> PageRecord:
    return PageRecord(
        PageRef("segment-1", 1000 * number, 500),
        status=200,
        fetched_at=START,
        items=items,
        links=links,
        etag=f'"{number}"',
        modified="Tue, 04 Feb 2025 09:12:33 GMT",
        digest=f"sha1:{number}",
    )


async def take(
    frontier: Frontier,
    limit: int = 100,
    *,
    holder: str = "w",
    ttl: float = 60.0,
    pools: Sequence[str] = ("http",),
    crawls: Sequence[str] | None = None,
) -> list[Lease]:
    """Lease up to `limit` requests and return the leases."""
    grant = await frontier.lease(holder=holder, limit=limit, ttl=ttl, pools=pools, crawls=crawls)
    return list(grant.leases)


def paths(leases: Sequence[Lease]) -> list[str]:
    """Return the URLs of leases without their scheme."""
    return [lease.request.url.removeprefix("https://") for lease in leases]


async def settle(
    frontier: Frontier, lease: Lease, outcome: Outcome, *, signal: Signal | None = None, sent: bool = True
) -> None:
    """Settle one lease and check that it is accepted."""
    committed = await frontier.settle([Settlement(lease, outcome, signal=signal, sent=sent)])
    assert not committed.stale


async def states(frontier: Frontier, crawl: str = "c") -> dict[str, int]:
    """Return the number of requests by state, without the states that are empty."""
    counts = await frontier.reader.counts(crawl)
    return {state: count for state, count in counts.by_state().items() if count}
