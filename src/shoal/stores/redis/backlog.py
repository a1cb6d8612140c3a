from shoal.frontier.redis import RedisFrontier
from shoal.redis_client import RedisClient
from shoal.sinks.fleet.writer import item_streams
from shoal.stores.contract.fleet import MAX_UNPARSED_PAGES as MOST_UNPARSED
from shoal.stores.contract.fleet import MAX_UNWRITTEN_PAGES as MOST_UNWRITTEN

__all__ = ["MOST_UNPARSED", "MOST_UNWRITTEN", "on_their_way"]


async def on_their_way(store: RedisClient, crawl: str) -> int:
    number = await RedisFrontier(store).reader.number(crawl)
    return await item_streams(store, number).length()
