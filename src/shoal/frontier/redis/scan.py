"""Reads the keys of a shard in batches: no call blocks the server for long, however much there is."""

from collections.abc import AsyncIterator

from shoal.frontier.redis import keys
from shoal.frontier.redis.records import StoredHost, unpack_host
from shoal.redis_client import RedisClient

BATCH = 500


class ShardScan:
    def __init__(self, store: RedisClient, tag: str) -> None:
        self._store = store
        self._tag = tag

    async def list(self, key: str) -> AsyncIterator[bytes]:
        first = 0
        while found := await self._store.do(self._tag, "LRANGE", key, first, first + BATCH - 1):
            for entry in found:
                yield entry
            if len(found) < BATCH:
                return
            first += BATCH

    async def hash(self, key: str) -> AsyncIterator[tuple[bytes, bytes]]:
        """Yield fields and values of a hash; each field once, though HSCAN may return one twice."""
        cursor, seen = b"0", set()
        while True:
            cursor, found = await self._store.do(self._tag, "HSCAN", key, cursor, "COUNT", BATCH)
            for name, value in zip(found[::2], found[1::2], strict=True):
                if name not in seen:
                    seen.add(name)
                    yield name, value
            if cursor == b"0":
                return

    async def sorted(self, key: str) -> AsyncIterator[tuple[bytes, float]]:
        """Yield members and scores of a sorted set, from the lowest score to the highest."""
        first = 0
        while found := await self._store.do(self._tag, "ZRANGE", key, first, first + BATCH - 1, "WITHSCORES"):
            for member, score in zip(found[::2], found[1::2], strict=True):
                yield member, float(score)
            if len(found) < 2 * BATCH:
                return
            first += BATCH

    async def hosts(self) -> AsyncIterator[StoredHost]:
        """Yield the hosts of the shard."""
        async for name, packed in self.hash(keys.hosts(self._tag)):
            yield unpack_host(name.decode(), packed)
