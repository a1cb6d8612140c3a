"""Every backend of the frontier, ready to be tested: opened, on a clock that only moves when told to."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol

from tests.contract.clock import START, ManualClock
from tests.contract.redis_frontiers import redis_bench
from tests.model import MemoryFrontier

from shoal.frontier.redis import RedisFrontier
from shoal.frontier.sqlite import SqliteFrontier
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Lease, Outcome, Settlement
from shoal.model.pace import Pace
from shoal.model.page import PageRecord, PageRef
from shoal.model.request import Link, Request

TIMEOUT = Failure(FailureClass.TIMEOUT, "no answer")
BLOCKED = Failure(FailureClass.IP_BLOCKED, "403", status=403)
BROKEN = Failure(FailureClass.PARSE_ERROR, "the spider raised", status=200)
UNLIMITED = Pace(interval=0.0, burst=1, concurrency=1000)

AnyFrontier = MemoryFrontier | SqliteFrontier | RedisFrontier


class Bench(Protocol):
    """A frontier and what a test can do to it."""

    clock: ManualClock
    durable: bool

    @property
    def frontier(self) -> AnyFrontier: ...

    async def kill(self) -> None:
        """Let the owner die and another one take over; its crawls are still to be opened."""


class MemoryBench:
    durable = False

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.frontier = MemoryFrontier(clock)

    async def kill(self) -> None:
        self.frontier.restart()


class SqliteBench:
    durable = True

    def __init__(self, clock: ManualClock, path: Path) -> None:
        self.clock = clock
        self._path = path
        self._stack = AsyncExitStack()

    async def open(self) -> None:
        self.frontier = await self._stack.enter_async_context(
            SqliteFrontier.open(self._path, clock=self.clock)
        )

    async def close(self) -> None:
        await self._stack.aclose()

    async def kill(self) -> None:
        await self.close()  # which gives nothing back, just like a death
        await self.open()


@asynccontextmanager
async def memory(_: Path) -> AsyncIterator[Bench]:
    yield MemoryBench(ManualClock())


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncIterator[Bench]:
    bench = SqliteBench(ManualClock(), folder / "store.db")
    await bench.open()
    try:
        yield bench
    finally:
        await bench.close()


def fleet(kind: str) -> Callable[[Path], AbstractAsyncContextManager[Bench]]:
    return lambda _: redis_bench(kind, ManualClock())


FLEETS = ("valkey", "redis", "sentinel", "cluster")  # without an owner, whose death would be an event
BACKENDS: dict[str, Callable[[Path], AbstractAsyncContextManager[Bench]]] = {
    "memory": memory,
    "sqlite": sqlite,
    **{kind: fleet(kind) for kind in FLEETS},
}


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


async def taken(
    frontier: AnyFrontier,
    limit: int = 100,
    *,
    holder: str = "w",
    ttl: float = 60.0,
    pools: Sequence[str] = ("http",),
    crawls: Sequence[str] | None = None,
) -> list[Lease]:
    grant = await frontier.lease(holder=holder, limit=limit, ttl=ttl, pools=pools, crawls=crawls)
    return list(grant.leases)


def paths(leases: Sequence[Lease]) -> list[str]:
    return [lease.request.url.removeprefix("https://") for lease in leases]


async def settle(
    frontier: AnyFrontier, lease: Lease, outcome: Outcome, *, blocked: bool = False, sent: bool = True
) -> None:
    committed = await frontier.settle([Settlement(lease, outcome, blocked=blocked, sent=sent)])
    assert not committed.stale


async def states(frontier: AnyFrontier, crawl: str = "c") -> dict[str, int]:
    """Name only the states that something is in."""
    counts = await frontier.reader.counts(crawl)
    return {state: count for state, count in counts.by_state().items() if count}
