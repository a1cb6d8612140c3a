"""The crawls of a shared store, as they were submitted.

A record is written when the seeds are in the frontier, so a worker that finds a crawl also finds its work.
"""

import time

import msgspec

from shoal.redis_client import RedisClient, key_names
from shoal.stores.contract.crawl_record import CrawlRecord

DELETION_KEPT_S = 30 * 86_400.0  # how long the store records that a crawl was deleted


class Crawls:
    def __init__(self, store: RedisClient) -> None:
        self._store = store
        self._tag = store.fleet_tag
        self._key = key_names.crawl_records(self._tag)
        self._news = key_names.news(self._tag)
        self._deleted = key_names.deleted_crawls(self._tag)

    async def submit(self, record: CrawlRecord) -> bool:
        """Store a record and announce it; return False if that very record was stored already."""
        known = await self.get(record.name)
        if same := known is not None and known.revision == record.revision:
            await self.announce()
        else:
            packed = msgspec.msgpack.encode(record)
            commands = [
                ("HSET", self._key, record.name, packed),
                ("ZREM", self._deleted, record.name),
                *self._announcement(),
            ]
            await self._store.pipeline(self._tag, commands, replicated=True)
        return not same

    async def announce(self) -> None:
        """Make workers look again at crawls that had nothing to do."""
        for command in self._announcement():
            await self._store.do_always(self._tag, *command)

    def _announcement(self) -> list[tuple[str, ...]]:
        # It starts with the time: a store that has lost everything must not count to the same number again.
        return [("SET", self._news, str(time.time_ns() // 1_000_000), "NX"), ("INCR", self._news)]

    async def news(self) -> int:
        """Return a number that changes with every announcement; workers poll it."""
        return int(await self._store.do(self._tag, "GET", self._news) or 0)

    async def get(self, name: str) -> CrawlRecord | None:
        packed = await self._store.do(self._tag, "HGET", self._key, name)
        return None if packed is None else _decode(packed)

    async def all(self) -> list[CrawlRecord]:
        """Return the records, sorted by name."""
        packed: list[bytes] = await self._store.do(self._tag, "HVALS", self._key)
        return sorted(map(_decode, packed), key=lambda record: record.name)

    async def delete(self, name: str) -> None:
        """Delete the record of a crawl, and store that it was deleted; its data stays in the frontier."""
        now = time.time()
        commands = [
            ("ZADD", self._deleted, str(now), name),
            ("ZREMRANGEBYSCORE", self._deleted, "-inf", str(now - DELETION_KEPT_S)),
            ("HDEL", self._key, name),
        ]
        await self._store.pipeline(self._tag, commands, replicated=True)

    async def was_deleted(self, name: str) -> bool:
        """Return whether a command deleted the crawl; if not, a crawl without a record is lost."""
        return await self._store.do(self._tag, "ZSCORE", self._deleted, name) is not None


_decode = msgspec.msgpack.Decoder(CrawlRecord).decode
