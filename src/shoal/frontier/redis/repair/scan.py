"""A scan of one shard: every place of every request, lanes and batches that nothing refers to, and chunks.

An aborted script leaves a request in two places, never in none. The place that is further along is kept: a
dead letter before a page to be parsed, that before a lease, that before a waiting request. A lease that is
kept although no worker holds it expires.
"""

import struct
import zlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple, TypeVar

from shoal.frontier.redis import keys
from shoal.frontier.redis.chunks import unpack_chunk
from shoal.frontier.redis.records import (
    UNREADABLE,
    unpack_entry,
    unpack_fp,
    unpack_host,
    unpack_leased,
    unpack_record,
)
from shoal.frontier.redis.repair.shard import Shard
from shoal.frontier.redis.scan import BATCH, ShardScan
from shoal.frontier.redis.seen import bucket_of, seen_hash
from shoal.frontier.redis.shard_client import chunks
from shoal.frontier.redis.spill import IN_SERVER
from shoal.redis_client import RedisClient, ScriptArgument, key_names

T = TypeVar("T")

SEEN_PER_CALL, MOVED_PER_CALL = 200, 50
DEAD, PARSING, LEASED, DELAYED, RETURNED, FRESH = range(6)  # the place to keep first


# --- the places of requests ------------------------------------------------------------------------------


class Place(NamedTuple):
    fingerprint: int
    rank: tuple[int, int]
    kind: str  # as repair_duplicates.lua takes it
    key: str
    member: bytes


def _read(unpack: Callable[[bytes], T], packed: bytes) -> T | None:
    """Unpack an entry; None: it cannot be read, which the audit reports."""
    try:
        return unpack(packed)
    except UNREADABLE:
        return None


class PlaceScan:
    """Reads every place of the requests of a crawl, and keeps each request in one."""

    def __init__(self, shard: Shard, crawl: int) -> None:
        self._shard = shard
        self._crawl = crawl
        self.known: set[int] = set()  # fingerprints that were found
        self.ordinal = 0  # the latest that was found in a lane
        # Entries out of the order of their list, by its host, pool and band.
        self._disordered: dict[tuple[str, str, int], list[bytes]] = {}

    async def run(self) -> None:
        """Read all places while other callers work; each change is checked in the same atomic step."""
        twice: set[int] = set()
        batch: list[int] = []
        unseen = 0
        async for place in self._all():
            (twice if place.fingerprint in self.known else self.known).add(place.fingerprint)
            batch.append(place.fingerprint)
            if len(batch) == SEEN_PER_CALL:
                unseen += await add_to_seen(self._shard, self._crawl, batch)
                batch = []
        unseen += await add_to_seen(self._shard, self._crawl, batch)
        reordered = await self._reorder()
        removed = await self._remove_duplicates(twice)
        add = self._shard.report.add
        add("a request in two places", number=removed)
        add("a request out of the order of its list", number=reordered)
        add("a request that was missing in the seen-set", number=unseen)

    async def add_unseen(self) -> tuple[int, int]:
        """Add what is missing in the seen-set, in a frozen shard.

        A call that was aborted after `run` has read its lane may have left a request there, or in two places.
        Return how many were added, and how many places hold a request that another place holds, too.
        """
        shard, batch, added, places = self._shard, list[int](), 0, 0
        buckets = int(await shard.do("HGET", keys.seen_size(shard.tag, self._crawl), "buckets") or 1)
        async for place in self._all():
            self.known.add(place.fingerprint)
            places += 1
            batch.append(place.fingerprint)
            if len(batch) == SEEN_PER_CALL:
                added += await self._add_unseen(batch, buckets)
                batch = []
        return added + await self._add_unseen(batch, buckets), places - len(self.known)

    async def _add_unseen(self, fingerprints: Sequence[int], buckets: int) -> int:
        tag, crawl = self._shard.tag, self._crawl
        large = [name.decode() for name in await self._shard.do("SMEMBERS", keys.seen_large(tag, crawl))]
        for name in large:
            asked = [("SISMEMBER", keys.seen(tag, crawl, name), str(fp)) for fp in fingerprints]
            answers = await self._shard.pipeline(asked)
            fingerprints = [fp for fp, there in zip(fingerprints, answers, strict=True) if not there]
        bucket_keys = [keys.seen(tag, crawl, bucket_of(seen_hash(fp), buckets)) for fp in fingerprints]
        commands = [("SADD", key, str(fp)) for key, fp in zip(bucket_keys, fingerprints, strict=True)]
        added: int = sum(await self._shard.pipeline(commands))
        self._shard.report.add("a request that was missing in the seen-set", number=added)
        await self._shard.renew_freeze()
        return added

    async def _reorder(self) -> int:
        reordered, script = 0, self._shard.scripts.repair_order
        for (host, pool, band), entries in self._disordered.items():
            for some in chunks(entries, MOVED_PER_CALL):
                reordered += await self._shard.run(script, self._crawl, pool, host, band, *some)
        self._disordered = {}
        return reordered

    async def _remove_duplicates(self, twice: set[int]) -> int:
        if not twice:
            return 0
        found: dict[int, list[Place]] = {}
        async for place in self._all():
            if place.fingerprint in twice:
                found.setdefault(place.fingerprint, []).append(place)
        removed = 0
        for places in found.values():
            arguments: list[ScriptArgument] = []
            for place in sorted(places, key=lambda one: one.rank):
                arguments += [place.kind, place.key, place.member]
            removed += await self._shard.run(self._shard.scripts.repair_duplicates, *arguments)
        return removed

    async def _all(self) -> AsyncIterator[Place]:
        tag, crawl, scan = self._shard.tag, self._crawl, self._shard.scan
        for rank, key in ((DEAD, keys.dead_letters(tag, crawl)), (PARSING, keys.parsing(tag, crawl))):
            async for fp, _ in scan.hash(key):
                yield Place(unpack_fp(fp), (rank, 0), "hash", key, fp)
        async for token, _ in scan.sorted(keys.deadlines(tag)):
            batch = keys.batch(tag, token.decode())
            async for field, leased in scan.hash(batch):
                if field == keys.HEAD or (found := _read(unpack_leased, leased)) is None:
                    continue
                if found.record.crawl == crawl:
                    fingerprint = found.record.entry.fingerprint
                    yield Place(fingerprint, (LEASED, -int(token)), "hash", batch, field)
        delayed = keys.delayed(tag, crawl)
        async for packed, _ in scan.sorted(delayed):
            if (record := _read(unpack_record, packed)) is not None:
                yield Place(record.entry.fingerprint, (DELAYED, 0), "sorted", delayed, packed)
        async for place in self._waiting():
            yield place

    async def _waiting(self) -> AsyncIterator[Place]:
        tag, scan = self._shard.tag, self._shard.scan
        async for host in scan.hosts():
            for lane in host.lanes:
                if lane.crawl != self._crawl:
                    continue
                if lane.has_returned:
                    key = lane.returned(tag, host.name)
                    async for packed, _ in scan.sorted(key):
                        if (entry := _read(unpack_entry, packed)) is None:
                            continue
                        self.ordinal = max(self.ordinal, entry.ordinal)
                        yield Place(entry.fingerprint, (RETURNED, -entry.attempts), "sorted", key, packed)
                for band in lane.bands:
                    key = lane.fresh(tag, host.name, band)
                    latest = 0
                    async for packed in scan.list(key):
                        if (entry := _read(unpack_entry, packed)) is None:
                            continue
                        self.ordinal = max(self.ordinal, entry.ordinal)
                        if entry.ordinal <= latest:
                            self._disordered.setdefault((host.name, lane.pool, band), []).append(packed)
                        latest = max(latest, entry.ordinal)
                        yield Place(entry.fingerprint, (FRESH, entry.ordinal), "list", key, packed)


async def add_to_seen(shard: Shard, crawl: int, fingerprints: Sequence[int]) -> int:
    """Add fingerprints to the seen-set; return how many were missing there."""
    added = 0
    for some in chunks(fingerprints, SEEN_PER_CALL):
        arguments: list[ScriptArgument] = [crawl]
        for fp in some:
            arguments += [str(fp), seen_hash(fp)]
        added += int(await shard.run(shard.scripts.repair_seen, *arguments))
    return added


# --- batches and lanes that nothing refers to, found by the names of their keys --------------------------


class UnlinkedLane(NamedTuple):
    crawl: int
    suspect: bool
    pool: str

    def pack(self) -> bytes:
        """Pack it for repair_hosts.lua."""
        pool = self.pool.encode()
        return struct.pack(">IBB", self.crawl, self.suspect, len(pool)) + pool


class UnlinkedKeys:
    """The keys found in a shard: all batches, and lanes that their hosts do not have."""

    def __init__(self) -> None:
        self.tokens: set[str] = set()
        self.lanes: defaultdict[str, set[UnlinkedLane]] = defaultdict(set)  # by host


async def find_unlinked_keys(store: RedisClient, only: str = "") -> defaultdict[str, UnlinkedKeys]:
    """Read the names of all keys, once for all shards: a server returns them in no order.

    `only`: the tag of the one shard to look at.
    """
    unlinked: defaultdict[str, UnlinkedKeys] = defaultdict(UnlinkedKeys)
    batches: defaultdict[str, list[tuple[str, UnlinkedLane]]] = defaultdict(list)
    tags = {only} if only else set(store.tags())
    async for name in store.names(key_names.keys_with(only) if only else f"{{{store.namespace}:*"):
        key = name.decode()
        tag = key.partition("}:")[0] + "}"
        if tag not in tags:
            continue
        match keys.parse(key):
            case keys.BatchKey(token):
                unlinked[tag].tokens.add(token)
            case keys.LaneKey(crawl, suspect, pool, host):
                batches[tag].append((host, UnlinkedLane(crawl, suspect, pool)))
            case keys.ScheduleKey(crawl, suspect, pool):
                lane = UnlinkedLane(crawl, suspect, pool)
                async for member, _ in ShardScan(store, tag).sorted(key):
                    batches[tag].append((member.decode(), lane))
        if len(batches[tag]) >= BATCH:
            await _add_unknown(store, tag, batches.pop(tag), unlinked[tag])
    for tag, lanes in batches.items():
        await _add_unknown(store, tag, lanes, unlinked[tag])
    return unlinked


async def _add_unknown(
    store: RedisClient, tag: str, lanes: Sequence[tuple[str, UnlinkedLane]], unlinked: UnlinkedKeys
) -> None:
    """Add the lanes that their hosts do not have."""
    names = list(dict.fromkeys(host for host, _ in lanes))
    if not names:
        return
    states = await store.do(tag, "HMGET", keys.hosts(tag), *names)
    known = {name: _lanes_of(name, state) for name, state in zip(names, states, strict=True)}
    for host, lane in lanes:
        if lane not in known[host]:
            unlinked.lanes[host].add(lane)


def _lanes_of(name: str, state: bytes | None) -> set[UnlinkedLane]:
    if state is None:
        return set()
    try:
        lanes = unpack_host(name, state).lanes
    except UNREADABLE:
        return set()
    return {UnlinkedLane(lane.crawl, lane.is_suspect, lane.pool) for lane in lanes}


# --- spilled chunks whose requests are in another place as well ------------------------------------------


async def unregister_duplicate_chunks(shard: Shard, crawl: int, known: set[int]) -> None:
    """Unregister chunks that have a request which was found in another place."""
    async for host in shard.scan.hosts():
        for lane in host.lanes:
            if lane.crawl != crawl or lane.is_suspect:
                continue
            for id in await shard.do("ZRANGE", keys.chunks(shard.tag, crawl, lane.pool, host.name), 0, -1):
                members = await _chunk_members(shard, crawl, id)
                if _has_any(members, known) and await shard.run(
                    shard.scripts.repair_chunk, crawl, lane.pool, host.name, id, *members
                ):
                    shard.report.add(
                        "a chunk whose requests are waiting in their lane as well", f"{host.name} {lane.pool}"
                    )


async def delete_unregistered_chunks(shard: Shard, crawl: int, known: set[int]) -> None:
    """Delete chunks that belong to no lane: they were never registered, or were refilled."""
    bodies = keys.chunk_bodies(shard.tag, crawl)
    registered = await _registered_chunks(shard, crawl)
    async for id, _ in shard.scan.hash(bodies):
        if id not in registered and _has_any(await _chunk_members(shard, crawl, id), known):
            await shard.do("HDEL", bodies, id)
            shard.report.add("a chunk that belongs to no lane", id.decode())


async def _registered_chunks(shard: Shard, crawl: int) -> set[bytes]:
    registered: set[bytes] = set()
    async for host in shard.scan.hosts():
        for lane in host.lanes:
            if lane.crawl == crawl and lane.has_spilled:
                key = keys.chunks(shard.tag, crawl, lane.pool, host.name)
                registered |= set(await shard.do("ZRANGE", key, 0, -1))
    return registered


async def _chunk_members(shard: Shard, crawl: int, id: bytes) -> list[bytes]:
    """Return the requests of a chunk that is in the server; chunks in other places cannot be checked."""
    body = await shard.do("HGET", keys.chunk_bodies(shard.tag, crawl), id)
    if body is None or not body.startswith(IN_SERVER):
        return []
    try:
        return unpack_chunk(body[1:])
    except (*UNREADABLE, zlib.error):
        return []  # the audit reports it


def _has_any(members: list[bytes], known: set[int]) -> bool:
    return any(unpack_entry(member).fingerprint in known for member in members)
