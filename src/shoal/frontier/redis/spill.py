"""Spilling: what bounds the memory that one host's queue takes.

The tail of a lane, the requests that will go last, is taken out of the server in chunks and brought back
before it is their turn. Workers do that beside their other calls:

 - who adds to a lane looks now and then how long it has become, and spills down to the high-water mark. The
   chunk is written first; then one script registers it and removes its members, if all are still there;
 - who leases is told which lanes run short, and brings back the chunk with the best score. Only the call that
   finds the chunk registered adds its members.

So a request is in the lane or in one registered chunk, whoever dies when. Chunks that are not registered,
because their writer died or they are back, are deleted by age and never sooner: a script that is repeated
after a lost reply may register a chunk again. Without a place for chunks, and while it fails, they stay in
the server, compressed.
"""

import logging
import random
import secrets
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from shoal.frontier.redis import keys
from shoal.frontier.redis.chunks import ChunkStore, packed, unpacked
from shoal.frontier.redis.records import score_of
from shoal.frontier.redis.scripts import Scripts
from shoal.frontier.rules import LOWEST_BAND
from shoal.model.errors import Misconfigured, ShoalError
from shoal.redis_client import RedisClient

log = logging.getLogger(__name__)

HIGH_WATER = 20_000  # requests of a lane that stay in the server
CHUNK = 500  # members; a thousand hold up everybody else for 3 ms
CHUNKS_AT_ONCE = 8  # per look at a lane
LOOK_EVERY = 1_000  # links added to a lane, on average, whoever adds them
KEEP_LOOSE = 3600.0  # seconds; far beyond the patience of any call that could still register a chunk
COLLECTED_AT_ONCE = 500
AVOIDED_FOR = 60.0  # seconds in which a place that has failed is not tried again: each try takes some
BANDS = range(LOWEST_BAND + 1)
IN_STORE, IN_SERVER = b"@", b"="  # what a registered chunk begins with: where its body is


class LaneName(NamedTuple):
    crawl: int
    pool: str
    host: str

    @classmethod
    def parsed(cls, name: bytes) -> "LaneName":
        """Read a name as `wanted_name` of spilled.lua packs it."""
        crawl, length = struct.unpack_from(">IB", name)
        return cls(crawl, name[5 : 5 + length].decode(), name[5 + length :].decode())


class Tail(NamedTuple):
    """The last entries of a lane, by their order."""

    band: int | None  # of the list whose end it is; None: they came back
    entries: list[bytes]

    def worst(self) -> int:
        return score_of(self.entries[-1])


class Spilling:
    def __init__(
        self,
        store: RedisClient,
        scripts: Scripts,
        chunks: ChunkStore | None = None,
        *,
        high_water: int = HIGH_WATER,
        chunk: int = CHUNK,
        look_every: int = LOOK_EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._scripts = scripts
        self._chunks = chunks
        self._high_water = high_water
        self._chunk = chunk
        self._look_every = look_every
        self._clock = clock
        self._avoided_until: float | None = None  # None: the place for chunks has not failed

    async def added(self, tag: str, links: Mapping[LaneName, int]) -> None:
        """Look after lanes that links were just added to."""
        for lane, number in links.items():
            # By chance rather than by counting: that works out whether one worker adds or a thousand.
            if random.random() * self._look_every < number:
                await self.spill(tag, lane)

    async def spill(self, tag: str, lane: LaneName) -> int:
        """Take out what a lane holds beyond the high-water mark, a bounded part of it; return how much."""
        gone = 0
        for _ in range(CHUNKS_AT_ONCE):
            tail = await self._tail(tag, lane)
            if tail is None:
                break
            try:
                number = await self._spill(tag, lane, tail)
            except (ShoalError, OSError) as error:
                log.warning("frontier.spill_failed", extra={"host": lane.host, "why": str(error)})
                break
            if not number:  # the lane was leased from meanwhile; there will be another occasion
                break
            gone += number
        return gone

    async def _tail(self, tag: str, lane: LaneName) -> Tail | None:
        """Find what goes last in a lane that is too long: the end of a list, or of what came back."""
        lists = [keys.fresh(tag, *lane, band) for band in BANDS]
        back = keys.returned(tag, *lane)
        sizes = [("LLEN", key) for key in lists]
        returned, *fresh = await self._store.pipeline(tag, [("ZCARD", back), *sizes])
        if returned + sum(fresh) <= self._high_water:
            return None
        tails = []
        if number := self._part_of(returned):
            tails.append(Tail(None, await self._store.do(tag, "ZRANGE", back, -number, -1)))
        if worst := [(band, number) for band in BANDS if (number := self._part_of(fresh[band]))]:
            band, number = worst[-1]
            tails.append(Tail(band, await self._store.do(tag, "LRANGE", lists[band], -number, -1)))
        return max((tail for tail in tails if tail.entries), key=Tail.worst, default=None)

    def _part_of(self, size: int) -> int:
        """Say how much of a list can go: not all of it, and no less than is worth a chunk."""
        return min(size - 1, self._chunk) if size > self._chunk // 5 else 0

    async def _spill(self, tag: str, lane: LaneName, tail: Tail) -> int:
        id = f"{len(tail.entries)}-{secrets.token_hex(8)}"
        name = f"{self._store.namespace}/{tag[1:-1].rsplit(':', maxsplit=1)[-1]}/{lane.crawl}/{id}"
        kept = await self._kept(name, packed(tail.entries), lane)
        source = "" if tail.band is None else tail.band
        arguments = [*lane, id, kept, score_of(tail.entries[0]), source, *tail.entries]
        return int(await self._store.run(self._scripts.spill, tag, arguments))

    async def _kept(self, name: str, body: bytes, lane: LaneName) -> bytes:
        """Put a chunk where chunks go, or leave it to the server; return what is registered of it."""
        if self._chunks is None or (self._avoided_until is not None and self._clock() < self._avoided_until):
            return IN_SERVER + body
        try:
            await self._chunks.put(name, body)
        except (ShoalError, OSError) as error:
            if self._avoided_until is None:  # said once, until it works again
                log.warning("frontier.spilled_in_store", extra={"host": lane.host, "why": str(error)})
            self._avoided_until = self._clock() + AVOIDED_FOR
            return IN_SERVER + body
        self._avoided_until = None
        return IN_STORE + name.encode()

    async def refill(self, tag: str, wanted: Sequence[bytes]) -> int:
        """Bring back the best chunks of the lanes that a lease said run short; return how many requests."""
        return sum([await self._refill_lane(tag, LaneName.parsed(name)) for name in wanted])

    async def _refill_lane(self, tag: str, lane: LaneName) -> int:
        back, more = 0, True
        while more:
            found = await self._store.do(tag, "ZRANGE", keys.chunks(tag, *lane), 0, 0)
            if not found:
                break
            [id] = found
            try:
                body = await self._body(tag, lane, id)
            except (ShoalError, OSError) as error:
                # The lane asks again in a few seconds, and whoever is asked then may have more luck.
                log.error("frontier.refill_failed", extra={"host": lane.host, "why": str(error)})
                break
            if body is None:
                break
            number, more = await self._store.run(self._scripts.refill, tag, [*lane, id, *unpacked(body)])
            back += number
        return back

    async def _body(self, tag: str, lane: LaneName, id: bytes) -> bytes | None:
        """Read a chunk; None: somebody else has brought it back."""
        kept: bytes | None = await self._store.do(tag, "HGET", keys.chunk_bodies(tag, lane.crawl), id)
        if kept is None or kept.startswith(IN_SERVER):
            return kept and kept[1:]
        if self._chunks is None:
            raise Misconfigured(f"chunk {id.decode()} lies in an object store that this worker has not")
        return await self._chunks.get(kept[1:].decode())

    async def collect(self, *, older: float = KEEP_LOOSE) -> int:
        """Delete chunks that were written longer ago than `older` seconds and are not registered."""
        deleted = 0
        if self._chunks is not None:
            names: dict[str, list[str]] = {}
            async for name in self._chunks.older(older):
                namespace, shard, *_ = name.split("/")
                if namespace == self._store.namespace:
                    names.setdefault(f"{{{namespace}:{shard}}}", []).append(name)
            for tag, several in names.items():
                deleted += await self._collect_in(tag, several, self._chunks)
        return deleted

    async def _collect_in(self, tag: str, names: Sequence[str], chunks: ChunkStore) -> int:
        deleted = 0
        for begin in range(0, len(names), COLLECTED_AT_ONCE):
            some = names[begin : begin + COLLECTED_AT_ONCE]
            places = [name.rsplit("/", 2) for name in some]
            asked = [("HEXISTS", keys.chunk_bodies(tag, int(crawl)), id) for _, crawl, id in places]
            registered = await self._store.pipeline(tag, asked)
            loose = [name for name, kept in zip(some, registered, strict=True) if not kept]
            for name in loose:
                await chunks.delete(name)
            deleted += len(loose)
        return deleted
