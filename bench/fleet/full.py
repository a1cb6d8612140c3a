"""A server that is full: adding is refused, what is leased can be settled, and the crawl drains."""

from dataclasses import dataclass

from bench.fleet.memory import PACE
from bench.fleet.server import private_server
from bench.frontier import links, some
from shoal.frontier.redis import RedisFrontier
from shoal.model.outcome import Gone, Settlement
from shoal.model.request import Link
from shoal.redis_client import Full

ROOM = 8 << 20  # bytes for what is added
LEASE = 64


@dataclass(frozen=True, slots=True)
class Drained:
    accepted: int  # before the server was full
    refused: int  # calls of `add` that were answered with `Full` while it was
    ended: int
    left: int  # that are in another state in the end
    problems: int  # that an audit finds


async def drained(room: int = ROOM) -> Drained:
    """Fill a server, then work off what it holds; keep trying to add, as workers would."""
    async with private_server("--maxmemory-policy", "noeviction") as server:
        await server.ask("CONFIG", "SET", "maxmemory", await server.memory() + room)
        async with RedisFrontier.open(f"{server.dsn}?patience_s=1") as frontier:
            await frontier.crawls.open("bench", pace=PACE)
            source, refused, full = links(100), 0, False
            batch = some(source, 50)
            while not full:
                full = not await _added(frontier, batch)
                batch = batch if full else some(source, 50)
            accepted = (await frontier.reader.counts("bench")).accepted
            while (grant := await frontier.lease(holder="bench", limit=LEASE, ttl=600.0)).leases:
                refused += not await _added(frontier, batch)
                await frontier.settle([Settlement(lease, Gone(404)) for lease in grant.leases])
            counts = await frontier.reader.counts("bench")
            problems = len((await frontier.reader.audit("bench")).problems)
    return Drained(accepted, refused, counts.gone, counts.accepted - counts.gone, problems)


async def _added(frontier: RedisFrontier, batch: list[Link]) -> bool:
    try:
        await frontier.add("bench", batch)
    except Full:
        return False
    return True
