"""The crawls of a shared store, as they were submitted.

A record is written when the seeds are in the frontier, so a worker that finds a crawl also finds its work.
Its signature, if it has one, is in a separate hash: workers of older versions read the records alone.
"""

import asyncio
import time
from contextlib import suppress

import msgspec

from shoal.model.errors import Misconfigured, Rejected
from shoal.redis_client import RedisClient, key_names
from shoal.redis_client.quarantine import NO_CRAWL, Quarantine, UnreadableEntry
from shoal.redis_client.script import load_script
from shoal.stores.contract.crawl_record import CrawlRecord, StoredRecords
from shoal.stores.contract.record_reader import check_record, check_signature, read_record, sign_record

_BETWEEN_WRITES_S = 0.1
_REMOVE_SECRETS = load_script("shoal.stores.redis", "remove_secrets")
DELETION_KEPT_S = 30 * 86_400.0  # how long the store records that a crawl was deleted


class Crawls:
    def __init__(self, store: RedisClient) -> None:
        self._store = store
        self._tag = store.fleet_tag
        self._key = key_names.crawl_records(self._tag)
        self._signatures = key_names.record_signatures(self._tag)
        self._news = key_names.news(self._tag)
        self._deleted = key_names.deleted_crawls(self._tag)
        # Checking a record takes a millisecond, and with every submission all of them are read.
        self._checked: dict[bytes, tuple[bytes, CrawlRecord]] = {}  # by name: as stored, and as read

    async def submit(self, record: CrawlRecord, *, key: bytes = b"") -> bool:
        """Store a record and announce it; return False if that very record was stored already.

        `key`: sign it. Raise `Misconfigured` for a record that workers would refuse to read.
        """
        try:
            check_record(record.name, record)
        except Rejected as error:
            raise Misconfigured(f"the crawl cannot be submitted: {error}") from None
        known = None
        with suppress(Misconfigured):  # what cannot be used is replaced
            known = await self.get(record.name, key=key)
        if same := known is not None and known.revision == record.revision:
            await self.announce()
        else:
            packed = msgspec.msgpack.encode(record)
            signed: tuple[str | bytes, ...] = ("HDEL", self._signatures, record.name)
            if key:
                signed = ("HSET", self._signatures, record.name, sign_record(key, record.name, packed))
            stored = ("HSET", self._key, record.name, packed)
            known_again = ("ZREM", self._deleted, record.name)
            commands = [signed, stored, known_again, *self._announcement()]
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
        found = await self._store.do(self._tag, "GET", self._news) or b"0"
        try:
            return int(found)
        except ValueError as error:
            entry = UnreadableEntry(self._news, "string", b"", str(error))
            await Quarantine(self._store).move(self._tag, NO_CRAWL, [entry])
            return 0

    async def get(self, name: str, *, key: bytes = b"") -> CrawlRecord | None:
        """Return the record of a crawl; raise `Misconfigured` for one that cannot be used.

        `key`: it has to be signed with it.
        """
        commands = [("HGET", self._key, name), ("HGET", self._signatures, name)]
        packed, signature = await self._store.pipeline(self._tag, commands)
        if packed is None:
            return None
        try:
            return _read(name.encode(), packed, signature, key)
        except Rejected as error:
            raise Misconfigured(f"crawl {name!r}: its record in the store cannot be used: {error}") from None

    async def all(self) -> list[CrawlRecord]:
        """Return the records that can be used, sorted by name."""
        return list((await self.read()).records)

    async def read(self, *, key: bytes = b"") -> StoredRecords:
        """Return the records, sorted by name, and those that cannot be used with the reason.

        `key`: records have to be signed with it.
        """
        found = await self._read(key)
        if key and found.refused:
            # A record and its signature are two writes, and this may have read them in between.
            await asyncio.sleep(_BETWEEN_WRITES_S)
            found = await self._read(key)
        return found

    async def _read(self, key: bytes) -> StoredRecords:
        commands = [("HGETALL", self._key), ("HGETALL", self._signatures)]
        stored, signed = await self._store.pipeline(self._tag, commands)
        signatures = dict(zip(signed[::2], signed[1::2], strict=True))
        records, refused = [], {}
        known, self._checked = self._checked, {}
        for name, packed in zip(stored[::2], stored[1::2], strict=True):
            before = known.get(name)
            try:
                if before is not None and before[0] == packed and not key:
                    record = before[1]
                else:
                    record = _read(name, packed, signatures.get(name), key)
                self._checked[name] = (packed, record)
                records.append(record)
            except Rejected as error:
                refused[name.decode("utf-8", "replace")[:200]] = (
                    f"its record in the store cannot be used: {error}"
                )
        return StoredRecords(sorted(records, key=lambda record: record.name), refused)

    async def remove_secrets(self, record: CrawlRecord, *, key: bytes = b"") -> bool:
        """Remove headers and cookies that may be secret from a record; False: it has been submitted again.

        `key`: sign the new record.
        """
        packed = await self._store.do(self._tag, "HGET", self._key, record.name)
        if packed is None or read_record(record.name, packed).revision != record.revision:
            return False
        stripped = msgspec.msgpack.encode(record.without_secrets())
        signature = sign_record(key, record.name, stripped) if key else b""
        arguments = (self._key, self._signatures, record.name, packed, stripped, signature)
        return bool(await self._store.run(_REMOVE_SECRETS, self._tag, arguments, replicated=True))

    async def delete(self, name: str) -> None:
        """Delete the record of a crawl, and store that it was deleted; its data stays in the frontier."""
        now = time.time()
        commands = [
            ("ZADD", self._deleted, str(now), name),
            ("ZREMRANGEBYSCORE", self._deleted, "-inf", str(now - DELETION_KEPT_S)),
            ("HDEL", self._key, name),
            ("HDEL", self._signatures, name),
        ]
        await self._store.pipeline(self._tag, commands, replicated=True)

    async def was_deleted(self, name: str) -> bool:
        """Return whether a command deleted the crawl; if not, a crawl without a record is lost."""
        return await self._store.do(self._tag, "ZSCORE", self._deleted, name) is not None


def _read(name: bytes, packed: bytes, signature: bytes | None, key: bytes) -> CrawlRecord:
    try:
        text = name.decode()
    except UnicodeDecodeError:
        raise Rejected("name: it is not UTF-8") from None
    if key:
        check_signature(key, text, packed, signature)
    return read_record(text, packed)
