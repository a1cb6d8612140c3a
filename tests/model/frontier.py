"""Leasing and committing in the model."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence

import msgspec
from tests.model.parts import ModelCrawls, ModelDeadLetters, ModelHosts
from tests.model.reader import ModelReader
from tests.model.settle import acknowledge, settle
from tests.model.state import Generations, Lane, State

from shoal.frontier.results import Added, Committed, Unparsed
from shoal.frontier.rules import place_in_line
from shoal.model.failure import FailureClass
from shoal.model.generations.page_history import is_done
from shoal.model.outcome import Acknowledgement, Grant, Lease, Settlement
from shoal.model.request import Link, unpack


class MemoryFrontier:
    """A frontier that exists only in its process."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._state = State(clock)
        self._token = 0
        self._acknowledged = asyncio.Event()
        self.reader = ModelReader(self._state)
        self.crawls = ModelCrawls(self._state)
        self.hosts = ModelHosts(self._state)
        self.dead_letters = ModelDeadLetters(self._state)

    def restart(self) -> None:
        """Do what the death of the owner does to a frontier that survives it. All crawls are closed."""
        self._state.restart(self._state.clock.now())

    # --- leasing ---------------------------------------------------------------------------------

    async def add(self, crawl: str, links: Sequence[Link]) -> Added:
        """Accept the links that the crawl has not seen."""
        return Added(*self._state.admit(self._state.crawl(crawl), links))

    async def readmit(
        self, crawl: str, links: Sequence[Link], rule: FailureClass = FailureClass.ROBOTS
    ) -> int:
        """Queue the links again whose requests a rule had filtered."""
        return self._state.readmit(self._state.crawl(crawl), links, rule)

    async def lease(
        self,
        *,
        holder: str,
        limit: int,
        ttl: float,
        pools: Sequence[str] = ("http",),
        crawls: Sequence[str] | None = None,
    ) -> Grant:
        """Lease up to `limit` requests whose host is due, for `ttl` seconds."""
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
            due = [lane for lane in self._servable(lanes, holder) if lane.host.ready <= now]
            if not due:
                break
            leases.append(self._grant(min(due, key=_sort_key), holder, now, now + ttl))
        if len(leases) == limit:
            return Grant(leases, 0.0)
        instants = [
            *(lane.host.ready for lane in self._servable(lanes, holder)),
            *(entry.due for crawl in chosen for entry in crawl.requests.values() if entry.state == "delayed"),
            *(entry.until for _, entry in self._state.leased()),
        ]
        return Grant(leases, max(min(instants, default=math.inf) - now, 0.0))

    def _servable(self, lanes: Iterable[Lane], holder: str) -> list[Lane]:
        """Return the lanes that can be served as soon as their host is due."""
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

    def holds(self, lease: Lease) -> bool:
        """Return True if a settlement of this lease would be accepted now."""
        return self._state.held(lease) is not None

    async def held(self, leases: Sequence[Lease]) -> list[Lease]:
        return [lease for lease in leases if self.holds(lease)]

    def keep_until_settled(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            if (held := self._state.held(lease)) is not None:
                held.until = math.inf

    def mark_landed(self, leases: Sequence[Lease]) -> None:
        """Record that requests have left the wire, although they are not settled yet."""
        for lease in leases:
            entry = self._state.held(lease)
            if entry is not None and not entry.landed:
                entry.landed = True
                self._state.hosts[entry.link.host].inflight -= 1

    async def extend(self, leases: Sequence[Lease], ttl: float) -> list[Lease]:
        """Move deadlines to `ttl` seconds from now, never earlier; return the leases that are still held."""
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

    # --- committing ------------------------------------------------------------------------------

    async def commit(
        self,
        settlements: Sequence[Settlement] = (),
        acknowledgements: Sequence[Acknowledgement] = (),
        checkpoints: Mapping[str, bytes] = {},
        crawl_state: Mapping[str, Mapping[str, bytes]] = {},
    ) -> Committed:
        """Settle, acknowledge and store, all at once."""
        stale: list[Lease] = []
        refused: list[Acknowledgement] = []
        new = duplicate = 0
        values = [(self._state.crawl(crawl).values, items) for crawl, items in crawl_state.items()]
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
        self._state.checkpoints.update(checkpoints)
        for present, items in values:
            present.update(items)
        return Committed(new, duplicate, stale, refused)

    async def settle(self, settlements: Sequence[Settlement]) -> Committed:
        """End attempts, each with its outcome and the links it found."""
        return await self.commit(settlements)

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> Committed:
        """End the parsing of pages that were settled as `Fetched`."""
        return await self.commit(acknowledgements=acknowledgements)

    async def parsing(self, crawl: str) -> AsyncIterator[Unparsed]:
        """Yield the pages that no process is parsing; those with strikes last, and one at a time."""
        requests = self._state.crawl(crawl).requests
        pages = [entry for entry in requests.values() if entry.state == "parsing" and not entry.taken]
        for entry in sorted(pages, key=lambda entry: entry.strikes > 0):
            while entry.strikes and any(other.strikes and other.taken for other in requests.values()):
                self._acknowledged.clear()
                await self._acknowledged.wait()
            if entry.state == "parsing" and not entry.taken and entry.page is not None:
                entry.taken = True
                yield Unparsed(entry.link.fingerprint, unpack(entry.link.packed), entry.page, entry.strikes)

    async def earlier_pages(
        self, crawl: str, fingerprints: Sequence[int], *, host: str = ""
    ) -> dict[int, bytes]:
        """Return the records of these pages in the latest generation that has fetched them."""
        self._state.crawl(crawl)
        found: dict[int, bytes] = {}
        for histories in self._state.generations.get(crawl, Generations()).earlier.values():
            found.update({fp: histories[fp] for fp in fingerprints if is_done(histories.get(fp, b""))})
        return found


def _sort_key(lane: Lane) -> tuple[float, str, float]:
    """Return the key by which lanes that can be served are sorted."""
    place = place_in_line(lane.waiting[0].rank[0], lane.host.ready, lane.moment)
    return place, lane.host.name, lane.moment
