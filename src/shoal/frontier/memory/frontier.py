"""The public calls of the model."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from shoal.frontier.memory.reader import MemoryReader
from shoal.frontier.memory.settle import acknowledge, settle
from shoal.frontier.memory.state import Crawl, Lane
from shoal.frontier.results import (
    Added,
    Committed,
    HostView,
    Opened,
    StoredRobots,
    Unparsed,
    Validator,
)
from shoal.frontier.rules import parsed_again, place_in_line
from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.errors import Misconfigured
from shoal.model.failure import FailureClass
from shoal.model.outcome import (
    Acknowledgement,
    Grant,
    Lease,
    Settlement,
)
from shoal.model.pace import Pace
from shoal.model.request import Link, unpack


class MemoryFrontier(MemoryReader):
    """A frontier that lives and dies with its process."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__(clock)
        self._token = 0
        self._acknowledged = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def open(cls, *, clock: Callable[[], float] = time.time) -> AsyncIterator["MemoryFrontier"]:
        yield cls(clock)

    # --- crawls ----------------------------------------------------------------------------------

    async def open_crawl(
        self,
        name: str,
        *,
        pace: Pace | None = None,
        max_crashes: int | None = None,
        slowdown: SlowdownRules | None = None,
        host_budget: int | None = None,
        hosts: Mapping[str, Pace] | None = None,
        state: Mapping[str, bytes] | None = None,
    ) -> Opened:
        """Create a crawl or take it up again; what is not given stays as it was."""
        crawls = self._state.crawls
        resumed = name in crawls
        if not resumed:
            crawls[name] = Crawl(name, Pace(), 3, SlowdownRules(), values=dict(state or {}))
        crawl = crawls[name]
        crawl.pace = crawl.pace if pace is None else pace
        crawl.max_crashes = crawl.max_crashes if max_crashes is None else max_crashes
        crawl.slowdown = crawl.slowdown if slowdown is None else slowdown
        crawl.host_budget = crawl.host_budget if host_budget is None else host_budget
        crawl.paces = crawl.paces if hosts is None else dict(hosts)
        if not crawl.opened:
            crawls[name] = crawls.pop(name)  # last in the order of opening
            self._state.take_up(crawl)
        for lane in crawl.lanes.values():
            lane.host.repace()
        return Opened(name, resumed)

    async def drop_crawl(self, name: str, *, forget: Collection[str] = (), entirely: bool = False) -> bool:
        """Delete a crawl that is not open, and the checkpoints named; False: there was none."""
        crawl = self._state.crawls.get(name)
        if crawl is None:
            return False
        if crawl.opened:
            raise Misconfigured(f"crawl {name!r} is open and cannot be dropped")
        kept = {} if crawl.counts.open == 0 else self._validators.get(name, {})
        for fp, entry in crawl.requests.items():
            if entry.state == "done" and entry.page is not None:
                page = entry.page
                kept[fp] = Validator(page.etag, page.modified, page.digest, page.ref)
        self._validators[name] = {} if entirely else kept
        del self._state.crawls[name]
        for checkpoint in forget:
            self._checkpoints.pop(checkpoint, None)
        return True

    async def crawl_set(self, crawl: str, key: str, value: bytes) -> None:
        """Keep a value with a crawl, open or not."""
        self._state.known(crawl).values[key] = value

    async def pause(self, crawl: str) -> None:
        """Lease nothing more from a crawl until `resume`."""
        self._state.known(crawl).paused = True

    async def resume(self, crawl: str) -> None:
        self._state.known(crawl).paused = False

    # --- requests --------------------------------------------------------------------------------

    async def add(self, crawl: str, links: Sequence[Link]) -> Added:
        """Accept the links that the crawl has not seen."""
        return Added(*self._state.admit(self._state.crawl(crawl), links))

    async def lease(
        self,
        *,
        holder: str,
        limit: int,
        ttl: float,
        pools: Sequence[str] = ("http",),
        crawls: Sequence[str] | None = None,
    ) -> Grant:
        """Hand out up to `limit` requests that may go now, until `ttl` seconds from now."""
        now = self._state.clock.now()
        self._state.reclaim(now)
        self._state.promote(now)
        chosen = [
            crawl
            for crawl in (self._state.open() if crawls is None else map(self._state.crawl, crawls))
            if not crawl.paused
        ]
        lanes = [lane for crawl in chosen for lane in crawl.lanes.values() if lane.pool in pools]
        self._token += 1
        leases: list[Lease] = []
        while len(leases) < limit:
            ready = [lane for lane in self._servable(lanes, holder) if lane.host.ready <= now]
            if not ready:
                break
            best = min(ready, key=_turn)
            leases.append(self._grant(best, holder, now, now + ttl))
        if len(leases) == limit:
            return Grant(leases, 0.0)
        instants = [
            *(lane.host.ready for lane in self._servable(lanes, holder)),
            *(entry.due for crawl in chosen for entry in crawl.requests.values() if entry.state == "delayed"),
            *(entry.until for _, entry in self._state.leased()),
        ]
        return Grant(leases, max(min(instants, default=math.inf) - now, 0.0))

    def _servable(self, lanes: Iterable[Lane], holder: str) -> list[Lane]:
        """Give the lanes that only time keeps from being served."""
        has_suspect = any(entry.holder == holder and entry.crashes for _, entry in self._state.leased())
        return [
            lane for lane in lanes if lane.waiting and lane.host.open and not (lane.suspect and has_suspect)
        ]

    def _grant(self, lane: Lane, holder: str, now: float, until: float) -> Lease:
        entry = lane.waiting.pop(0)
        host = lane.host
        host.take(now, self._token)
        self._state.stamp(lane)
        self._state.move(lane.crawl, entry, "leased")
        entry.holder, entry.granted_at, entry.until, entry.landed = holder, now, until, False
        entry.token = self._token
        return Lease(
            lane.crawl.name,
            entry.link.fingerprint,
            self._token,
            host.name,
            unpack(entry.link.packed),
            entry.attempts + 1,
            entry.crashes,
            entry.rests,
            until,
            host.interval,
            host.burst,
        )

    async def commit(
        self,
        settlements: Sequence[Settlement] = (),
        acknowledgements: Sequence[Acknowledgement] = (),
        checkpoints: Mapping[str, bytes] = {},
        crawl_state: Mapping[str, Mapping[str, bytes]] = {},
    ) -> Committed:
        """Settle, acknowledge and record, all at once."""
        stale: list[Lease] = []
        refused: list[Acknowledgement] = []
        new = duplicate = 0
        values = [(self._state.crawl(crawl).values, kept) for crawl, kept in crawl_state.items()]
        for settlement in settlements:
            entry = self._state.held(settlement.lease)
            if entry is None:
                stale.append(settlement.lease)
                continue
            crawl = self._state.crawl(settlement.lease.crawl)
            settle(self._state, crawl, entry, settlement)
            counted = self._state.admit(crawl, settlement.links)
            new, duplicate = new + counted[0], duplicate + counted[1]
        for acknowledgement in acknowledgements:
            found = self._state.crawls.get(acknowledgement.crawl)
            entry = found.requests.get(acknowledgement.fingerprint) if found else None
            if found is None or not found.opened or entry is None or entry.state != "parsing":
                refused.append(acknowledgement)
                continue
            acknowledge(self._state, found, entry, acknowledgement.outcome)
            self._acknowledged.set()
            counted = self._state.admit(found, acknowledgement.links)
            new, duplicate = new + counted[0], duplicate + counted[1]
        self._checkpoints.update(checkpoints)
        for present, kept in values:
            present.update(kept)
        return Committed(new, duplicate, stale, refused)

    async def settle(self, settlements: Sequence[Settlement]) -> Committed:
        """End attempts."""
        return await self.commit(settlements)

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> Committed:
        """End pages that were settled as `Fetched`."""
        return await self.commit(acknowledgements=acknowledgements)

    def holds(self, lease: Lease) -> bool:
        """Say whether a settlement of this lease would be accepted if it came now."""
        return self._state.held(lease) is not None

    def landed(self, leases: Sequence[Lease]) -> None:
        """Note that requests are off the wire although they are not settled yet."""
        for lease in leases:
            entry = self._state.held(lease)
            if entry is not None and not entry.landed:
                entry.landed = True
                self._state.hosts[entry.link.host].inflight -= 1

    async def extend(self, leases: Sequence[Lease], ttl: float) -> list[Lease]:
        """Move deadlines to `ttl` seconds from now, never nearer; return the leases that are still held."""
        now = self._state.clock.now()
        self._state.reclaim(now)
        renewed = []
        for lease in leases:
            if (entry := self._state.held(lease)) is not None:
                entry.until = max(entry.until, now + ttl)
                renewed.append(msgspec.structs.replace(lease, leased_until=entry.until))
        return renewed

    async def reclaim(self) -> int:
        """Take back the leases whose deadline has passed; return how many."""
        return self._state.reclaim(self._state.clock.now())

    # --- pages and dead letters ------------------------------------------------------------------

    async def parsing(self, crawl: str) -> AsyncIterator[Unparsed]:
        """Hand out the pages that nobody is parsing; those with strikes last, and one at a time."""
        requests = self._state.crawl(crawl).requests
        pages = [entry for entry in requests.values() if entry.state == "parsing" and not entry.taken]
        for entry in sorted(pages, key=lambda entry: entry.strikes > 0):
            while entry.strikes and any(other.strikes and other.taken for other in requests.values()):
                self._acknowledged.clear()
                await self._acknowledged.wait()
            if entry.state == "parsing" and not entry.taken and entry.page is not None:
                entry.taken = True
                yield Unparsed(entry.link.fingerprint, unpack(entry.link.packed), entry.page, entry.strikes)

    async def replay(
        self,
        crawl: str,
        *,
        kinds: Collection[FailureClass] = (),
        host: str = "",
        fingerprints: Collection[int] = (),
        limit: int | None = None,
    ) -> int:
        """Put dead letters back, oldest first; a kept page that was at fault is parsed again, not fetched."""
        within = self._state.crawl(crawl)
        letters = self._state.dead(within, kinds, host, fingerprints)[:limit]
        for entry in letters:
            assert entry.failure is not None
            again = parsed_again(entry.failure.failure_class, kept=entry.page is not None)
            self._state.move(within, entry, "parsing" if again else "waiting")
            entry.strikes, entry.taken = 0, False
            if not again:
                entry.attempts = entry.crashes = entry.rests = 0
                entry.first_at = entry.page = None
                self._state.wait(within, entry)
        return len(letters)

    async def purge(
        self,
        crawl: str,
        *,
        kinds: Collection[FailureClass] = (),
        host: str = "",
        fingerprints: Collection[int] = (),
        limit: int | None = None,
    ) -> int:
        """Throw dead letters away, oldest first; their requests stay dead, and cannot come back."""
        letters = self._state.dead(self._state.crawl(crawl), kinds, host, fingerprints)[:limit]
        for entry in letters:
            entry.purged, entry.page = True, None
        return len(letters)

    # --- hosts -----------------------------------------------------------------------------------

    async def host_set(
        self,
        host: str,
        *,
        interval: float | None = None,
        burst: int | None = None,
        concurrency: int | None = None,
        crawl_delay: float | None = None,
        rest_until: float | None = None,
        paused: bool | None = None,
    ) -> HostView:
        """Give a host a pace of its own, a rest or a pause; what is not given stays as it is."""
        known = self._state.host(host)
        record = known.record
        record.interval = record.interval if interval is None else interval
        record.burst = record.burst if burst is None else burst
        record.concurrency = record.concurrency if concurrency is None else concurrency
        record.crawl_delay = record.crawl_delay if crawl_delay is None else crawl_delay
        record.rest_until = record.rest_until if rest_until is None else rest_until
        record.paused = record.paused if paused is None else paused
        known.repace()
        return self._view(known)

    async def host_clear(self, host: str) -> HostView:
        """Forget the pace that `host_set` gave a host: what the crawls say applies again."""
        known = self._state.host(host)
        known.record.interval = known.record.burst = known.record.concurrency = None
        known.repace()
        return self._view(known)

    async def robots_set(self, host: str, *, expires: float, status: int, body: bytes) -> None:
        self._robots[host] = StoredRobots(expires, status, body)

    def restart(self) -> None:
        """Do what the death of the owner does to a frontier that survives it: every crawl is to be opened
        again."""
        self._state.restart(self._state.clock.now())


def _turn(lane: Lane) -> tuple[float, str, float]:
    """Give what lanes that may be served are sorted by."""
    place = place_in_line(lane.waiting[0].rank[0], lane.host.ready, lane.moment)
    return place, lane.host.name, lane.moment
