"""The order in which a store is put right."""

import secrets
from collections.abc import Mapping

from shoal.frontier.redis.repair.chunks import mend_bodies, mend_chunks
from shoal.frontier.redis.repair.counters import mend_counters
from shoal.frontier.redis.repair.findings import Findings
from shoal.frontier.redis.repair.hosts import mend_hosts
from shoal.frontier.redis.repair.leases import mend_leases
from shoal.frontier.redis.repair.letters import mend_dates
from shoal.frontier.redis.repair.loose import Loose, look_for_loose
from shoal.frontier.redis.repair.pages import mend_announcements
from shoal.frontier.redis.repair.places import Places
from shoal.frontier.redis.repair.shard import Shard
from shoal.frontier.redis.scripts import Scripts
from shoal.redis_client import RedisClient


async def repair(store: RedisClient, scripts: Scripts, crawls: Mapping[str, int]) -> list[str]:
    """Put every shard right; say what was wrong, a line for each kind. `crawls` are numbers by name."""
    findings, freezer = Findings(), secrets.token_hex(8)
    loose = await look_for_loose(store)
    for tag in store.tags():
        await _repair(Shard(store, scripts, tag, freezer, findings), loose[tag], crawls)
    return findings.told()


async def _repair(shard: Shard, loose: Loose, crawls: Mapping[str, int]) -> None:
    async with shard.frozen():
        await mend_hosts(shard, loose.lanes, await mend_leases(shard, loose.tokens))
    known = {number: await _leave_in_one_place(shard, number) for number in crawls.values()}
    async with shard.frozen():
        await mend_hosts(shard, loose.lanes, await mend_leases(shard, set()))
        for name, number in crawls.items():
            await mend_announcements(shard, name, number)
            await mend_dates(shard, number)
            await mend_bodies(shard, number, known[number])
            await mend_counters(shard, name, number)


async def _leave_in_one_place(shard: Shard, crawl: int) -> set[int]:
    """Leave each request in one place; return the fingerprints that are in any."""
    places = Places(shard, crawl)
    await places.run()
    await mend_chunks(shard, crawl, places.known)
    return places.known
