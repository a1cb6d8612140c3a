"""The order in which a store is repaired."""

import secrets
from collections.abc import Collection, Mapping
from types import MappingProxyType

from shoal.frontier.redis.frontier import RedisFrontier
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


async def repair_crawls(frontier: RedisFrontier, crawls: Collection[str]) -> list[str]:
    """Repair these crawls in every shard; return one line per kind of fault.

    Workers may be running: they wait while a shard is frozen.
    """
    await frontier.crawls.sweep_deleted()
    client = frontier.client
    numbers = {name: number for name, number in (await client.numbers()).items() if name in crawls}
    report, freezer = FaultReport(), secrets.token_hex(8)
    unlinked = await find_unlinked_keys(client.store)
    for tag in client.store.tags():
        await _repair(Shard(client.store, client.scripts, tag, freezer, report), unlinked[tag], numbers)
    return report.lines()


async def repair_shard(frontier: RedisFrontier, tag: str, lost: Mapping[int, float]) -> list[str]:
    """Repair one shard after entries that could not be read were taken out of it; return what was wrong.

    `lost`: by number of a crawl, how many requests those entries held at most. As many of the requests that
    are in no place any more count as given up.
    """
    client, report = frontier.client, FaultReport()
    unlinked = await find_unlinked_keys(client.store, tag)
    shard = Shard(client.store, client.scripts, tag, secrets.token_hex(8), report)
    await _repair(shard, unlinked[tag], await client.numbers(), lost)
    return report.lines()


async def _repair(
    shard: Shard,
    unlinked: UnlinkedKeys,
    crawls: Mapping[str, int],
    lost: Mapping[int, float] = MappingProxyType({}),
) -> None:
    async with shard.frozen():
        await repair_hosts(shard, unlinked.lanes, await repair_leases(shard, unlinked.tokens))
    known = {number: await _keep_in_one_place(shard, number) for number in crawls.values()}
    async with shard.frozen():
        await repair_hosts(shard, unlinked.lanes, await repair_leases(shard, set()))
        for name, number in crawls.items():
            await repair_announcements(shard, name, number)
            await repair_dates(shard, number)
            await delete_unregistered_chunks(shard, number, known[number])
            await repair_counters(shard, name, number, lost=lost.get(number, 0))


async def _keep_in_one_place(shard: Shard, crawl: int) -> set[int]:
    """Keep each request in one place; return the fingerprints that are in any."""
    places = PlaceScan(shard, crawl)
    await places.run()
    await unregister_duplicate_chunks(shard, crawl, places.known)
    return places.known
