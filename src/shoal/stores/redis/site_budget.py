"""The budget of a site, shared by the workers of a fleet: one counter per site, in one shard."""

from shoal.redis_client import RedisClient, key_names


class SharedSiteBudget:
    """See `SiteBudget`."""

    def __init__(self, store: RedisClient, crawl: int, limit: int) -> None:
        self._store = store
        self._tag = store.tag(crawl % store.shards)
        self._key = key_names.site_budget(self._tag, crawl)
        self._limit = limit

    async def take(self, site: str) -> bool:
        if int(await self._store.do(self._tag, "HINCRBY", self._key, site, 1)) <= self._limit:
            return True
        await self.give_back(site)
        return False

    async def give_back(self, site: str) -> None:
        await self._store.do(self._tag, "HINCRBY", self._key, site, -1)

    def changes(self) -> dict[str, bytes]:
        return {}  # the store has counted
