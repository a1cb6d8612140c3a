"""Everything of a crawl counted again, shard by shard: is each request in one place, and will each be served?

Read in slices while others may be at work: of a crawl that is being worked on, a line or two can be wrong for
the moment. On a crawl at rest every line is true.
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

SHOWN = 20  # problems of one kind that are named one by one


@dataclass(slots=True)
class Recount:
    """What was found so far."""

    found: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)
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
        if self._kinds[kind] <= SHOWN:
            self.problems.append(line)
        elif self._kinds[kind] == SHOWN + 1:
            self.problems.append(f"{kind}: and more")

    def compare(self, what: str, told: float, found: float) -> None:
        if told != found:
            self.problem(f"the counter of {what} says {told:.0f}, the data {found:.0f}")


async def audit(store: RedisClient, crawl: int) -> Audit:
    """Recount one crawl, and look for lanes that nobody would ever serve."""
    recount = Recount()
    seen = 0
    for tag in store.tags():
        seen += await _ShardAudit(store, tag, crawl, recount).run()
    told, found = recount.told, recount.found
    # What has ended for good leaves a number and nothing else; the sum shows whether anything is missing.
    for ended in ("done", "gone", "filtered"):
        found[ended] = told[ended]
    found["dead"] += told["purged"]
    # A delay that has ended counts as delayed until somebody asks.
    recount.compare(
        "waiting or delayed", told["waiting"] + told["delayed"], found["waiting"] + found["delayed"]
    )
    for state in STATES[2:]:
        recount.compare(state, told[state], found[state])
    recount.compare("accepted", told["accepted"], seen)
    recount.compare("everything accepted", told["accepted"], sum(found[state] for state in STATES))
    for what in ("dead", "filtered"):
        by_class = sum(count for name, count in told.items() if name.startswith(f"{what}."))
        recount.compare(f"{what} by class", told[what], by_class)
    return Audit({state: found[state] for state in STATES}, recount.problems)


class _ShardAudit:
    def __init__(self, store: RedisClient, tag: str, crawl: int, recount: Recount) -> None:
        self._store = store
        self._tag = tag
        self._crawl = crawl
        self._recount = recount
        self._slices = ShardScan(store, tag)

    async def run(self) -> int:
        """Recount a shard; return how many fingerprints it has seen."""
        tag, crawl = self._tag, self._crawl
        told = await self._store.do(tag, "HGETALL", keys.counters(tag, crawl))
        for name, count in zip(told[::2], told[1::2], strict=True):
            self._recount.told[name.decode()] += int(count)
        inflight = await self._leases()
        await self._hosts(inflight)
        async for record, _ in self._slices.sorted(keys.delayed(tag, crawl)):
            self._recount.place("delayed", unpack_record(record).entry.fingerprint)
        async for fp, page in self._slices.hash(keys.parsing(tag, crawl)):
            self._recount.place("parsing", unpack_fp(fp))
            unpack_parsing(page)
        dated = {member[8:] async for member, _ in self._slices.sorted(keys.dates(tag, crawl))}
        async for fp, _ in self._slices.hash(keys.letters(tag, crawl)):
            self._recount.place("dead", unpack_fp(fp))
            if fp not in dated:
                self._recount.problem(f"a dead letter without a date: {trace_id(unpack_fp(fp))}")
        async for id, _ in self._slices.hash(keys.chunk_bodies(tag, crawl)):
            self._recount.found["waiting"] += chunk_size(id)
        return int(await self._store.do(tag, "HGET", keys.seen_size(tag, crawl), "size") or 0)

    async def _leases(self) -> Counter[str]:
        """Recount what is leased; return how much of it is on the wire, by host, of all crawls."""
        tag = self._tag
        inflight: Counter[str] = Counter()
        async for token, deadline in self._slices.sorted(keys.deadlines(tag)):
            batch = [
                (fp, unpack_leased(leased))
                async for fp, leased in self._slices.hash(keys.batch(tag, token.decode()))
                if fp != keys.HEAD
            ]
            for _, leased in batch:
                record = leased.record
                if not leased.landed:
                    inflight[record.host] += 1
                if record.crawl == self._crawl:
                    self._recount.place("leased", record.entry.fingerprint)
            if min((leased.leased_until for _, leased in batch), default=math.inf) != deadline:
                self._recount.problem(f"a batch whose earliest deadline is another: {token.decode()}")
        return inflight

    async def _hosts(self, inflight: Counter[str]) -> None:
        tag = self._tag
        lines: dict[str, dict[str, float]] = {}
        async for host in self._slices.hosts():
            self._recount.compare(f"{host.name} in flight", host.inflight, inflight[host.name])
            for lane in host.lanes:
                key = lane.line(tag)
                if key not in lines:
                    lines[key] = {member.decode(): score async for member, score in self._slices.sorted(key)}
                if lane.crawl == self._crawl:
                    await self._lane(host, lane, lines[key].get(host.name))

    async def _lane(self, host: StoredHost, lane: StoredLane, place: float | None) -> None:
        found = [band async for band in self._waiting(host, lane)]
        where = f"{host.name} {lane.pool}"
        band = min(found, default=EMPTY)
        if band != lane.band:
            self._recount.problem(f"a lane with another head than its host says: {where}")
        if lane.is_in_line != (place is not None):
            self._recount.problem(f"a lane elsewhere than its host says: {where}")
        if (band != EMPTY and host.open) != (place is not None):
            self._recount.problem(f"a lane out of line, or in line although it is not to be served: {where}")
        if place is not None and place != place_in_line(lane.band, host.ready, lane.moment):
            self._recount.problem(f"a lane at another place in line than is its own: {where}")

    async def _waiting(self, host: StoredHost, lane: StoredLane) -> AsyncIterator[int]:
        """Go through what waits in a lane; give the band of each."""
        async for entry, score in self._slices.sorted(lane.returned(self._tag, host.name)):
            self._recount.place("waiting", unpack_entry(entry).fingerprint)
            yield int(score // RANK)
        for band in lane.bands:
            latest = 0
            async for entry in self._slices.list(lane.fresh(self._tag, host.name, band)):
                unpacked = unpack_entry(entry)
                self._recount.place("waiting", unpacked.fingerprint)
                if unpacked.ordinal <= latest:
                    self._recount.problem(f"a list out of its order: {host.name} {lane.pool} {band}")
                latest = unpacked.ordinal
                yield band
