"""Damage in a shared store: what cannot be read is moved to the quarantine, and the rest continues.

Scripts and commands do not check what they read: that would cost every call something, for a fault that is
rare. Instead, a call that fails on its data, or a reader that cannot decode an entry, has the whole shard
checked (`key_families`). What is unreadable is moved away, derived state is repaired, and the call is
repeated once. Requests that were lost with it count as dead, with the class `unreadable`.
"""

import asyncio
import logging
import math
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Mapping
from contextvars import ContextVar

from shoal.frontier.redis import RedisFrontier, keys, records
from shoal.frontier.redis.repair import repair_shard
from shoal.frontier.redis.scan import BATCH, ShardScan
from shoal.model.errors import Misconfigured, ShoalError
from shoal.redis_client import RedisClient, ScriptFault, key_names
from shoal.redis_client.quarantine import NO_CRAWL, WHOLE_KEY, Quarantine, UnreadableEntry
from shoal.stores.redis.key_families import UNREADABLE, Family, check_options, family_of, pack_fields

log = logging.getLogger(__name__)

CHECK_AGAIN_S = 30.0
CHECKS = 5
MAX_REASONS = 1000  # that are remembered
OTHER_REPAIR_S = 1.0  # wait while another process repairs the shard
_NO_DAMAGE = ("NOGROUP", "BUSYGROUP")  # errors that callers handle
_UNCHECKED = frozenset(  # any bytes will do
    {"sb", "rollcall", "quarantine", "checkpoints", "F:quarantine", "F:crawls", "F:deleted", "F:signatures"}
)

HOLDS_REQUESTS = frozenset({"q", "w", "x", "dl", "l", "pg", "spb", "sp"})

_checking: ContextVar[bool] = ContextVar("checking", default=False)


class DamageCheck:
    """Called by the client of `frontier` when a call finds data that it cannot read."""

    def __init__(self, frontier: RedisFrontier) -> None:
        self._frontier = frontier
        self._client = frontier.client.store
        self._quarantine = Quarantine(self._client)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        # By tag and crawl: how many requests were moved, until the shard is repaired.
        self._lost: defaultdict[str, Counter[int]] = defaultdict(Counter)
        # By tag and reason: when nothing was found there, monotonic.
        self._clean_at: dict[tuple[str, str], float] = {}

    async def __call__(self, tag: str, fault: ScriptFault) -> bool:
        """Check the shard, and then all others if nothing is wrong there; return whether anything was."""
        if _checking.get() or any(known in str(fault) for known in _NO_DAMAGE):
            return False
        log.warning("store.checked", extra={"shard": tag, "why": str(fault)})
        # One command may read the streams of all shards.
        return bool(await self.check(tag, str(fault))) or bool(await self.check_all(str(fault)))

    async def check_all(self, why: str = "") -> int:
        """Check every shard, and the keys of the fleet; return how many entries were moved."""
        tags = (self._client.fleet_tag, *self._client.tags())
        return sum([await self.check(tag, why) for tag in tags])

    async def check(self, tag: str, why: str = "") -> int:
        """Move what cannot be read in one shard to the quarantine, and repair the rest.

        A shard in which nothing was found is not checked again soon for the same reason: that is a bug.
        """
        asked_at = time.monotonic()
        async with self._locks[tag]:
            if self._clean_at.get((tag, why), -math.inf) > asked_at - CHECK_AGAIN_S:
                return 0
            token = _checking.set(True)
            try:
                moved = await self._check_repeatedly(tag)
            finally:
                _checking.reset(token)
            if not moved and tag not in self._lost:
                if len(self._clean_at) > MAX_REASONS:
                    self._clean_at.clear()
                self._clean_at[tag, why] = time.monotonic()
            return moved

    async def _check_repeatedly(self, tag: str) -> int:
        """Check a shard again if something in it was damaged between its check and its repair."""
        for _ in range(CHECKS):
            try:
                return await self._check(tag)
            except ShoalError:
                raise
            except Exception as error:
                log.warning("store.check_failed", extra={"shard": tag, "why": str(error)})
        return 0

    async def _check(self, tag: str) -> int:
        moved = 0
        numbers = await self._numbers()
        lost, uncounted = self._lost[tag], set[int]()
        async for crawl, found in _Scan(self._client, tag).unreadable():
            taken = await self._quarantine.move(tag, crawl if crawl in numbers else NO_CRAWL, [found])
            if taken:
                lost[crawl] += requests_in(found)
            if taken and found.key == keys.counters(tag, crawl):
                uncounted.add(crawl)
            moved += taken
        for (
            crawl
        ) in uncounted:  # what has ended is not known any more: everything that is missing counts as done
            lost[crawl] = 0
        if moved:
            await self._restore_options(tag, numbers)
        if tag != self._client.fleet_tag and (moved or lost):
            await self._repair(tag, lost)
        self._lost.pop(tag, None)
        return moved

    async def _numbers(self) -> Collection[int]:
        try:
            return (await self._frontier.client.numbers()).values()
        except (*UNREADABLE, ScriptFault):  # that key is damaged, too
            return ()

    async def _restore_options(self, tag: str, crawls: Collection[int]) -> None:
        """Copy the options of crawls that a shard has lost from another: all shards have the same."""
        for crawl in crawls:
            for other in self._client.tags():
                if await self._client.do(tag, "HEXISTS", key_names.crawl_options(tag), crawl):
                    break
                options = await self._client.do(other, "HGET", key_names.crawl_options(other), crawl)
                if options is not None and not check_options(crawl, options):
                    await self._client.do(tag, "HSETNX", key_names.crawl_options(tag), crawl, options)

    async def _repair(self, tag: str, lost: Mapping[int, float]) -> None:
        try:
            repaired = await repair_shard(self._frontier, tag, lost)
        except Misconfigured:  # another worker has found the same
            await asyncio.sleep(OTHER_REPAIR_S)
            return
        log.warning("store.repaired", extra={"shard": tag, "what": "; ".join(repaired)})


class _Scan:
    """Reads everything of one shard."""

    def __init__(self, client: RedisClient, tag: str) -> None:
        self._client = client
        self._tag = tag
        self._scan = ShardScan(client, tag)

    async def unreadable(self) -> AsyncIterator[tuple[int, UnreadableEntry]]:
        """Yield what cannot be read, each with its crawl."""
        names = sorted({name async for name in self._client.names(key_names.keys_with(self._tag))})
        for begin in range(0, len(names), BATCH):
            some = names[begin : begin + BATCH]
            types = await self._client.pipeline(self._tag, [("TYPE", name) for name in some])
            for raw, type_name in zip(some, types, strict=True):
                held = type_name.decode() if isinstance(type_name, bytes) else str(type_name)
                async for crawl, found in self._in_key(raw, held):
                    yield crawl, found

    async def _in_key(self, raw: bytes, held: str) -> AsyncIterator[tuple[int, UnreadableEntry]]:
        try:
            key = raw.decode()
        except UnicodeDecodeError:
            return  # not a key that any script can compose
        known = family_of(key, fleet=self._tag == self._client.fleet_tag)
        if known is None or held == "none":  # not ours, or it has gone since
            return
        family, crawl = known
        if held != family.type:
            reason = f"the key holds a {held} instead of a {family.type}"
            yield crawl, UnreadableEntry(key, WHOLE_KEY, b"", reason)
        elif family.name not in _UNCHECKED:
            async for member, value in self._entries(family, key):
                if fault := _fault(family, member, value):
                    yield _crawl_of(family, crawl, member), UnreadableEntry(key, family.type, member, fault)
            if family.name == "sp":
                async for orphan in self._chunks_without_body(key, crawl):
                    yield crawl, orphan

    async def _chunks_without_body(self, key: str, crawl: int) -> AsyncIterator[UnreadableEntry]:
        bodies = keys.chunk_bodies(self._tag, crawl)
        async for id, _ in self._scan.sorted(key):
            if not await self._client.do(self._tag, "HEXISTS", bodies, id):
                yield UnreadableEntry(key, "zset", id, "a chunk without its body")

    async def _entries(self, family: Family, key: str) -> AsyncIterator[tuple[bytes, bytes]]:
        """Yield what the check of the family takes."""
        match family.type:
            case "hash":
                async for field, value in self._scan.hash(key):
                    yield field, value
            case "list":
                async for value in self._scan.list(key):
                    yield value, b""
            case "zset":
                async for member, _ in self._scan.sorted(key):
                    yield member, b""
            case "set":
                if await self._client.do(self._tag, "OBJECT", "ENCODING", key) != b"intset":
                    for member in await self._client.do(self._tag, "SMEMBERS", key):
                        yield member, b""
            case "stream":
                async for id, fields in self._stream(key):
                    yield id, pack_fields(fields)
            case _:
                value = await self._client.do(self._tag, "GET", key)
                if value is not None:
                    yield b"", value

    async def _stream(self, key: str) -> AsyncIterator[tuple[bytes, list[bytes]]]:
        after = b"-"
        while found := await self._client.do(self._tag, "XRANGE", key, after, "+", "COUNT", BATCH):
            for id, fields in found:
                yield id, fields
            after = b"(" + found[-1][0]


def requests_in(entry: UnreadableEntry) -> int:
    """Return how many requests were lost with an entry, at most."""
    known = family_of(entry.key, fleet=False)
    name = "" if known is None else known[0].name
    if name not in HOLDS_REQUESTS:
        return 0
    if entry.type == WHOLE_KEY:
        return sys.maxsize
    try:
        return records.chunk_size(entry.member) if name in ("spb", "sp") else 1
    except ValueError:
        return sys.maxsize


def _fault(family: Family, member: bytes, value: bytes) -> str:
    """Return why an entry cannot be read; empty: it can."""
    try:
        family.check(member, value)
    except UNREADABLE as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _crawl_of(family: Family, crawl: int, member: bytes) -> int:
    """Return the crawl of an entry: a batch has leases of several crawls."""
    if family.name == "l" and len(member) == 12:
        return int.from_bytes(member[:4], "big")
    return crawl or NO_CRAWL
