"""The order in which a store is repaired."""

import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType

from shoal.frontier.redis.frontier import RedisFrontier
from shoal.frontier.redis.repair.fixes import (
    repair_announcements,
    repair_dates,
    repair_hosts,
    repair_leases,
    repair_meta,
)
from shoal.frontier.redis.repair.recount import repair_counters
from shoal.frontier.redis.repair.scan import (
    PlaceScan,
    UnlinkedKeys,
    add_to_seen,
    delete_unregistered_chunks,
    find_unlinked_keys,
    unregister_duplicate_chunks,
)
from shoal.frontier.redis.repair.shard import FaultReport, Shard

Archived = Callable[[str], Awaitable[Mapping[str, Collection[int]]]]
"""Returns, by shard, the fingerprints of the pages that the archive of a crawl holds."""


async def repair_crawls(
    frontier: RedisFrontier, crawls: Collection[str], archived: Archived | None = None
) -> list[str]:
    """Repair these crawls in every shard; return one line per kind of fault.

    Workers may be running: they wait while a shard is frozen. `archived` is called for a crawl whose seen-set
    has forgotten requests that have ended.
    """
    await frontier.crawls.sweep_deleted()
    client = frontier.client
    numbers = {name: number for name, number in (await client.numbers()).items() if name in crawls}
    report, freezer = FaultReport(), secrets.token_hex(8)
    unlinked = await find_unlinked_keys(client.store)
    shards = [Shard(client.store, client.scripts, tag, freezer, report) for tag in client.store.tags()]
    forgotten: Counter[str] = Counter()
    for shard in shards:
        forgotten += await _repair(shard, unlinked[shard.tag], numbers)
    for name, number in forgotten.items():
        if archived is not None:
            pages = await archived(name)
            number -= await _remember(shards, name, numbers[name], pages)
        report.add(
            f"{name}: requests that have ended and the seen-set has forgotten: not restored", number=number
        )
    return report.lines()


async def repair_shard(frontier: RedisFrontier, tag: str, unreadable: Mapping[int, float]) -> list[str]:
    """Repair one shard after entries that could not be read were taken out of it; return what was wrong.

    `unreadable`: by number of a crawl, how many requests those entries held at most. As many of the requests
    that are in no state any more count as given up.
    """
    client, report = frontier.client, FaultReport()
    unlinked = await find_unlinked_keys(client.store, tag)
    shard = Shard(client.store, client.scripts, tag, secrets.token_hex(8), report)
    await _repair(shard, unlinked[tag], await client.numbers(), unreadable)
    return report.lines()


async def _repair(
    shard: Shard,
    unlinked: UnlinkedKeys,
    crawls: Mapping[str, int],
    unreadable: Mapping[int, float] = MappingProxyType({}),
) -> Counter[str]:
    """Repair a shard; return how many ended requests of each crawl its seen-set has forgotten."""
    async with shard.frozen():
        with shard.reporting_faults():
            await repair_hosts(shard, unlinked.lanes, await repair_leases(shard, unlinked.tokens))
    places = {number: await _keep_in_one_place(shard, number) for number in crawls.values()}
    forgotten: Counter[str] = Counter()
    async with shard.frozen():
        with shard.reporting_faults():
            await repair_hosts(shard, unlinked.lanes, await repair_leases(shard, set()))
        await repair_meta(shard, ordinal=max((found.ordinal for found in places.values()), default=0))
        for name, number in crawls.items():
            with shard.reporting_faults():
                await repair_announcements(shard, name, number)
            await repair_dates(shard, number)
            if not shard.faulty:
                await delete_unregistered_chunks(shard, number, places[number].known)
                forgotten[name] += await repair_counters(
                    shard, name, number, unreadable=unreadable.get(number, 0)
                )
    return +forgotten


async def _remember(
    shards: Collection[Shard], name: str, number: int, pages: Mapping[str, Collection[int]]
) -> int:
    """Add archived pages to the seen-sets that have forgotten them; return how many were added."""
    added = 0
    for shard in shards:
        if new := await add_to_seen(shard, number, list(pages.get(shard.tag, ()))):
            added += new
            async with shard.frozen():
                await repair_counters(shard, name, number)
    if added:
        next(iter(shards)).report.add("a page in the archive that the seen-set had forgotten", number=added)
    return added


async def _keep_in_one_place(shard: Shard, crawl: int) -> PlaceScan:
    """Keep each request in one place; return the scan, with the fingerprints that are in any."""
    places = PlaceScan(shard, crawl)
    await places.run()
    await unregister_duplicate_chunks(shard, crawl, places.known)
    return places
