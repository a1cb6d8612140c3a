"""A recount of a crawl, shard by shard: is each request in exactly one place, and will each be served?

The data is read in batches while workers may change it, so on a running crawl a few lines can be wrong. On a
paused or finished crawl every line is true.
"""

import math
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from shoal.frontier.redis import keys
from shoal.frontier.redis.records import (
    EMPTY,
    RANK,
    StoredHost,
    StoredLane,
    chunk_size,
    unpack_entry,
    unpack_fp,
    unpack_leased,
    unpack_parsing,
    unpack_record,
)
from shoal.frontier.redis.scan import ShardScan
from shoal.frontier.results import STATES, Audit
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
    seen = 0
    for tag in store.tags():
        seen += await _ShardAudit(store, tag, crawl, recount).run()
    recorded, found = recount.recorded, recount.found
    # A request that ended without a dead letter leaves only a number; the sum shows whether any is missing.
    for ended in ("done", "gone", "filtered"):
        found[ended] = recorded[ended]
    found["dead"] += recorded["purged"]
    # A delay that has ended counts as delayed until the next call.
    recount.compare(
        "waiting or delayed", recorded["waiting"] + recorded["delayed"], found["waiting"] + found["delayed"]
    )
    for state in STATES[2:]:
        recount.compare(state, recorded[state], found[state])
    for pool in sorted({name for name in (*recorded, *found) if name.startswith("pool.")}):
        recount.compare(f"waiting or delayed in {pool}", recorded[pool], found[pool])
    recount.compare("accepted", recorded["accepted"], seen)
    recount.compare("everything accepted", recorded["accepted"], sum(found[state] for state in STATES))
    for what in ("dead", "filtered"):
        by_class = sum(count for name, count in recorded.items() if name.startswith(f"{what}."))
        recount.compare(f"{what} by class", recorded[what], by_class)
    return Audit({state: found[state] for state in STATES}, recount.problems)


class _ShardAudit:
    def __init__(self, store: RedisClient, tag: str, crawl: int, recount: ShardRecount) -> None:
        self._store = store
        self._tag = tag
        self._crawl = crawl
        self._recount = recount
        self._scan = ShardScan(store, tag)

    async def run(self) -> int:
        """Recount a shard; return how many fingerprints it has seen."""
        tag, crawl = self._tag, self._crawl
        flat = await self._store.do(tag, "HGETALL", keys.counters(tag, crawl))
        for name, count in zip(flat[::2], flat[1::2], strict=True):
            self._recount.recorded[name.decode()] += int(count)
        inflight = await self._leases()
        await self._hosts(inflight)
        async for record, _ in self._scan.sorted(keys.delayed(tag, crawl)):
            unpacked = unpack_record(record)
            self._recount.place("delayed", unpacked.entry.fingerprint)
            self._count_pool(unpacked.pool, 1)
        async for fp, page in self._scan.hash(keys.parsing(tag, crawl)):
            self._recount.place("parsing", unpack_fp(fp))
            unpack_parsing(page)
        dated = {member[8:] async for member, _ in self._scan.sorted(keys.dead_letter_dates(tag, crawl))}
        async for fp, _ in self._scan.hash(keys.dead_letters(tag, crawl)):
            self._recount.place("dead", unpack_fp(fp))
            if fp not in dated:
                self._recount.problem(f"a dead letter without a date: {trace_id(unpack_fp(fp))}")
        async for id, _ in self._scan.hash(keys.chunk_bodies(tag, crawl)):
            self._recount.found["waiting"] += chunk_size(id)
        return int(await self._store.do(tag, "HGET", keys.seen_size(tag, crawl), "size") or 0)

    async def _leases(self) -> Counter[str]:
        """Recount leases; return the requests in flight of all crawls, by host."""
        tag = self._tag
        inflight: Counter[str] = Counter()
        async for token, deadline in self._scan.sorted(keys.deadlines(tag)):
            batch = [
                (fp, unpack_leased(leased))
                async for fp, leased in self._scan.hash(keys.batch(tag, token.decode()))
                if fp != keys.HEAD
            ]
            for _, leased in batch:
                record = leased.record
                if not leased.landed:
                    inflight[record.host] += 1
                if record.crawl == self._crawl:
                    self._recount.place("leased", record.entry.fingerprint)
            if min((leased.leased_until for _, leased in batch), default=math.inf) != deadline:
                self._recount.problem(f"a batch with a wrong earliest deadline: {token.decode()}")
        return inflight

    async def _hosts(self, inflight: Counter[str]) -> None:
        tag = self._tag
        schedules: dict[str, dict[str, float]] = {}
        async for host in self._scan.hosts():
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
        async for entry, score in self._scan.sorted(lane.returned(self._tag, host.name)):
            self._recount.place("waiting", unpack_entry(entry).fingerprint)
            yield int(score // RANK)
        for band in lane.bands:
            latest = 0
            async for entry in self._scan.list(lane.fresh(self._tag, host.name, band)):
                unpacked = unpack_entry(entry)
                self._recount.place("waiting", unpacked.fingerprint)
                if unpacked.ordinal <= latest:
                    self._recount.problem(f"a list out of its order: {host.name} {lane.pool} {band}")
                latest = unpacked.ordinal
                yield band
