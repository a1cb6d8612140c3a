"""Where the requests of a crawl are in a shard, one by one; and those that are in two places, left in one.

A script that was cut short leaves something twice, never nowhere. Whichever place is further on is kept: a
dead letter before a page to be parsed, that before a lease, that before what waits. A lease that is kept and
that nobody holds any more runs out by itself.
"""

from collections.abc import AsyncIterator
from typing import NamedTuple

from shoal.frontier.redis import audit, keys
from shoal.frontier.redis.packing import unpack_entry, unpack_fp, unpack_leased, unpack_record
from shoal.frontier.redis.scripts import Scripts
from shoal.frontier.redis.seen import seen_hash
from shoal.frontier.redis.slices import Slices
from shoal.stores.redis import RedisStore, ScriptArgument

SEEN_AT_ONCE, MOVED_AT_ONCE = 200, 50
DEAD, PARSING, LEASED, DELAYED, RETURNED, FRESH = range(6)  # the best place first


class Place(NamedTuple):
    fingerprint: int
    rank: tuple[int, int]
    kind: str  # as mend_twice.lua has it
    key: str
    member: bytes


class Places:
    def __init__(self, store: RedisStore, scripts: Scripts, tag: str, crawl: int) -> None:
        self._store = store
        self._scripts = scripts
        self._tag = tag
        self._crawl = crawl
        self._slices = Slices(store, tag)
        self.known: set[int] = set()  # fingerprints that were found
        self.remembered = 0  # that nobody knew to have been seen
        self.removed = 0  # from a second place
        self.reordered = 0  # that were out of the order of their list
        self._disorder: dict[
            tuple[str, str, int], list[bytes]
        ] = {}  # host, pool and band of a list -> entries

    async def run(self) -> None:
        """Look at every place, while others may be at work: what is changed is checked in the same step."""
        twice: set[int] = set()
        gathered: list[int] = []
        async for place in self._all():
            (twice if place.fingerprint in self.known else self.known).add(place.fingerprint)
            gathered.append(place.fingerprint)
            if len(gathered) == SEEN_AT_ONCE:
                await self._remember(gathered)
                gathered = []
        await self._remember(gathered)
        await self._reorder()
        if twice:
            await self._leave_one(twice)

    async def _remember(self, fingerprints: list[int]) -> None:
        arguments: list[ScriptArgument] = [self._crawl]
        for fp in fingerprints:
            arguments += [str(fp), seen_hash(fp)]
        if fingerprints:
            self.remembered += await self._store.run(self._scripts.mend_seen, self._tag, arguments)

    async def _reorder(self) -> None:
        for (host, pool, band), entries in self._disorder.items():
            for first in range(0, len(entries), MOVED_AT_ONCE):
                some = entries[first : first + MOVED_AT_ONCE]
                self.reordered += await self._store.run(
                    self._scripts.mend_order, self._tag, [self._crawl, pool, host, band, *some]
                )
        self._disorder = {}

    async def _leave_one(self, twice: set[int]) -> None:
        found: dict[int, list[Place]] = {}
        async for place in self._all():
            if place.fingerprint in twice:
                found.setdefault(place.fingerprint, []).append(place)
        for places in found.values():
            arguments: list[ScriptArgument] = []
            for place in sorted(places, key=lambda one: one.rank):
                arguments += [place.kind, place.key, place.member]
            self.removed += await self._store.run(self._scripts.mend_twice, self._tag, arguments)

    async def _all(self) -> AsyncIterator[Place]:
        tag, crawl = self._tag, self._crawl
        for rank, name in ((DEAD, "d"), (PARSING, "pg")):
            async for fp, _ in self._slices.hash(f"{tag}:{name}:{crawl}"):
                yield Place(unpack_fp(fp), (rank, 0), "hash", f"{tag}:{name}:{crawl}", fp)
        async for token, _ in self._slices.sorted(f"{tag}:lx"):
            batch = f"{tag}:l:{token.decode()}"
            async for field, packed in self._slices.hash(batch):
                if field != b"_" and (record := unpack_leased(packed).record).crawl == crawl:
                    yield Place(record.entry.fingerprint, (LEASED, -int(token)), "hash", batch, field)
        async for record_, _ in self._slices.sorted(f"{tag}:dl:{crawl}"):
            fp_ = unpack_record(record_).entry.fingerprint
            yield Place(fp_, (DELAYED, 0), "sorted", f"{tag}:dl:{crawl}", record_)
        async for place in self._waiting():
            yield place

    async def _waiting(self) -> AsyncIterator[Place]:
        async for name, packed in self._slices.hash(f"{self._tag}:h"):
            host = audit.unpack_host(name.decode(), packed)
            for lane in host.lanes:
                if lane.crawl != self._crawl:
                    continue
                if lane.flags & audit.RETURNED:
                    key = lane.returned(self._tag, host.name)
                    async for entry, _ in self._slices.sorted(key):
                        unpacked = unpack_entry(entry)
                        rank = (RETURNED, -unpacked.attempts)
                        yield Place(unpacked.fingerprint, rank, "sorted", key, entry)
                for band in lane.bands:
                    key = keys.fresh(self._tag, lane.crawl, lane.pool, host.name, band)
                    latest = 0
                    async for entry in self._slices.list(key):
                        unpacked = unpack_entry(entry)
                        if unpacked.ordinal <= latest:
                            self._disorder.setdefault((host.name, lane.pool, band), []).append(entry)
                        latest = max(latest, unpacked.ordinal)
                        yield Place(unpacked.fingerprint, (FRESH, unpacked.ordinal), "list", key, entry)
