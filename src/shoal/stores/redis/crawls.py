"""The crawls of a store, as they were submitted.

A record holds all that a worker needs for a crawl, the text of the spider's file included: workers need no
copy of it. Only a spider in a module has to be installed where the workers are. The record is written when
seeds are in the frontier: a worker that finds a crawl finds its work, too.
"""

from hashlib import sha256
from typing import Any

import msgspec

from shoal.redis_client import RedisClient, key_names
from shoal.spider.source import SpiderSource


class CrawlRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One submitted crawl."""

    name: str
    number: int = 0  # of this generation in the frontier: a crawl that was begun afresh has another one
    source: SpiderSource  # of a file, the name only; its text is below
    text: bytes = b""  # of the spider's file
    version: str = ""  # of the spider's code
    settings: dict[str, Any]  # the whole tree, the spider's own wishes applied
    hosts: tuple[str, ...] | None = None  # that are in scope; None: every host
    cookies: bytes = b"[]"  # given by the user
    outputs: tuple[str, ...] = ()
    overwrite: bool = False  # outputs that are somebody else's may be replaced
    submitted_at: float = 0.0

    @property
    def revision(self) -> str:
        """Tell one way to run the crawl from another."""
        packed = msgspec.msgpack.encode(msgspec.structs.replace(self, submitted_at=0.0), order="sorted")
        return sha256(packed).hexdigest()[:12]


class Crawls:
    def __init__(self, store: RedisClient) -> None:
        self._store = store
        self._tag = store.fleet_tag
        self._key = key_names.crawl_records(self._tag)
        self._news = key_names.news(self._tag)

    async def submit(self, record: CrawlRecord) -> bool:
        """Write a crawl down; False: that very crawl was there already. Either way there is news."""
        known = await self.get(record.name)
        if same := known is not None and known.revision == record.revision:
            await self.tell_news()
        else:
            packed = msgspec.msgpack.encode(record)
            commands = [("HSET", self._key, record.name, packed), ("INCR", self._news)]
            await self._store.pipeline(self._tag, commands, replicated=True)
        return not same

    async def tell_news(self) -> None:
        """Have workers look again at crawls that had nothing to do."""
        await self._store.do_always(self._tag, "INCR", self._news)

    async def news(self) -> int:
        """Give a number that changes whenever there is news: workers that have nothing to do look at it."""
        return int(await self._store.do(self._tag, "GET", self._news) or 0)

    async def get(self, name: str) -> CrawlRecord | None:
        packed = await self._store.do(self._tag, "HGET", self._key, name)
        return None if packed is None else _unpacked(packed)

    async def all(self) -> list[CrawlRecord]:
        """List the crawls by name."""
        flat = await self._store.do(self._tag, "HVALS", self._key)
        return sorted(map(_unpacked, flat), key=lambda record: record.name)

    async def forget(self, name: str) -> None:
        await self._store.do(self._tag, "HDEL", self._key, name, replicated=True)


_decode = msgspec.msgpack.Decoder(CrawlRecord).decode


def _unpacked(packed: bytes) -> CrawlRecord:
    return _decode(packed)
