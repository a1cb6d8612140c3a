"""The order in which a store is repaired."""

import secrets
from collections.abc import Mapping

from shoal.frontier.redis.repair.fixes import repair_announcements, repair_dates, repair_hosts, repair_leases
from shoal.frontier.redis.repair.recount import repair_counters
from shoal.frontier.redis.repair.scan import (
    PlaceScan,
    UnlinkedKeys,
    delete_unregistered_chunks,
    find_unlinked_keys,
    unregister_duplicate_chunks,
)
from shoal.frontier.redis.repair.shard import FaultReport, Shard
from shoal.frontier.redis.scripts import Scripts
from shoal.redis_client import RedisClient


async def repair(store: RedisClient, scripts: Scripts, crawls: Mapping[str, int]) -> list[str]:
    """Repair every shard; return one line per kind of fault. `crawls`: numbers by name."""
    report, freezer = FaultReport(), secrets.token_hex(8)
    unlinked = await find_unlinked_keys(store)
    for tag in store.tags():
        await _repair(Shard(store, scripts, tag, freezer, report), unlinked[tag], crawls)
    return report.lines()


async def _repair(shard: Shard, unlinked: UnlinkedKeys, crawls: Mapping[str, int]) -> None:
    async with shard.frozen():
        await repair_hosts(shard, unlinked.lanes, await repair_leases(shard, unlinked.tokens))
    known = {number: await _keep_in_one_place(shard, number) for number in crawls.values()}
    async with shard.frozen():
        await repair_hosts(shard, unlinked.lanes, await repair_leases(shard, set()))
        for name, number in crawls.items():
            await repair_announcements(shard, name, number)
            await repair_dates(shard, number)
            await delete_unregistered_chunks(shard, number, known[number])
            await repair_counters(shard, name, number)


async def _keep_in_one_place(shard: Shard, crawl: int) -> set[int]:
    """Keep each request in one place; return the fingerprints that are in any."""
    places = PlaceScan(shard, crawl)
    await places.run()
    await unregister_duplicate_chunks(shard, crawl, places.known)
    return places.known
