"""Many workers on one server: who starves, how long a call for work takes, and what idle ones ask for."""

import asyncio
import random
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median, quantiles

from bench.fleet.server import private_server
from shoal.frontier.redis import RedisFrontier
from shoal.model.outcome import Gone, Settlement
from shoal.model.pace import Pace
from shoal.model.request import Link, Request
from shoal.redis_client import RedisClient

FETCH = 3.0  # seconds
INTERVAL = 2.0  # seconds between requests to one host
LOOPS_PER_WORKER = 10
SETTLED_DOWN = 20.0  # seconds until workers that find nothing ask as seldom as they ever will


@dataclass
class Crowd:
    """What many loops on one server have seen."""

    loops: int
    seconds: float
    calls: list[float] = field(default_factory=list)  # seconds that each call for work took
    hunger: list[float] = field(default_factory=list)  # seconds from wanting a request to having one
    starts: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))  # host -> deadlines
    cpu: float = 0.0  # seconds, of the server
    script_p99: float = 0.0  # seconds, at the server

    @property
    def p50(self) -> float:
        return median(self.calls)

    @property
    def p99(self) -> float:
        return quantiles(self.calls, n=100)[-1]

    @property
    def too_early(self) -> int:
        """Requests to one host that were granted closer together than its interval, by the server's clock."""
        gaps = [after - before for times in self.starts.values() for before, after in pairwise(sorted(times))]
        return sum(gap < INTERVAL - 1e-3 for gap in gaps)

    @property
    def urls(self) -> int:
        return sum(map(len, self.starts.values()))


async def crowd(loops: int, hosts: int, seconds: float) -> Crowd:
    """Run loops that lease one request at a time; the hosts allow 1.5 times what the loops can fetch."""
    seen = Crowd(loops, seconds)
    async with private_server() as server, RedisClient.open(server.dsn) as store:
        workers = [RedisFrontier(store) for _ in range(loops // LOOPS_PER_WORKER)]
        for worker in workers:
            await worker.crawls.open("bench", pace=Pace(INTERVAL, 1, 1))
        each = int(seconds / INTERVAL) + 5
        for host in range(hosts):
            pages = [f"https://host-{host}.example/{page}" for page in range(each)]
            await workers[0].add("bench", [Link.to(Request(url=url)) for url in pages])
        await server.ask("CONFIG", "RESETSTAT")
        before, until = await server.cpu(), time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            for number in range(loops):
                group.create_task(_loop(workers[number % len(workers)], number, seen, until))
        seen.cpu, seen.script_p99 = await server.cpu() - before, await server.script_p99()
    return seen


async def _loop(frontier: RedisFrontier, number: int, seen: Crowd, until: float) -> None:
    await asyncio.sleep(random.random() * FETCH)  # a fleet does not begin all at once
    hungry_since = time.monotonic()
    while (began := time.monotonic()) < until:
        grant = await frontier.lease(holder=f"w{number}", limit=1, ttl=60.0)
        seen.calls.append(time.monotonic() - began)
        if not grant.leases:
            await asyncio.sleep(frontier.next_look)
            continue
        [lease] = grant.leases
        seen.hunger.append(time.monotonic() - hungry_since)
        seen.starts[lease.host].append(lease.leased_until)  # the server's clock, a fixed time later
        await asyncio.sleep(FETCH)
        await frontier.settle([Settlement(lease, Gone(404))])
        hungry_since = time.monotonic()
    seen.hunger.append(time.monotonic() - hungry_since)


async def idle(workers: int, seconds: float) -> float:
    """Return the commands per worker and second of workers that have nothing to do."""
    async with private_server() as server:
        stop = asyncio.Event()

        async def worker(number: int) -> None:
            async with RedisFrontier.open(server.dsn) as frontier:
                await frontier.crawls.open("bench")
                while not stop.is_set():
                    await frontier.lease(holder=f"w{number}", limit=64, ttl=60.0)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(frontier.next_look):
                            await stop.wait()

        async with asyncio.TaskGroup() as group:
            for number in range(workers):
                group.create_task(worker(number))
            await asyncio.sleep(SETTLED_DOWN)
            before = await server.calls()
            await asyncio.sleep(seconds)
            asked = await server.calls() - before
            stop.set()
    return asked / workers / seconds
