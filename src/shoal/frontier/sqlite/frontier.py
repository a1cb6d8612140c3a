"""The public calls that move requests: each changes the state in RAM, then writes one transaction."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence

import msgspec

from shoal.frontier.governor import host_view
from shoal.frontier.results import Added, Committed, HostView, Unparsed, Validator
from shoal.frontier.sqlite.admit import admit
from shoal.frontier.sqlite.dead_letters import purge, replay
from shoal.frontier.sqlite.host import HostState
from shoal.frontier.sqlite.leases import grant
from shoal.frontier.sqlite.owner import Owner
from shoal.frontier.sqlite.packing import unpacked_page
from shoal.frontier.sqlite.reclaim import promote, reclaim
from shoal.frontier.sqlite.settle import acknowledge, held, settle
from shoal.model.failure import FailureClass
from shoal.model.outcome import Acknowledgement, Grant, Lease, Settlement
from shoal.model.page import PageRef
from shoal.model.request import Link, unpack


class SqliteFrontier(Owner):
    """A frontier on one SQLite file that nobody else writes to."""

    # --- requests --------------------------------------------------------------------------------

    async def add(self, crawl: str, links: Sequence[Link]) -> Added:
        """Accept the links that the crawl has not seen."""
        into = self._state.crawl(crawl)
        with self._changing() as changes:
            return Added(*admit(self._state, into, links, changes, self._now()))

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
        now = self._now()
        self._reclaim(now)
        promote(self._state, now)
        chosen = self._state.open_crawls(crawls)
        with self._changing() as changes:
            return grant(self._state, chosen, changes, now, holder=holder, limit=limit, ttl=ttl, pools=pools)

    async def commit(
        self,
        settlements: Sequence[Settlement] = (),
        acknowledgements: Sequence[Acknowledgement] = (),
        checkpoints: Mapping[str, bytes] = {},
        crawl_state: Mapping[str, Mapping[str, bytes]] = {},
    ) -> Committed:
        """Settle, acknowledge and record, all in one transaction."""
        state, now = self._state, self._now()
        new = duplicate = 0
        stale: list[Lease] = []
        refused: list[Acknowledgement] = []
        kept = [
            (state.crawl(crawl).id, key, value)
            for crawl, values in crawl_state.items()
            for key, value in values.items()
        ]
        with self._changing() as changes:
            for settlement in settlements:
                if (found := held(state, settlement.lease)) is None:
                    stale.append(settlement.lease)
                    continue
                settle(state, settlement, found, changes, now)
                if settlement.links:
                    counted = admit(state, found.lane.crawl, settlement.links, changes, now)
                    new, duplicate = new + counted[0], duplicate + counted[1]
            for acknowledgement in acknowledgements:
                crawl = state.crawls.get(acknowledgement.crawl)
                if crawl is None or not acknowledge(crawl, acknowledgement, changes, now):
                    refused.append(acknowledgement)
                    continue
                counted = admit(state, crawl, acknowledgement.links, changes, now)
                new, duplicate = new + counted[0], duplicate + counted[1]
            changes.checkpoints += checkpoints.items()
            changes.crawl_state += kept
        if acknowledgements:
            self._acknowledged.set()
        return Committed(new, duplicate, stale, refused)

    async def crawl_set(self, crawl: str, key: str, value: bytes) -> None:
        """Keep a value with a crawl, open or not."""
        id = self.crawl_id(crawl)
        with self._changing() as changes:
            changes.crawl_state.append((id, key, value))

    async def settle(self, settlements: Sequence[Settlement]) -> Committed:
        """End attempts."""
        return await self.commit(settlements)

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> Committed:
        """End pages that were settled as `Fetched`."""
        return await self.commit(acknowledgements=acknowledgements)

    def holds(self, lease: Lease) -> bool:
        """Say whether a settlement of this lease would be accepted if it came now."""
        return held(self._state, lease) is not None

    def landed(self, leases: Sequence[Lease]) -> None:
        """Note that requests are off the wire although they are not settled yet."""
        for lease in leases:
            if (found := held(self._state, lease)) is None or found.landed:
                continue
            host = found.lane.host
            could = host.open
            found.landed = True
            host.inflight -= 1
            if host.open and not could:
                self._state.scheduler.place_all(host, self._now())

    async def extend(self, leases: Sequence[Lease], ttl: float) -> list[Lease]:
        """Move deadlines to `ttl` seconds from now, never nearer; return the leases that are still held."""
        now = self._now()
        self._reclaim(now)
        renewed = []
        for lease in leases:
            if (found := held(self._state, lease)) is not None:
                found.until = max(found.until, now + ttl)
                found.batch.extended = True
                renewed.append(msgspec.structs.replace(lease, leased_until=found.until))
        return renewed

    async def reclaim(self) -> int:
        """Take back the leases whose deadline has passed; return how many."""
        return self._reclaim(self._now())

    def _reclaim(self, now: float) -> int:
        self._refuse_if_broken()
        if self._state.next_deadline() > now:
            return 0
        with self._changing() as changes:
            return reclaim(self._state, changes, now)

    # --- pages and dead letters ------------------------------------------------------------------

    async def parsing(self, crawl: str) -> AsyncIterator[Unparsed]:
        """Hand out the pages that nobody is parsing: an earlier life fetched them, or they were replayed.

        Those that took a process along come last and one at a time: the next is held back until the one
        before is acknowledged, so that it alone is charged if it happens again.
        """
        pages = self._state.crawl(crawl).parsing
        idle = [(fp, page) for fp, page in pages.items() if not page.taken]
        for fp, page in sorted(idle, key=lambda found: found[1].strikes > 0):
            while page.strikes and any(other.strikes and other.taken for other in pages.values()):
                self._acknowledged.clear()
                await self._acknowledged.wait()
            if page.taken or pages.get(fp) is not page:
                continue
            with self._changing() as changes:
                page.taken = True
                changes.taken_up.append((page.id,))
            [request, record] = self._database.execute(
                "SELECT request, page FROM parsing WHERE id = ?", (page.id,)
            ).fetchone()
            yield Unparsed(fp, unpack(request), unpacked_page(record), page.strikes)

    async def replay(
        self,
        crawl: str,
        *,
        kinds: Collection[FailureClass] = (),
        host: str = "",
        fingerprints: Collection[int] = (),
        limit: int | None = None,
    ) -> int:
        """Put dead letters back, first accepted first; a kept page that was at fault is only parsed again."""
        within = self._state.crawl(crawl)
        with self._changing() as changes:
            return replay(
                self._state,
                within,
                changes,
                self._now(),
                kinds=kinds,
                host=host,
                fingerprints=fingerprints,
                limit=limit,
            )

    async def purge(
        self,
        crawl: str,
        *,
        kinds: Collection[FailureClass] = (),
        host: str = "",
        fingerprints: Collection[int] = (),
        limit: int | None = None,
    ) -> int:
        """Throw dead letters away, first accepted first; their requests stay dead, and cannot come back."""
        within = self._state.crawl(crawl)
        with self._changing() as changes:
            return purge(
                self._state,
                within,
                changes,
                kinds=kinds,
                host=host,
                fingerprints=fingerprints,
                limit=limit,
            )

    async def validators(self, crawl: str, fingerprints: Sequence[int]) -> dict[int, Validator]:
        """Find what conditional requests for these pages need, if the last generation had them."""
        within = self._state.crawl(crawl)
        if not within.has_validators:
            return {}
        found: dict[int, Validator] = {}
        for fp in fingerprints:
            for etag, modified, digest, *place in self._rows(
                "SELECT etag, modified, digest, segment, offset, length"
                " FROM validator WHERE crawl = ? AND fp = ?",
                (within.id, fp),
            ):
                found[fp] = Validator(etag, modified, digest, PageRef(*place))
        return found

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
        given = {
            "interval": interval,
            "burst": burst,
            "concurrency": concurrency,
            "crawl_delay": crawl_delay,
            "rest_until": rest_until,
            "paused": paused,
        }
        with self._changing() as changes:
            known = self._state.host(host, changes)
            for name, value in given.items():
                if value is not None:
                    setattr(known.record, name, value)
            known.repace()
            self._state.scheduler.place_all(known, self._now())
            changes.hosts.add(known)
        return _view(known)

    async def host_clear(self, host: str) -> HostView:
        """Forget the pace that `host_set` gave a host: what the crawls say applies again."""
        with self._changing() as changes:
            known = self._state.host(host, changes)
            known.record.interval = known.record.burst = known.record.concurrency = None
            known.repace()
            self._state.scheduler.place_all(known, self._now())
            changes.hosts.add(known)
        return _view(known)

    async def host_get(self, host: str) -> HostView | None:
        """Show one host; None: nobody has ever heard of it."""
        known = self._state.find_host(host)
        return None if known is None else _view(known)

    async def hosts(self) -> list[HostView]:
        """Show every host of the crawls that are open."""
        return [_view(host) for host in self._state.hosts.values() if host.lanes]


def _view(host: HostState) -> HostView:
    return host_view(host.name, host, waiting=sum(lane.size for lane in host.lanes))
