"""Where the requests of a crawl are in a shard, one by one; and those that are in two places, left in one.

A script that was cut short leaves something twice, never nowhere. Whichever place is further on is kept: a
dead letter before a page to be parsed, that before a lease, that before what waits. A lease that is kept and
that nobody holds any more runs out by itself.
"""

from collections.abc import AsyncIterator
from typing import NamedTuple

from shoal.frontier.redis import keys
from shoal.frontier.redis.records import unpack_entry, unpack_fp, unpack_leased, unpack_record
from shoal.frontier.redis.repair.shard import Shard
from shoal.frontier.redis.seen import seen_hash
from shoal.frontier.redis.shards import chunks
from shoal.redis_client import ScriptArgument

SEEN_AT_ONCE, MOVED_AT_ONCE = 200, 50
DEAD, PARSING, LEASED, DELAYED, RETURNED, FRESH = range(6)  # the best place first


class Place(NamedTuple):
    fingerprint: int
    rank: tuple[int, int]
    kind: str  # as repair_duplicates.lua has it
    key: str
    member: bytes


class Places:
    def __init__(self, shard: Shard, crawl: int) -> None:
        self._shard = shard
        self._crawl = crawl
        self.known: set[int] = set()  # fingerprints that were found
        # Entries out of the order of their list, by its host, pool and band.
        self._disorder: dict[tuple[str, str, int], list[bytes]] = {}

    async def run(self) -> None:
        """Look at every place, while others may be at work: what is changed is checked in the same step."""
        twice: set[int] = set()
        gathered: list[int] = []
        remembered = 0
        async for place in self._all():
            (twice if place.fingerprint in self.known else self.known).add(place.fingerprint)
            gathered.append(place.fingerprint)
            if len(gathered) == SEEN_AT_ONCE:
                remembered += await self._remember(gathered)
                gathered = []
        remembered += await self._remember(gathered)
        reordered = await self._reorder()
        removed = await self._leave_one(twice)
        note = self._shard.findings.note
        note("a request in two places", number=removed)
        note("a request out of the order of its list", number=reordered)
        note("a request that nobody knew to have been seen", number=remembered)

    async def _remember(self, fingerprints: list[int]) -> int:
        if not fingerprints:
            return 0
        arguments: list[ScriptArgument] = [self._crawl]
        for fp in fingerprints:
            arguments += [str(fp), seen_hash(fp)]
        return int(await self._shard.run(self._shard.scripts.repair_seen, *arguments))

    async def _reorder(self) -> int:
        reordered, script = 0, self._shard.scripts.repair_order
        for (host, pool, band), entries in self._disorder.items():
            for some in chunks(entries, MOVED_AT_ONCE):
                reordered += await self._shard.run(script, self._crawl, pool, host, band, *some)
        self._disorder = {}
        return reordered

    async def _leave_one(self, twice: set[int]) -> int:
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
        tag, crawl, slices = self._shard.tag, self._crawl, self._shard.slices
        for rank, key in ((DEAD, keys.letters(tag, crawl)), (PARSING, keys.parsing(tag, crawl))):
            async for fp, _ in slices.hash(key):
                yield Place(unpack_fp(fp), (rank, 0), "hash", key, fp)
        async for token, _ in slices.sorted(keys.deadlines(tag)):
            batch = keys.batch(tag, token.decode())
            async for field, leased in slices.hash(batch):
                if field != keys.HEAD and (record := unpack_leased(leased).record).crawl == crawl:
                    yield Place(record.entry.fingerprint, (LEASED, -int(token)), "hash", batch, field)
        delayed = keys.delayed(tag, crawl)
        async for packed, _ in slices.sorted(delayed):
            yield Place(unpack_record(packed).entry.fingerprint, (DELAYED, 0), "sorted", delayed, packed)
        async for place in self._waiting():
            yield place

    async def _waiting(self) -> AsyncIterator[Place]:
        tag, slices = self._shard.tag, self._shard.slices
        async for host in slices.hosts():
            for lane in host.lanes:
                if lane.crawl != self._crawl:
                    continue
                if lane.has_returned:
                    key = lane.returned(tag, host.name)
                    async for packed, _ in slices.sorted(key):
                        entry = unpack_entry(packed)
                        yield Place(entry.fingerprint, (RETURNED, -entry.attempts), "sorted", key, packed)
                for band in lane.bands:
                    key = lane.fresh(tag, host.name, band)
                    latest = 0
                    async for packed in slices.list(key):
                        entry = unpack_entry(packed)
                        if entry.ordinal <= latest:
                            self._disorder.setdefault((host.name, lane.pool, band), []).append(packed)
                        latest = max(latest, entry.ordinal)
                        yield Place(entry.fingerprint, (FRESH, entry.ordinal), "list", key, packed)
