"""Looking at a fleet's store from outside: its crawls, its stages and its workers."""

from collections.abc import Collection
from dataclasses import replace

from shoal.frontier.redis import RedisFrontier
from shoal.model import crawl_totals as sums
from shoal.redis_client import RedisClient
from shoal.services.inspect.status import CrawlStatus, Fleet, Stage, StoreStatus, crawl_status
from shoal.sinks.names import public_name
from shoal.stores.redis.backlog import on_their_way
from shoal.stores.redis.crawls import Crawls
from shoal.stores.redis.workers import Heartbeat, OutputActivity, Workers, served_pools, unserved_pools

__all__ = ["Heartbeat", "OutputActivity", "fleet_status", "look_at"]

MOST_HOSTS = 10_000  # that one look goes through: each takes the store some 10 µs


async def fleet_status(dsn: str, name: str = "") -> StoreStatus:
    """Look at a fleet's store."""
    async with RedisClient.open(dsn, advise=False) as store:
        status = await look_at(store, name)
        queues = await RedisFrontier(store).reader.queues(MOST_HOSTS)
        return replace(status, hosts=queues and [queue for queue in queues if queue.queued])


async def look_at(store: RedisClient, name: str = "") -> StoreStatus:
    """Count the requests of every crawl by state, what waits between the stages, and who is at work.

    `name` is what people know the store by, where that is not its address.
    """
    frontier = RedisFrontier(store)
    workers = await Workers(store).all()
    served = served_pools(workers)
    crawls = [await _crawl(frontier, name, served) for name in await frontier.reader.crawls()]
    stages = {crawl.name: await _stages(store, crawl) for crawl in crawls}
    outputs = {record.name: tuple(map(public_name, record.outputs)) for record in await Crawls(store).all()}
    fleet = Fleet(workers, stages, outputs)
    return StoreStatus(name or str(store.dsn), None, crawls, fleet)


async def _crawl(frontier: RedisFrontier, name: str, served: Collection[str]) -> CrawlStatus:
    kept = await frontier.reader.values(name)
    parts = [sums.CrawlTotals.load(value) for key, value in kept.items() if key.startswith(sums.PART)]
    status = await crawl_status(frontier.reader, name, sums.total(parts))
    waiting = await frontier.reader.waiting_by_pool(name)
    return replace(status, unserved_pools=unserved_pools(waiting, served))


async def _stages(store: RedisClient, crawl: CrawlStatus) -> dict[str, Stage]:
    counts = crawl.counts
    return {
        "fetch": Stage(counts["waiting"] + counts["delayed"], counts["leased"]),
        "parse": Stage(counts["parsing"]),
        "sink": Stage(await on_their_way(store, crawl.name)),  # pages whose items are not in every output
    }
