"""The crawls of a shared store, as they were submitted.

A record is written when the seeds are in the frontier, so a worker that finds a crawl also finds its work.
"""

import msgspec

from shoal.redis_client import RedisClient, key_names
from shoal.stores.contract.crawl_record import CrawlRecord


class Crawls:
    def __init__(self, store: RedisClient) -> None:
        self._store = store
        self._tag = store.fleet_tag
        self._key = key_names.crawl_records(self._tag)
        self._news = key_names.news(self._tag)

    async def submit(self, record: CrawlRecord) -> bool:
        """Store a record and announce it; return False if that very record was stored already."""
        known = await self.get(record.name)
        if same := known is not None and known.revision == record.revision:
            await self.announce()
        else:
            packed = msgspec.msgpack.encode(record)
            commands = [("HSET", self._key, record.name, packed), ("INCR", self._news)]
            await self._store.pipeline(self._tag, commands, replicated=True)
        return not same

    async def announce(self) -> None:
        """Make workers look again at crawls that had nothing to do."""
        await self._store.do_always(self._tag, "INCR", self._news)

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
        """Delete the record of a crawl; its data stays in the frontier."""
        await self._store.do(self._tag, "HDEL", self._key, name, replicated=True)


_decode = msgspec.msgpack.Decoder(CrawlRecord).decode
