"""Chunks that were spilled, and whose requests wait in their lane as well."""

from shoal.frontier.redis import keys
from shoal.frontier.redis.chunks import unpacked
from shoal.frontier.redis.records import unpack_entry
from shoal.frontier.redis.repair.shard import Shard
from shoal.frontier.redis.spill import IN_SERVER


async def mend_chunks(shard: Shard, crawl: int, known: set[int]) -> None:
    """Strike off chunks of which a request was found elsewhere."""
    async for host in shard.slices.hosts():
        for lane in host.lanes:
            if lane.crawl != crawl or lane.is_suspect:
                continue
            for id in await shard.do("ZRANGE", keys.chunks(shard.tag, crawl, lane.pool, host.name), 0, -1):
                members = await _members(shard, crawl, id)
                if _has_any(members, known) and await shard.run(
                    shard.scripts.repair_chunk, crawl, lane.pool, host.name, id, *members
                ):
                    shard.findings.note(
                        "a chunk whose requests wait in their lane as well", f"{host.name} {lane.pool}"
                    )


async def mend_bodies(shard: Shard, crawl: int, known: set[int]) -> None:
    """Delete chunks that belong to no lane: they were yet to be registered, or are back."""
    bodies = keys.chunk_bodies(shard.tag, crawl)
    registered = await _registered(shard, crawl)
    async for id, _ in shard.slices.hash(bodies):
        if id not in registered and _has_any(await _members(shard, crawl, id), known):
            await shard.do("HDEL", bodies, id)
            shard.findings.note("a chunk that belongs to no lane", id.decode())


async def _registered(shard: Shard, crawl: int) -> set[bytes]:
    registered: set[bytes] = set()
    async for host in shard.slices.hosts():
        for lane in host.lanes:
            if lane.crawl == crawl and lane.has_spilled:
                key = keys.chunks(shard.tag, crawl, lane.pool, host.name)
                registered |= set(await shard.do("ZRANGE", key, 0, -1))
    return registered


async def _members(shard: Shard, crawl: int, id: bytes) -> list[bytes]:
    """Read a chunk that is in the server; others cannot be told to be wrong from here."""
    body = await shard.do("HGET", keys.chunk_bodies(shard.tag, crawl), id)
    return unpacked(body[1:]) if body is not None and body.startswith(IN_SERVER) else []


def _has_any(members: list[bytes], known: set[int]) -> bool:
    return any(unpack_entry(member).fingerprint in known for member in members)
