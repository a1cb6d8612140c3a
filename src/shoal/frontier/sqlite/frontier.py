"""The embedded frontier: each call changes the state in RAM, then writes one transaction."""

import math
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from importlib.resources import files
from pathlib import Path

import msgspec

from shoal.frontier.results import Added, Committed, Unparsed
from shoal.frontier.sqlite.admit import admit, readmit
from shoal.frontier.sqlite.changes import SWEEP_EVERY_ROWS
from shoal.frontier.sqlite.crawls import SqliteCrawls
from shoal.frontier.sqlite.dead_letters import SqliteDeadLetters
from shoal.frontier.sqlite.history import find_done
from shoal.frontier.sqlite.hosts import SqliteHosts
from shoal.frontier.sqlite.leases import grant, promote, reclaim
from shoal.frontier.sqlite.load import recover
from shoal.frontier.sqlite.owner import Owner
from shoal.frontier.sqlite.packing import unpack_page
from shoal.frontier.sqlite.reader import SqliteReader
from shoal.frontier.sqlite.repair import repair
from shoal.frontier.sqlite.settle import acknowledge, find_held, give_up_unreadable_page, settle
from shoal.frontier.sqlite.state import FrontierState, ParsingPage
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.failure import FailureClass
from shoal.model.outcome import Acknowledgement, Grant, Lease, Settlement
from shoal.model.request import Link, unpack
from shoal.sqlite_database import (
    Checkpointer,
    check,
    connect_for_reading,
    open_database,
    transaction,
    translated,
)

PAUSED_S = 0.001  # see `held_for`
MIGRATIONS = (
    "schema.sql",
    "versions.sql",
    "ended_urls.sql",
    "generations.sql",
    "dead_by_date.sql",
    "held.sql",
)  # each leads to the next version


class SqliteFrontier:
    """A frontier on one SQLite file that no other process writes to."""

    def __init__(self, owner: Owner, clock: Callable[[], float]) -> None:
        self._owner = owner
        self._state = owner.state
        self.reader = SqliteReader(owner.database, owner.path, clock, live=owner)
        self.crawls = SqliteCrawls(owner, self.reader)
        self.hosts = SqliteHosts(owner, self.reader)
        self.dead_letters = SqliteDeadLetters(owner)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: Path,
        *,
        clock: Callable[[], float] = time.time,
        fsync: bool = False,
        sweep_every: int = SWEEP_EVERY_ROWS,
    ) -> AsyncIterator["SqliteFrontier"]:
        """Own the database at `path`; create or migrate it if necessary.

        What an earlier owner had leased when it died waits again, charged with a crash. Leaving the block
        releases no lease: a caller that stops in an orderly way settles its leases first.
        """
        database = open_database(path, _migrations(), fsync=fsync)
        try:
            now = clock()
            with translated(path):
                life = recover(database, now)
                state = FrontierState(database, opened_at=now, life=life, sweep_every=sweep_every)
            with Checkpointer(path) as checkpointer:
                yield cls(Owner(state, path, clock, checkpointer), clock)
        finally:
            database.close()

    @classmethod
    @asynccontextmanager
    async def peek(cls, path: Path, *, clock: Callable[[], float] = time.time) -> AsyncIterator[SqliteReader]:
        """Read a store without owning it, while its owner keeps writing."""
        database = connect_for_reading(path)
        try:
            if check(database, path, newest=len(MIGRATIONS)) < len(MIGRATIONS):
                raise Misconfigured(f"{path} was written by an older Shoal: shoal crawl brings it up to date")
            yield SqliteReader(database, path, clock)
        finally:
            database.close()

    @classmethod
    def repair(
        cls, path: Path, crawls: Sequence[str], *, clock: Callable[[], float] = time.time
    ) -> list[str]:
        """Repair crawls of a database that the caller owns; return one line per kind of fault."""
        lines: list[str] = []
        with closing(open_database(path, _migrations(), fsync=True)) as database, translated(path):
            for name in crawls:
                with transaction(database):
                    found = database.execute("SELECT id FROM crawl WHERE name = ? AND NOT dropped", (name,))
                    [id] = found.fetchone()
                    lines += [f"{name}: {line}" for line in repair(database, id, clock())]
        return lines

    # --- leasing ---------------------------------------------------------------------------------

    async def add(self, crawl: str, links: Sequence[Link]) -> Added:
        """Accept the links that the crawl has not seen."""
        into = self._state.crawl(crawl)
        with self._owner.changing() as changes:
            return Added(*admit(self._state, into, links, changes, self._owner.now()))

    async def readmit(
        self, crawl: str, links: Sequence[Link], rule: FailureClass = FailureClass.ROBOTS
    ) -> int:
        """Queue the links again whose requests a rule had filtered; return how many."""
        into = self._state.crawl(crawl)
        with self._owner.changing() as changes:
            return readmit(self._state, into, links, changes, self._owner.now(), rule=rule)

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
        now = self._owner.now()
        self._reclaim(now)
        promote(self._state, now)
        chosen = self._state.open_crawls(crawls)
        with self._owner.changing() as changes:
            return grant(self._state, chosen, changes, now, holder=holder, limit=limit, ttl=ttl, pools=pools)

    def holds(self, lease: Lease) -> bool:
        """Return True if a settlement of this lease would be accepted now."""
        return find_held(self._state, lease) is not None

    async def held(self, leases: Sequence[Lease]) -> list[Lease]:
        """Return the leases whose settlement would be accepted now."""
        state = self._state
        return [lease for lease in leases if find_held(state, lease) is not None]

    def keep_until_settled(self, leases: Sequence[Lease]) -> None:
        """Keep these leases past their deadlines; a settlement ends them, or the end of this process."""
        for lease in leases:
            held = find_held(self._state, lease)
            if held is not None:
                held.until = math.inf

    def held_for(self, crawl: str, host: str) -> float:
        """Return for how many seconds nothing may be sent to a host for a crawl; 0.0: it may be sent now.

        What is paused is held until resumed: a request that is released is not leased again before that.
        """
        running = self._state.crawls.get(crawl)
        if running is not None and running.paused:
            return PAUSED_S
        known = self._state.hosts.get(host)
        if known is None:
            return 0.0
        record = known.record
        return PAUSED_S if record.paused else max(record.rest_until - self._owner.now(), 0.0)

    def mark_landed(self, leases: Sequence[Lease]) -> None:
        """Record that requests have left the wire, although they are not settled yet."""
        for lease in leases:
            if (held := find_held(self._state, lease)) is None or held.landed:
                continue
            host = held.lane.host
            was_open = host.open
            held.landed = True
            host.inflight -= 1
            if host.open and not was_open:
                self._state.scheduler.place_all(host, self._owner.now())

    async def extend(self, leases: Sequence[Lease], ttl: float) -> list[Lease]:
        """Move deadlines to `ttl` seconds from now, never earlier; return the leases that are still held."""
        now = self._owner.now()
        self._reclaim(now)
        renewed = []
        for lease in leases:
            if (held := find_held(self._state, lease)) is not None:
                held.until = max(held.until, now + ttl)
                held.batch.extended = True
                renewed.append(msgspec.structs.replace(lease, leased_until=held.until))
        return renewed

    async def reclaim(self) -> int:
        """Take back the leases whose deadline has passed; return how many."""
        return self._reclaim(self._owner.now())

    def _reclaim(self, now: float) -> int:
        self._owner.refuse_if_broken()
        if self._state.next_deadline() > now:
            return 0
        with self._owner.changing() as changes:
            return reclaim(self._state, changes, now)

    # --- committing ------------------------------------------------------------------------------

    async def commit(
        self,
        settlements: Sequence[Settlement] = (),
        acknowledgements: Sequence[Acknowledgement] = (),
        checkpoints: Mapping[str, bytes] = {},
        crawl_state: Mapping[str, Mapping[str, bytes]] = {},
    ) -> Committed:
        """Settle, acknowledge and store, all in one transaction."""
        state, now = self._state, self._owner.now()
        new = duplicate = 0
        stale: list[Lease] = []
        refused: list[Acknowledgement] = []
        values = [
            (state.crawl(crawl).id, key, value)
            for crawl, values in crawl_state.items()
            for key, value in values.items()
        ]
        with self._owner.changing() as changes:
            for settlement in settlements:
                if (held := find_held(state, settlement.lease)) is None:
                    stale.append(settlement.lease)
                    continue
                settle(state, settlement, held, changes, now)
                if settlement.links:
                    counted = admit(state, held.lane.crawl, settlement.links, changes, now)
                    new, duplicate = new + counted[0], duplicate + counted[1]
            for acknowledgement in acknowledgements:
                crawl = state.crawls.get(acknowledgement.crawl)
                if crawl is None or not acknowledge(crawl, acknowledgement, changes, now):
                    refused.append(acknowledgement)
                    continue
                counted = admit(state, crawl, acknowledgement.links, changes, now)
                new, duplicate = new + counted[0], duplicate + counted[1]
            changes.checkpoints += checkpoints.items()
            changes.crawl_state += values
        if acknowledgements:
            self._owner.acknowledged.set()
        return Committed(new, duplicate, stale, refused)

    async def settle(self, settlements: Sequence[Settlement]) -> Committed:
        """End attempts, each with its outcome and the links it found."""
        return await self.commit(settlements)

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> Committed:
        """End the parsing of pages that were settled as `Fetched`."""
        return await self.commit(acknowledgements=acknowledgements)

    async def parsing(self, crawl: str) -> AsyncIterator[Unparsed]:
        """Yield the pages that no process is parsing: fetched by an earlier process, or replayed.

        Pages with strikes come last and one at a time. The next one is held back until the one before is
        acknowledged, so that a crash is charged to the right page.
        """
        pages = self._state.crawl(crawl).parsing
        idle = [(fp, page) for fp, page in pages.items() if not page.taken]
        for fp, page in sorted(idle, key=lambda pair: pair[1].strikes > 0):
            while page.strikes and any(other.strikes and other.taken for other in pages.values()):
                self._owner.acknowledged.clear()
                await self._owner.acknowledged.wait()
            if page.taken or pages.get(fp) is not page:
                continue
            with self._owner.changing() as changes:
                page.taken = True
                changes.taken_up.append((page.id,))
            if (unparsed := self._unparsed(crawl, fp, page)) is not None:
                yield unparsed

    def _unparsed(self, name: str, fp: int, page: ParsingPage) -> Unparsed | None:
        """Return a page that waits to be parsed; None: it cannot be read and was given up."""
        [request, record] = self._owner.database.execute(
            "SELECT request, page FROM parsing WHERE id = ?", (page.id,)
        ).fetchone()
        try:
            return Unparsed(fp, unpack(request), unpack_page(record), page.strikes)
        except (Rejected, msgspec.DecodeError, TypeError, ValueError) as error:
            now, crawl = self._owner.now(), self._state.crawl(name)
            with self._owner.changing() as changes:
                give_up_unreadable_page(crawl, fp, changes, now, error=error, body=record)
            return None

    async def earlier_pages(
        self, crawl: str, fingerprints: Sequence[int], *, host: str = ""
    ) -> dict[int, bytes]:
        """Return the records of these pages in the latest generation that has fetched them."""
        within = self._state.crawl(crawl)
        if not within.earlier:
            return {}
        database = self._owner.database
        with translated(self._owner.path):
            return find_done(database, within.id, within.earlier, fingerprints)

    def require_fsync(self) -> None:
        """Make every further commit survive a power loss."""
        self._owner.database.execute("PRAGMA synchronous = FULL")


def _migrations() -> list[str]:
    return [files(__package__).joinpath(name).read_text() for name in MIGRATIONS]
