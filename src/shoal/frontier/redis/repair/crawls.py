"""Repairing crawls of a frontier, by name."""

from collections.abc import Collection

from shoal.frontier.redis.frontier import RedisFrontier
from shoal.frontier.redis.repair.run import repair


async def repair_crawls(frontier: RedisFrontier, crawls: Collection[str]) -> list[str]:
    """Repair what interrupted scripts have left behind; return what was repaired, one line per kind.

    Workers may be running: they wait while a shard is recounted.
    """
    await frontier.crawls.sweep_deleted()
    client = frontier.client
    numbers = {name: number for name, number in (await client.numbers()).items() if name in crawls}
    return await repair(client.store, client.scripts, numbers)
