"""A recount of a crawl, shard by shard: is each request in exactly one place, and will each be served?

Members are counted, not sizes that the store has recorded. The data is read in batches while workers may
change it, so on a running crawl a few lines can be wrong. On a paused or finished crawl every line is true.
"""

import math
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from shoal.frontier.redis import keys
from shoal.frontier.redis.chunks import unpack_chunk
from shoal.frontier.redis.records import (
    EMPTY,
    RANK,
    UNREADABLE,
    StoredEntry,
    StoredHost,
    StoredLane,
    announced_as,
    chunk_size,
    unpack_entry,
    unpack_fp,
    unpack_host,
    unpack_leased,
    unpack_letter,
    unpack_parsing,
    unpack_record,
)
from shoal.frontier.redis.scan import BATCH, ShardScan
from shoal.frontier.redis.seen import bucket_of, seen_hash
from shoal.frontier.redis.spill import IN_SERVER
from shoal.frontier.results import STORED_STATES, Audit, shown_states
from shoal.frontier.rules import place_in_line
from shoal.model.request import trace_id
from shoal.redis_client import RedisClient

MAX_PROBLEMS = 20  # of one kind that are listed one by one


@dataclass(slots=True)
class ShardRecount:
    """The results so far."""

    found: Counter[str] = field(default_factory=Counter)
    recorded: Counter[str] = field(default_factory=Counter)  # the counters of the store
    places: dict[int, str] = field(default_factory=dict)  # fingerprint -> the state it was found in
    problems: list[str] = field(default_factory=list)
    _kinds: Counter[str] = field(default_factory=Counter)

    def place(self, state: str, fingerprint: int) -> None:
        self.found[state] += 1
        if fingerprint in self.places:
            both = f"{self.places[fingerprint]} and {state}"
            self.problem(f"in two places, {both}: {trace_id(fingerprint)}")
        self.places[fingerprint] = state

    def problem(self, line: str) -> None:
        kind = line.partition(":")[0]
        self._kinds[kind] += 1
        if self._kinds[kind] <= MAX_PROBLEMS:
            self.problems.append(line)
        elif self._kinds[kind] == MAX_PROBLEMS + 1:
            self.problems.append(f"{kind}: and more")

    def compare(self, what: str, recorded: float, found: float) -> None:
        if recorded != found:
            self.problem(f"the counter of {what} says {recorded:.0f}, the data {found:.0f}")


async def audit(store: RedisClient, crawl: int) -> Audit:
    """Recount one crawl, and find lanes that would never be served."""
    recount = ShardRecount()
    seen, held = Seen(), 0
    for tag in store.tags():
        seen += await _ShardAudit(store, tag, crawl, recount).run()
        held += int(await store.do(tag, "HLEN", keys.held(tag, crawl)))
    recorded, found = recount.recorded, recount.found
    # A request that ended without a dead letter leaves only a number; the sum shows whether any is missing.
    for ended in ("done", "gone", "filtered"):
        found[ended] = recorded[ended]
    found["dead"] += recorded["purged"]
    # A delay that has ended counts as delayed until the next call.
    recount.compare(
        "waiting or delayed", recorded["waiting"] + recorded["delayed"], found["waiting"] + found["delayed"]
    )
    for state in STORED_STATES[2:]:
        recount.compare(state, recorded[state], found[state])
    for pool in sorted({name for name in (*recorded, *found) if name.startswith("pool.")}):
        recount.compare(f"waiting or delayed in {pool}", recorded[pool], found[pool])
    _compare_seen(recount, seen)
    for what in ("dead", "filtered"):
        by_class = sum(count for name, count in recorded.items() if name.startswith(f"{what}."))
        recount.compare(f"{what} by class", recorded[what], by_class)
    recount.compare("held", recorded["filtered.held"], held)
    in_states = sum(found[state] for state in STORED_STATES)
    missing = max(recorded["accepted"], seen.members) - in_states - seen.lost
    if missing < 0:
        recount.problem(f"{-missing} requests more than were accepted: they are in two states")
    lost = seen.lost + max(missing, 0)
    if lost:
        recount.problem(f"{lost} requests are lost: they were accepted, and are in no state")
    shown = shown_states({state: found[state] for state in STORED_STATES}, held=held)
    return Audit(shown, recount.problems, lost)


@dataclass(frozen=True, slots=True)
class Seen:
    """The seen-set of a crawl."""

    members: int = 0  # counted; of a Bloom filter, as recorded
    lost: int = 0  # as a repair has recorded it

    def __add__(self, other: "Seen") -> "Seen":
        return Seen(self.members + other.members, self.lost + other.lost)


def _compare_seen(recount: "ShardRecount", seen: Seen) -> None:
    forgotten = recount.recorded["accepted"] - seen.members
    if forgotten > 0:
        recount.problem(
            f"the seen-set has lost {forgotten} of {recount.recorded['accepted']} accepted requests:"
            " links to them are followed again, and their items written twice"
        )
    else:
        recount.compare("accepted", recount.recorded["accepted"], seen.members)


T = TypeVar("T")


class _ShardAudit:
    def __init__(self, store: RedisClient, tag: str, crawl: int, recount: ShardRecount) -> None:
        self._store = store
        self._tag = tag
        self._crawl = crawl
        self._recount = recount
        self._scan = ShardScan(store, tag)
        self._fps: list[int] = []  # of the requests that were found here
        self._ordinal = 0  # the latest that was found

    async def run(self) -> Seen:
        """Recount a shard; return what its seen-set holds."""
        tag, crawl = self._tag, self._crawl
        flat = await self._store.do(tag, "HGETALL", keys.counters(tag, crawl))
        for name, count in zip(flat[::2], flat[1::2], strict=True):
            self._recount.recorded[name.decode()] += int(count)
        if not await self._store.do(tag, "HEXISTS", keys.crawl_options(tag), crawl):
            self._recount.problem(f"a shard without the options of the crawl serves none of it: {tag}")
        inflight = await self._leases()
        await self._hosts(inflight)
        async for record, _ in self._scan.sorted(keys.delayed(tag, crawl)):
            if (unpacked := self._read("delayed", unpack_record, record)) is not None:
                self._place("delayed", unpacked.entry)
                self._count_pool(unpacked.pool, 1)
        await self._pages()
        await self._letters()
        await self._chunks()
        await self._meta()
        return await self._seen()

    def _read(self, state: str, unpack: Callable[[bytes], T], packed: bytes) -> T | None:
        """Unpack an entry; one that cannot be read is a problem, and counts in its state."""
        try:
            return unpack(packed)
        except UNREADABLE as error:
            self._recount.found[state] += 1
            self._recount.problem(f"an entry that cannot be read: {state}, in {self._tag}: {error}")
            return None

    def _place(self, state: str, entry: StoredEntry) -> None:
        self._place_fp(state, entry.fingerprint)
        self._ordinal = max(self._ordinal, entry.ordinal)

    def _place_fp(self, state: str, fingerprint: int) -> None:
        self._recount.place(state, fingerprint)
        self._fps.append(fingerprint)

    async def _pages(self) -> None:
        """Recount the pages that are not parsed yet: each of them is announced in the stream."""
        announced = {}
        async for fp, page in self._scan.hash(keys.parsing(self._tag, self._crawl)):
            if self._read("parsing", unpack_parsing, page) is not None:
                self._place_fp("parsing", unpack_fp(fp))
                announced[announced_as(page)] = fp
        if not announced or self._store.dsn.bus:  # another bus takes the announcements out of the shard
            return
        after = b"-"
        while entries := await self._store.do(
            self._tag, "XRANGE", keys.pages(self._tag), after, "+", "COUNT", BATCH
        ):
            for id, _ in entries:
                announced.pop(id, None)
            after = b"(" + entries[-1][0]
        for fp in announced.values():
            trace = trace_id(unpack_fp(fp))
            self._recount.problem(f"a page to be parsed that is announced to no parser: {trace}")

    async def _letters(self) -> None:
        tag, crawl = self._tag, self._crawl
        dated = {member[8:] async for member, _ in self._scan.sorted(keys.dead_letter_dates(tag, crawl))}
        async for fp, packed in self._scan.hash(keys.dead_letters(tag, crawl)):
            if self._read("dead", lambda letter: unpack_letter("", letter), packed) is None:
                continue
            self._place_fp("dead", unpack_fp(fp))
            if fp not in dated:
                self._recount.problem(f"a dead letter without a date: {trace_id(unpack_fp(fp))}")
            dated.discard(fp)
        for fp in dated:
            self._recount.problem(f"a date without a dead letter: {fp.hex()}")

    async def _chunks(self) -> None:
        async for id, body in self._scan.hash(keys.chunk_bodies(self._tag, self._crawl)):
            self._recount.found["waiting"] += chunk_size(id)
            if not body.startswith(IN_SERVER):
                continue
            try:
                held = len(unpack_chunk(body[1:]))
            except (*UNREADABLE, zlib.error) as error:
                self._recount.problem(f"an entry that cannot be read: chunk {id.decode()}: {error}")
                continue
            self._recount.compare(f"requests in chunk {id.decode()}", chunk_size(id), held)

    async def _meta(self) -> None:
        """Check that the numbers that the shard gives out are above those that it has given."""
        token, ordinal = await self._store.do(self._tag, "HMGET", keys.meta(self._tag), "token", "ordinal")
        tokens = [int(member) async for member, _ in self._scan.sorted(keys.deadlines(self._tag))]
        for what, latest, used in (
            ("token", token, max(tokens, default=0)),
            ("ordinal", ordinal, self._ordinal),
        ):
            if int(latest or 0) < used:
                self._recount.problem(f"a shard that would give out a {what} again: {self._tag}")

    async def _seen(self) -> Seen:
        stored = await self._store.do(
            self._tag, "HMGET", keys.seen_size(self._tag, self._crawl), "size", "buckets", "bits", "lost"
        )
        size, buckets, bits, lost = stored
        if bits is not None:
            filter_key = keys.bloom_filter(self._tag, self._crawl)
            if int(size or 0) and not await self._store.do(self._tag, "EXISTS", filter_key):
                self._recount.problem(f"the Bloom filter of the seen-set is missing: {self._tag}")
            return Seen(int(size or 0), int(lost or 0))
        number = int(buckets or 1)
        if buckets is None and (found := await self._scan.seen_buckets(self._crawl)) > 1:
            number = found
            self._recount.problem(f"a seen-set without its number of buckets: {self._tag}")
        await self._check_seen(number)
        return Seen(await self._scan.seen_members(self._crawl, number), int(lost or 0))

    async def _check_seen(self, buckets: int) -> None:
        """Check that what was found here is in the seen-set."""
        for first in range(0, len(self._fps), BATCH):
            some = self._fps[first : first + BATCH]
            buckets_of = [bucket_of(seen_hash(fp), buckets) for fp in some]
            asked = [
                ("SISMEMBER", keys.seen(self._tag, self._crawl, bucket), str(fp))
                for fp, bucket in zip(some, buckets_of, strict=True)
            ]
            found = await self._store.pipeline(self._tag, asked)
            found = [seen or await self._is_in_large(fp) for fp, seen in zip(some, found, strict=True)]
            for fp, seen in zip(some, found, strict=True):
                if not seen:
                    self._recount.problem(f"a request that is missing in the seen-set: {trace_id(fp)}")

    async def _is_in_large(self, fp: int) -> bool:
        """Return whether a fingerprint is in a bucket that was too large to be split."""
        for name in await self._store.do(self._tag, "SMEMBERS", keys.seen_large(self._tag, self._crawl)):
            bucket = keys.seen(self._tag, self._crawl, name.decode())
            if await self._store.do(self._tag, "SISMEMBER", bucket, str(fp)):
                return True
        return False

    async def _leases(self) -> Counter[str]:
        """Recount leases; return the requests in flight of all crawls, by host."""
        tag = self._tag
        inflight: Counter[str] = Counter()
        async for token, deadline in self._scan.sorted(keys.deadlines(tag)):
            batch = []
            unreadable = False
            async for fp, packed in self._scan.hash(keys.batch(tag, token.decode())):
                if fp == keys.HEAD:
                    continue
                try:
                    batch.append(unpack_leased(packed))
                except UNREADABLE as error:
                    unreadable = True
                    if fp[:4] == self._crawl.to_bytes(4, "big"):
                        self._recount.found["leased"] += 1
                    self._recount.problem(f"an entry that cannot be read: leased, in {tag}: {error}")
            for leased in batch:
                record = leased.record
                if not leased.landed:
                    inflight[record.host] += 1
                if record.crawl == self._crawl:
                    self._place("leased", record.entry)
            first = min((leased.leased_until for leased in batch), default=math.inf)
            if first != deadline and not unreadable:
                self._recount.problem(f"a batch with a wrong earliest deadline: {token.decode()}")
        return inflight

    async def _hosts(self, inflight: Counter[str]) -> None:
        tag = self._tag
        schedules: dict[str, dict[str, float]] = {}
        async for name, packed in self._scan.hash(keys.hosts(tag)):
            try:
                host = unpack_host(name.decode(), packed)
            except UNREADABLE as error:
                self._recount.problem(f"an entry that cannot be read: host {name!r}: {error}")
                continue
            self._recount.compare(f"{host.name} in flight", host.inflight, inflight[host.name])
            for lane in host.lanes:
                key = lane.schedule(tag)
                if key not in schedules:
                    schedules[key] = {
                        member.decode(): score async for member, score in self._scan.sorted(key)
                    }
                if lane.crawl == self._crawl:
                    await self._lane(host, lane, schedules[key].get(host.name))

    async def _lane(self, host: StoredHost, lane: StoredLane, place: float | None) -> None:
        found = [band async for band in self._waiting(host, lane)]
        self._count_pool(lane.pool, len(found))
        if lane.has_spilled:
            spilled = keys.chunks(self._tag, lane.crawl, lane.pool, host.name)
            async for id, _ in self._scan.sorted(spilled):
                self._count_pool(lane.pool, chunk_size(id))
                bodies = keys.chunk_bodies(self._tag, lane.crawl)
                if not await self._store.do(self._tag, "HEXISTS", bodies, id):
                    where = f"{chunk_size(id)} requests of {host.name}"
                    self._recount.problem(f"a chunk that is missing: {id.decode()}, {where}")
        where = f"{host.name} {lane.pool}"
        band = min(found, default=EMPTY)
        if band != lane.band:
            self._recount.problem(f"a lane with another head than its host records: {where}")
        if lane.is_scheduled != (place is not None):
            self._recount.problem(
                f"a lane that its host wrongly records as scheduled, or the reverse: {where}"
            )
        if (band != EMPTY and host.open) != (place is not None):
            self._recount.problem(f"a lane that should be scheduled and is not, or the reverse: {where}")
        if place is not None and place != place_in_line(lane.band, host.ready, lane.moment):
            self._recount.problem(f"a lane with a wrong place in its schedule: {where}")

    def _count_pool(self, pool: str, by: int) -> None:
        if pool != keys.HTTP:
            self._recount.found[f"pool.{pool}"] += by

    async def _waiting(self, host: StoredHost, lane: StoredLane) -> AsyncIterator[int]:
        """Read the waiting requests of a lane; yield the band of each."""
        async for packed, score in self._scan.sorted(lane.returned(self._tag, host.name)):
            if (entry := self._read("waiting", unpack_entry, packed)) is not None:
                self._place("waiting", entry)
            yield int(score // RANK)
        for band in lane.bands:
            latest = 0
            async for packed in self._scan.list(lane.fresh(self._tag, host.name, band)):
                yield band
                if (entry := self._read("waiting", unpack_entry, packed)) is None:
                    continue
                self._place("waiting", entry)
                if entry.ordinal <= latest:
                    self._recount.problem(f"a list out of its order: {host.name} {lane.pool} {band}")
                latest = entry.ordinal
