"""Reads the keys of a shard in batches: no call blocks the server for long, however much there is."""

from collections.abc import AsyncIterator, Awaitable, Callable

from shoal.frontier.redis import keys
from shoal.frontier.redis.records import UNREADABLE, StoredHost, unpack_host
from shoal.redis_client import RedisClient

BATCH = 500


async def _nothing() -> None:
    pass


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

    async def host(self, name: str) -> AsyncIterator[StoredHost]:
        """Yield one host, if the shard has it and it can be read."""
        packed = await self._store.do(self._tag, "HGET", keys.hosts(self._tag), name)
        if packed is None:
            return
        try:
            host = unpack_host(name, packed)
        except UNREADABLE:
            return
        yield host

    async def hosts(self) -> AsyncIterator[StoredHost]:
        """Yield the hosts of the shard that can be read."""
        async for name, packed in self.hash(keys.hosts(self._tag)):
            try:
                host = unpack_host(name.decode(), packed)
            except UNREADABLE:
                continue
            yield host

    async def seen_members(
        self, crawl: int, buckets: int, *, between: Callable[[], Awaitable[None]] = _nothing
    ) -> int:
        """Count the members of a seen-set; call `between` after each batch of buckets."""
        members: int = 0
        for first in range(0, buckets, BATCH):
            some = range(first, min(first + BATCH, buckets))
            sizes = [("SCARD", keys.seen(self._tag, crawl, bucket)) for bucket in some]
            members += sum(await self._store.pipeline(self._tag, sizes))
            await between()
        for name in await self._store.do(self._tag, "SMEMBERS", keys.seen_large(self._tag, crawl)):
            members += int(
                await self._store.do(self._tag, "SCARD", keys.seen(self._tag, crawl, name.decode()))
            )
        return members

    async def seen_buckets(self, crawl: int) -> int:
        """Return how many buckets a seen-set has that has lost its own record of that."""
        known = first = 0
        while True:
            some = range(first, first + BATCH)
            exist = [("EXISTS", keys.seen(self._tag, crawl, bucket)) for bucket in some]
            found = await self._store.pipeline(self._tag, exist)
            if not any(found):
                return known
            known = first + max(number for number, exists in enumerate(found) if exists) + 1
            first += BATCH
