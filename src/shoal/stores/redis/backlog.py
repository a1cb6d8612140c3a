"""How far the later stages of a fleet's crawl are behind. Apart, so that looking at one loads no crawler."""

from shoal.frontier.redis import RedisFrontier
from shoal.redis_client import RedisClient
from shoal.sinks.fleet.writer import item_streams

MOST_UNPARSED = 10_000  # pages of a crawl that wait to be parsed, beyond which it fetches no more
MOST_UNWRITTEN = 50_000  # and pages whose items wait to be written


async def on_their_way(store: RedisClient, crawl: str) -> int:
    """Count the pages whose items are not in every output yet."""
    number = await RedisFrontier(store).reader.number(crawl)
    return await item_streams(store, number).length()
