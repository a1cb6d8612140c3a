"""The server's CPU time per URL, and its bytes, at growing sizes of the queue.

One shard holds everything, so that a call is one script and no cost hides behind a neighbour. At each size
the calls are those that a fleet makes: add 100, lease 50 and settle them.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from bench.fleet.server import Metered, one_shard, private_server
from bench.frontier import links, some
from shoal.frontier.redis import RedisFrontier
from shoal.model.outcome import Gone, Settlement
from shoal.model.pace import Pace, TurnRequest
from shoal.model.request import Link
from shoal.redis_client import RedisClient, Script

ADD, LEASE, TURNS = 100, 50, 20
ROUNDS = 200  # calls of each kind per figure
PACE = Pace(interval=0.05, burst=1, concurrency=4)  # every host cools down, and none holds the others up
EXISTS = Script("exists", "for _ = 1, 500 do redis.call('EXISTS', KEYS[1]) end")


@dataclass(frozen=True, slots=True)
class Cost:
    hosts: int
    queued: int
    add_us: float  # of the server's CPU time, per URL
    again_us: float  # the same for links that have been seen
    life_us: float  # lease and settle
    turn_us: float  # leave to send, where as many requests want it at once as `TURNS`
    bytes_per_url: float  # everything: queue, seen-set, hosts
    seen_bytes: float  # of that, the seen-set, by what its buckets say
    exists_us: (
        float  # for comparison: the cheapest command from a script, at the same time on the same machine
    )


async def costs(hosts: int, sizes: list[int], *, server: str) -> list[Cost]:
    """Measure at each number of queued URLs, growing one queue."""
    found = []
    async with private_server(name=server) as metered, one_shard(metered) as store:
        frontier = RedisFrontier(store)
        await frontier.crawls.open("bench", pace=PACE)
        source, empty, queued = links(hosts), await metered.memory(), 0
        for size in sizes:
            while queued < size:
                await frontier.add("bench", some(source, 200))
                queued += 200
            used, seen = await metered.memory() - empty, await _seen_bytes(metered)
            exists = await _exists(metered, store)
            added, again = await _adding(metered, frontier, source)
            life = await _lives(metered, frontier)
            turn = await _turns(metered, frontier, hosts)
            queued += ROUNDS * (ADD - LEASE)
            found.append(Cost(hosts, size, added, again, life, turn, used / size, seen / size, exists))
    return found


async def _adding(server: Metered, frontier: RedisFrontier, source: Iterator[Link]) -> tuple[float, float]:
    batches = [some(source, ADD) for _ in range(ROUNDS)]
    figures = []
    for _ in ("new", "seen"):
        before = await server.cpu()
        for batch in batches:
            await frontier.add("bench", batch)
        figures.append((await server.cpu() - before) / (ROUNDS * ADD) * 1e6)
    return figures[0], figures[1]


async def _lives(server: Metered, frontier: RedisFrontier) -> float:
    before, number = await server.cpu(), 0
    for _ in range(ROUNDS):
        grant = await frontier.lease(holder="bench", limit=LEASE, ttl=60.0)
        number += len(grant.leases)
        await frontier.settle([Settlement(lease, Gone(404)) for lease in grant.leases])
    return (await server.cpu() - before) / number * 1e6


async def _turns(server: Metered, frontier: RedisFrontier, hosts: int) -> float:
    before, number = await server.cpu(), 0
    for _ in range(ROUNDS):
        names = [f"host-{(number + one) % hosts}.example" for one in range(TURNS)]
        await asyncio.gather(*(frontier.turn(TurnRequest(name, 0.05, 0.0, 0.0)) for name in names))
        number += TURNS
    return (await server.cpu() - before) / number * 1e6


async def _exists(server: Metered, store: RedisClient) -> float:
    before = await server.cpu()
    for _ in range(ROUNDS):
        await store.run(EXISTS, store.tag(0), [])
    return (await server.cpu() - before) / (ROUNDS * 500) * 1e6


async def _seen_bytes(server: Metered) -> int:
    """Add up the buckets of the seen-set, by a sample of them."""
    buckets = int(await server.ask("HGET", "{shoal:00}:sm:1", "buckets"))
    sample = range(0, buckets, max(1, buckets // 200))
    sizes = [await server.ask("MEMORY", "USAGE", f"{{shoal:00}}:s:1:{bucket}") for bucket in sample]
    return int(sum(sizes) / len(sizes) * buckets)
