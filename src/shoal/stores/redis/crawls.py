"""The crawls of a shared store, as they were submitted.

A record is written when the seeds are in the frontier, so a worker that finds a crawl also finds its work.
"""

import msgspec

from shoal.redis_client import RedisClient, key_names
from shoal.redis_client.quarantine import NO_CRAWL, Quarantine, Unreadable
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
        found = await self._store.do(self._tag, "GET", self._news) or b"0"
        try:
            return int(found)
        except ValueError as error:
            await self._set_aside(Unreadable(self._news, "string", b"", str(error)))
            return 0

    async def get(self, name: str) -> CrawlRecord | None:
        packed = await self._store.do(self._tag, "HGET", self._key, name)
        return None if packed is None else await self._decode(name.encode(), packed)

    async def all(self) -> list[CrawlRecord]:
        """Return the records, sorted by name; those that cannot be read go to the quarantine."""
        flat: list[bytes] = await self._store.do(self._tag, "HGETALL", self._key)
        found = [await self._decode(*pair) for pair in zip(flat[::2], flat[1::2], strict=True)]
        return sorted((one for one in found if one is not None), key=lambda record: record.name)

    async def damaged(self) -> list[str]:
        """Return the names of crawls whose record could not be read, and was not submitted again."""
        entries = await Quarantine(self._store).entries(NO_CRAWL)
        lost = {entry.entry_id for entry in entries if entry.place == self._key and entry.entry_id}
        names: list[bytes] = await self._store.do(self._tag, "HKEYS", self._key)
        return sorted(lost - {name.decode(errors="replace") for name in names})

    async def _decode(self, name: bytes, packed: bytes) -> CrawlRecord | None:
        try:
            record = _decode(packed)
            if record.name != name.decode():
                raise ValueError(f"it is the record of {record.name!r}")
        except (msgspec.DecodeError, ValueError) as error:
            await self._set_aside(Unreadable(self._key, "hash", name, str(error)))
            return None
        return record

    async def _set_aside(self, entry: Unreadable) -> None:
        await Quarantine(self._store).move(self._tag, NO_CRAWL, [entry])

    async def delete(self, name: str) -> None:
        """Delete the record of a crawl; its data stays in the frontier."""
        await self._store.do(self._tag, "HDEL", self._key, name, replicated=True)


_decode = msgspec.msgpack.Decoder(CrawlRecord).decode
