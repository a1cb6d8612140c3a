"""Spilling: a bound on the memory that one host's queue takes.

The tail of a lane, the requests that will be served last, is moved out of the server in chunks and brought
back before they are due. Workers do that along with their other calls:

 - A worker that adds to a lane checks its length now and then, and spills down to the high-water mark. It
   writes the chunk first; then one script registers it and removes its members, if all are still there.
 - A lease call returns the lanes that run short, and the worker brings back the chunk with the best score.
   Only the call that finds the chunk registered adds its members.

So a request is in the lane or in one registered chunk, at whatever point a worker dies. Chunks that are not
registered, because their writer died or they were refilled, are deleted by age and never sooner: a script
that is repeated after a lost reply may register a chunk again. Without a place for chunks, and while it
fails, they stay in the server, compressed.
"""

import logging
import random
import secrets
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from shoal.frontier.redis import keys
from shoal.frontier.redis.chunks import ChunkStore, pack_chunk, unpack_chunk
from shoal.frontier.redis.records import score_of
from shoal.frontier.redis.scripts import Scripts
from shoal.frontier.rules import LOWEST_BAND
from shoal.model.errors import Misconfigured, ShoalError
from shoal.redis_client import RedisClient
from shoal.redis_client.quarantine import Quarantine, UnreadableEntry

log = logging.getLogger(__name__)

HIGH_WATER = 20_000  # requests of a lane that stay in the server
CHUNK = 500  # members; a thousand block the server for 3 ms
CHUNKS_PER_CHECK = 8
CHECK_EVERY = 1_000  # links added to a lane, on average, over all workers
KEEP_UNREGISTERED_S = 3600.0  # far beyond the patience of any call that could still register a chunk
COLLECTED_PER_CALL = 500
AVOID_FAILED_S = 60.0  # a place that has failed is not tried again for this long: each try takes seconds
BANDS = range(LOWEST_BAND + 1)
IN_STORE, IN_SERVER = b"@", b"="  # first byte of a registered chunk: where its body is stored


class LaneName(NamedTuple):
    crawl: int
    pool: str
    host: str

    @classmethod
    def unpack(cls, name: bytes) -> "LaneName":
        """Unpack a name as `lane_name` of spilled.lua packs it."""
        crawl, length = struct.unpack_from(">IB", name)
        return cls(crawl, name[5 : 5 + length].decode(), name[5 + length :].decode())


class Tail(NamedTuple):
    """The last entries of a lane, in order."""

    band: int | None  # of the list that it is the end of; None: returned requests
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
        check_every: int = CHECK_EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._scripts = scripts
        self._chunks = chunks
        self._high_water = high_water
        self._chunk = chunk
        self._check_every = check_every
        self._clock = clock
        self._avoided_until: float | None = None  # None: the place for chunks has not failed

    async def check_lanes(self, tag: str, links: Mapping[LaneName, int]) -> None:
        """Spill lanes that are too long, after links were added; checks each only now and then."""
        for lane, number in links.items():
            # At random rather than by counting: that is right for one worker and for a thousand.
            if random.random() * self._check_every < number:
                await self.spill(tag, lane)

    async def spill(self, tag: str, lane: LaneName) -> int:
        """Spill what a lane holds above the high-water mark, up to a bound; return the number of requests."""
        spilled = 0
        for _ in range(CHUNKS_PER_CHECK):
            tail = await self._tail(tag, lane)
            if tail is None:
                break
            try:
                number = await self._spill(tag, lane, tail)
            except (ShoalError, OSError) as error:
                log.warning("frontier.spill_failed", extra={"host": lane.host, "why": str(error)})
                break
            if not number:  # the lane has changed; the next check tries again
                break
            spilled += number
        return spilled

    async def _tail(self, tag: str, lane: LaneName) -> Tail | None:
        """Return the tail of a lane that is too long: the end of a list, or of the returned requests."""
        lists = [keys.fresh(tag, *lane, band) for band in BANDS]
        returned_key = keys.returned(tag, *lane)
        sizes = [("LLEN", key) for key in lists]
        returned, *fresh = await self._store.pipeline(tag, [("ZCARD", returned_key), *sizes])
        if returned + sum(fresh) <= self._high_water:
            return None
        tails = []
        if number := self._part_of(returned):
            tails.append(Tail(None, await self._store.do(tag, "ZRANGE", returned_key, -number, -1)))
        if worst := [(band, number) for band in BANDS if (number := self._part_of(fresh[band]))]:
            band, number = worst[-1]
            tails.append(Tail(band, await self._store.do(tag, "LRANGE", lists[band], -number, -1)))
        return max((tail for tail in tails if tail.entries), key=Tail.worst, default=None)

    def _part_of(self, size: int) -> int:
        """Return how many of a list to spill: never all, and none if too few for a chunk."""
        return min(size - 1, self._chunk) if size > self._chunk // 5 else 0

    async def _spill(self, tag: str, lane: LaneName, tail: Tail) -> int:
        id = f"{len(tail.entries)}-{secrets.token_hex(8)}"
        name = f"{self._store.namespace}/{tag[1:-1].rsplit(':', maxsplit=1)[-1]}/{lane.crawl}/{id}"
        location = await self._store_chunk(name, pack_chunk(tail.entries), lane)
        source = "" if tail.band is None else tail.band
        arguments = [*lane, id, location, score_of(tail.entries[0]), source, *tail.entries]
        return int(await self._store.run(self._scripts.spill, tag, arguments))

    async def _store_chunk(self, name: str, body: bytes, lane: LaneName) -> bytes:
        """Store a chunk outside, or else in the server; return the value to register."""
        if self._chunks is None or (self._avoided_until is not None and self._clock() < self._avoided_until):
            return IN_SERVER + body
        try:
            await self._chunks.put(name, body)
        except (ShoalError, OSError) as error:
            if self._avoided_until is None:  # logged once, until it works again
                log.warning("frontier.spilled_in_store", extra={"host": lane.host, "why": str(error)})
            self._avoided_until = self._clock() + AVOID_FAILED_S
            return IN_SERVER + body
        self._avoided_until = None
        return IN_STORE + name.encode()

    async def refill(self, tag: str, wanted: Sequence[bytes]) -> int:
        """Bring back the best chunks of lanes that run short; return the number of requests."""
        return sum([await self._refill_lane(tag, LaneName.unpack(name)) for name in wanted])

    async def _refill_lane(self, tag: str, lane: LaneName) -> int:
        returned, more = 0, True
        while more:
            found = await self._store.do(tag, "ZRANGE", keys.chunks(tag, *lane), 0, 0)
            if not found:
                break
            [id] = found
            try:
                body = await self._body(tag, lane, id)
            except (ShoalError, OSError) as error:
                # The lane is returned again in a few seconds, perhaps to a worker that can read the chunk.
                log.error("frontier.refill_failed", extra={"host": lane.host, "why": str(error)})
                break
            if body is None:
                await self._report_missing(tag, lane, id)
                break
            try:
                members = unpack_chunk(body)
            except (msgspec.DecodeError, ValueError, LookupError, OverflowError) as error:
                await self._quarantine(tag, lane, id, f"{type(error).__name__}: {error}")
                break
            number, more = await self._store.run(self._scripts.refill, tag, [*lane, id, *members])
            returned += number
        return returned

    async def _body(self, tag: str, lane: LaneName, id: bytes) -> bytes | None:
        """Return the body of a chunk; None: another worker has brought it back."""
        location: bytes | None = await self._store.do(tag, "HGET", keys.chunk_bodies(tag, lane.crawl), id)
        if location is None or location.startswith(IN_SERVER):
            return location and location[1:]
        if self._chunks is None:
            raise Misconfigured(f"chunk {id.decode()} is in an object store that this worker does not have")
        return await self._chunks.get(location[1:].decode())

    async def _report_missing(self, tag: str, lane: LaneName, id: bytes) -> None:
        """Have the shard checked if a chunk is registered and has no body; it may just have been refilled."""
        if await self._store.do(tag, "ZSCORE", keys.chunks(tag, *lane), id) is not None:
            await self._store.report_damage(tag, f"chunk {id!r} of {lane.host} has no body")

    async def _quarantine(self, tag: str, lane: LaneName, id: bytes, why: str) -> None:
        """Set the body of a chunk aside; the check of the shard then finds a chunk without one."""
        body = UnreadableEntry(keys.chunk_bodies(tag, lane.crawl), "hash", id, why)
        await Quarantine(self._store).move(tag, lane.crawl, [body])
        await self._store.report_damage(tag, f"chunk {id!r} of {lane.host} cannot be read")

    async def collect(self, *, older: float = KEEP_UNREGISTERED_S) -> int:
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
        for begin in range(0, len(names), COLLECTED_PER_CALL):
            some = names[begin : begin + COLLECTED_PER_CALL]
            places = [name.rsplit("/", 2) for name in some]
            asked = [("HEXISTS", keys.chunk_bodies(tag, int(crawl)), id) for _, crawl, id in places]
            registered = await self._store.pipeline(tag, asked)
            unregistered = [name for name, known in zip(some, registered, strict=True) if not known]
            for name in unregistered:
                await chunks.delete(name)
            deleted += len(unregistered)
        return deleted
