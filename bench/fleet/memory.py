"""What one host with a long queue takes, when the tail of its queue is spilled."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.fleet.server import Metered, one_shard, private_server
from bench.frontier import links, some
from shoal.frontier.redis import RedisFrontier, keys
from shoal.frontier.redis.chunks import FolderChunks
from shoal.frontier.redis.scripts import Scripts
from shoal.frontier.redis.spill import Spilling
from shoal.model.outcome import Gone, Settlement
from shoal.model.pace import Pace
from shoal.model.request import NORMAL

PLACES = ("none", "in the server", "in a folder")
NEVER = 1 << 40
PACE = Pace(interval=0.0, burst=1, concurrency=1000)


@dataclass(frozen=True, slots=True)
class Kept:
    place: str
    urls: int
    spilled: int
    server_bytes: float  # per URL, seen-set and all
    chunk_bytes: float  # per spilled URL, outside the server
    in_order: bool  # whether everything came out in the order in which it went in


async def spilled(urls: int, place: str) -> Kept:
    """Queue URLs of one host, take some out to see their order, and add up the bytes."""
    folder = Path(tempfile.mkdtemp(prefix="shoal-chunks-"))
    try:
        async with private_server() as server, one_shard(server) as store:
            chunks = FolderChunks(folder) if place == "in a folder" else None
            high_water = NEVER if place == "none" else urls // 20
            scripts = Scripts()
            spilling = Spilling(store, scripts, chunks, high_water=high_water)
            frontier = RedisFrontier(store, scripts=scripts, spilling=spilling)
            await frontier.crawls.open("bench", pace=PACE)
            source, before, expected = links(1), await server.memory(), list[int]()
            for _ in range(urls // 200):
                batch = some(source, 200)
                await frontier.add("bench", batch)
                expected += [link.fingerprint for link in batch]
            used = await server.memory() - before
            hot = await _hot(server)
            outside = _bytes_in(folder)
            taken = list[int]()
            while len(taken) < urls // 10:
                grant = await frontier.lease(holder="bench", limit=100, ttl=60.0)
                taken += [lease.fingerprint for lease in grant.leases]
                await frontier.settle([Settlement(lease, Gone(404)) for lease in grant.leases])
    finally:
        shutil.rmtree(folder)
    elsewhere = outside / max(urls - hot, 1)
    return Kept(place, urls, urls - hot, used / urls, elsewhere, taken == expected[: len(taken)])


async def _hot(server: Metered) -> int:
    """Count what waits in the server: new links of the only priority, and what came back."""
    lane = "{shoal:00}", 1, "http", "host-0.example"
    fresh = await server.ask("LLEN", keys.fresh(*lane, NORMAL))
    return int(fresh + await server.ask("ZCARD", keys.returned(*lane)))


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
