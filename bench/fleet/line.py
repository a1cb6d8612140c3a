"""Head of line: one host holds the best part of the queue, and 999 others wait behind it.

Fifty slots, a fetch takes 100 ms, every host may be asked once a second: 500 URLs a second are possible, if
the slots are given to hosts that are due. Every design gets the same queue and the same time, one after the
other. What the machine lets fifty slots do is measured with a list of hosts that are all due, in memory.
"""

import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from bench.fleet import naive
from bench.fleet.server import private_server
from shoal.frontier.redis import RedisFrontier
from shoal.model.outcome import Gone, Grant, Lease, Settlement
from shoal.model.pace import Pace
from shoal.model.request import Link, Request
from shoal.redis_client import RedisClient

SLOTS, FETCH, INTERVAL = 50, 0.1, 1.0
HOSTS = 1000
REQUEST = Request(url="https://host.example/")
IDEAL = min(SLOTS / FETCH, HOSTS / INTERVAL)
Queue = dict[str, tuple[int, int]]  # host -> priority and number of URLs
TOO_EARLY = 0.9 * INTERVAL  # room for clocks that are read at the client's end


@dataclass
class Served:
    """What one design managed."""

    design: str
    seconds: float
    starts: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    calls: int = 0
    cpu: float = 0.0

    @property
    def urls(self) -> int:
        return sum(map(len, self.starts.values()))

    @property
    def gaps(self) -> list[float]:
        return [after - before for starts in self.starts.values() for before, after in pairwise(starts)]

    @property
    def too_early(self) -> int:
        return sum(gap < TOO_EARLY for gap in self.gaps)


def crowd(front: int, others: int) -> Queue:
    """Name hosts with priority and number of URLs: one in front of all others."""
    behind = {f"host-{number}.example": (5, others) for number in range(HOSTS - 1)}
    return {"front.example": (1, front), **behind}


async def compare(seconds: float, front: int, others: int) -> list[Served]:
    """Run every design for `seconds`."""
    queue = crowd(front, others)
    return [
        await _reference(seconds),
        *[await _naive(name, design, seconds, queue) for name, design in naive.DESIGNS.items()],
        await _shoal(seconds, queue),
    ]


class Due:
    """Hosts that are all due, in memory: what no frontier can be better than."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    async def lease(self, *, holder: str, limit: int, ttl: float) -> Grant:
        def leased(number: int) -> Lease:
            host = f"host-{number % HOSTS}.example"
            return Lease("bench", number, 1, host, REQUEST, 1, 0, 0, number / IDEAL + ttl, INTERVAL, 1)

        return Grant([leased(number) for number in itertools.islice(self._numbers, limit)], 0.0)

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        pass


async def _reference(seconds: float) -> Served:
    served = Served("a list in memory", seconds)
    await _until(seconds, Worker(Due(), served).run())
    return served


async def pair(seconds: float, front: int, others: int) -> tuple[Served, Served]:
    """Run the frontier and the most careful of the others: both keep every host's pace."""
    queue = crowd(front, others)
    return await _naive("pop and put back", naive.PopAndPutBack, seconds, queue), await _shoal(seconds, queue)


async def _naive(name: str, design: type[naive.Design], seconds: float, queue: Queue) -> Served:
    served = Served(name, seconds)
    async with private_server() as server, RedisClient.open(server.dsn) as store:
        await naive.fill(store, queue)
        frontier, before = design(store), await server.cpu()
        await _until(seconds, _slots(served, frontier))
        served.calls, served.cpu = frontier.calls, await server.cpu() - before
    return served


async def _shoal(seconds: float, queue: Queue) -> Served:
    served = Served("shoal", seconds)
    async with private_server() as server, RedisFrontier.open(server.dsn) as frontier:
        await frontier.crawls.open("bench", pace=Pace(INTERVAL, 1, 1))
        for host, (priority, number) in queue.items():
            urls = [f"https://{host}/{page}" for page in range(number)]
            await frontier.add("bench", [Link.to(Request(url=url, priority=priority)) for url in urls])
        before = await server.cpu()
        await _until(seconds, Worker(frontier, served).run())
        served.cpu = await server.cpu() - before
    return served


async def _until(seconds: float, work: Coroutine[None, None, None]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await work


async def _slots(served: Served, design: naive.Design) -> None:
    async def slot() -> None:
        while True:
            if (host := await design.take()) is None:
                await asyncio.sleep(0.01)
                continue
            served.starts[host].append(time.monotonic())
            await asyncio.sleep(FETCH)

    async with asyncio.TaskGroup() as group:
        for _ in range(SLOTS):
            group.create_task(slot())


class Frontier(Protocol):
    async def lease(self, *, holder: str, limit: int, ttl: float) -> Grant: ...

    async def settle(self, settlements: Sequence[Settlement]) -> object: ...


class Worker:
    """As many slots on the frontier: lease for the free ones, and settle what has arrived."""

    def __init__(self, frontier: Frontier, served: Served) -> None:
        self._frontier = frontier
        self._served = served
        self._free = SLOTS
        self._ended: list[Lease] = []
        self._freed = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._settle())
            while True:
                self._freed.clear()
                grant = await self._frontier.lease(holder="bench", limit=self._free, ttl=60.0)
                self._served.calls += 1
                self._free -= len(grant.leases)
                for lease in grant.leases:
                    group.create_task(self._fetch(lease))
                if self._free:
                    await asyncio.sleep(min(grant.wait, 0.005))
                else:
                    await self._freed.wait()

    async def _fetch(self, lease: Lease) -> None:
        # When the server granted it: a client that is kept waiting for its turn on a busy machine sees less.
        self._served.starts[lease.host].append(lease.leased_until)
        await asyncio.sleep(FETCH)
        self._ended.append(lease)
        self._free += 1
        self._freed.set()

    async def _settle(self) -> None:
        while True:
            ended, self._ended = self._ended, []
            await self._frontier.settle([Settlement(lease, Gone(404)) for lease in ended])
            self._served.calls += 1
            await asyncio.sleep(0.01)
