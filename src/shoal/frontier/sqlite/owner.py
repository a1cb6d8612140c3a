"""Owning a store: its life, its transactions, and its crawls as a whole."""

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Self

import msgspec

from shoal.frontier.clock import Clock
from shoal.frontier.results import Audit, Counts, Opened, StoredRobots
from shoal.frontier.sqlite.audit import audit_state
from shoal.frontier.sqlite.changes import Changes
from shoal.frontier.sqlite.deferred_deletes import SWEEP_EVERY
from shoal.frontier.sqlite.drop import drop
from shoal.frontier.sqlite.load import decode_counts, decode_terms, load, recover
from shoal.frontier.sqlite.reader import SqliteReader
from shoal.frontier.sqlite.reclaim import promote, set_back
from shoal.frontier.sqlite.state import CrawlState, CrawlTerms, FrontierState
from shoal.frontier.sqlite.wal import Checkpointer
from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.errors import Misconfigured, ShoalError, Unavailable
from shoal.model.pace import Pace
from shoal.sqlite_database import (
    check,
    connect_for_reading,
    open_database,
    transaction,
    translate,
    translated,
)

MIGRATIONS = ("schema.sql", "versions.sql")  # each leads one version further
ROBOTS_KEPT = 5000  # hosts whose robots.txt is remembered; those that expire first make room
ROBOTS_SWEEP = 64  # rows written between two sweeps


class Owner(SqliteReader):
    """The process that may write.

    Calls change the state in RAM first and then write one transaction. If that fails (a full disk, most
    likely), RAM is ahead of the disk: every later call is refused with the reason, and the next life begins
    from the disk, which is whole.
    """

    def __init__(
        self, state: FrontierState, path: Path, clock: Callable[[], float], checkpointer: Checkpointer
    ) -> None:
        super().__init__(state.database, path, clock)
        self._state = state
        self._checkpointer = checkpointer
        self._steady_clock = Clock(clock, lambda now, by: set_back(state, now, by))
        self._broken: ShoalError | None = None
        self._robots_written = 0
        self._acknowledged = asyncio.Event()  # set whenever a page has been parsed

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: Path,
        *,
        clock: Callable[[], float] = time.time,
        fsync: bool = False,
        sweep_every: int = SWEEP_EVERY,
    ) -> AsyncIterator[Self]:
        """Own the database at `path`, making or migrating it if need be.

        What an earlier owner had leased when it died waits again, with a crash on its account. Leaving
        gives nothing back: who stops in peace settles its leases first.
        """
        database = open_database(path, _migrations(), fsync=fsync)
        try:
            now = clock()
            with translated(path):
                life = recover(database, now)
                state = FrontierState(database, opened_at=now, life=life, sweep_every=sweep_every)
            with Checkpointer(path) as checkpointer:
                yield cls(state, path, clock, checkpointer)
        finally:
            database.close()

    @classmethod
    @asynccontextmanager
    async def peek(cls, path: Path, *, clock: Callable[[], float] = time.time) -> AsyncIterator[SqliteReader]:
        """Read a store without owning it, while its owner goes on."""
        database = connect_for_reading(path)
        try:
            if check(database, path, newest=len(MIGRATIONS)) < len(MIGRATIONS):
                raise Misconfigured(f"{path} was written by an older Shoal: shoal crawl brings it up to date")
            yield SqliteReader(database, path, clock)
        finally:
            database.close()

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
        """Create a crawl or take it up again; what is not given stays as it was.

        `hosts` have a pace of their own in this crawl, in place of `pace`. `state` is written only if the
        crawl is new.
        """
        self._refuse_if_broken()
        with translated(self._path):
            known = self._database.execute(
                "SELECT id, settings, counts, paused, dropped FROM crawl WHERE name = ?", (name,)
            ).fetchone()
        resumed = known is not None and not known[4]
        given = {
            "pace": pace,
            "max_crashes": max_crashes,
            "slowdown": slowdown,
            "host_budget": host_budget,
            "hosts": hosts,
        }
        terms = msgspec.structs.replace(
            decode_terms(known[1]) if resumed else CrawlTerms(),
            **{name: value for name, value in given.items() if value is not None},
        )
        with self._transaction() as database:
            [id] = database.execute(
                "INSERT INTO crawl(name, settings, counts) VALUES (?, ?, '{}')"
                " ON CONFLICT(name) DO UPDATE SET settings = excluded.settings, dropped = 0 RETURNING id",
                (name, msgspec.json.encode(terms).decode()),
            ).fetchone()
            if not resumed:
                database.executemany(
                    "INSERT INTO crawl_state VALUES (?, ?, ?)",
                    [(id, key, value) for key, value in (state or {}).items()],
                )
            if (crawl := self._state.crawls.get(name)) is not None:
                self._reopen(crawl, terms)
            else:
                counts = decode_counts(known[2]) if resumed else Counts()
                crawl = CrawlState(id, name, terms, counts, paused=bool(resumed and known[3]))
                self._state.crawls[name] = crawl
                load(self._state, crawl, self._now())
        return Opened(name, resumed)

    def _reopen(self, crawl: CrawlState, terms: CrawlTerms) -> None:
        crawl.terms = terms
        for host in {lane.host for lane in crawl.lanes.values()}:
            host.repace()
            self._state.scheduler.place_all(host, self._now())

    async def drop_crawl(self, name: str, *, forget: Collection[str] = (), entirely: bool = False) -> bool:
        """Delete a crawl that is not open, and the checkpoints named; False: there was none.

        What conditional requests need is kept for its next generation (`validators`), unless it is to go
        `entirely`.
        """
        self._refuse_if_broken()
        if name in self._state.crawls:
            raise Misconfigured(f"crawl {name!r} is open and cannot be dropped")
        if name not in await self.crawls():
            return False
        finished = (await self.counts(name)).open == 0
        with self._transaction() as database:
            drop(database, self.crawl_id(name), finished=finished, forget=forget, entirely=entirely)
        return True

    async def pause(self, crawl: str) -> None:
        """Lease nothing more from a crawl, open or not, in this life and the next ones, until `resume`."""
        self._pause(crawl, paused=True)

    async def resume(self, crawl: str) -> None:
        self._pause(crawl, paused=False)

    def _pause(self, name: str, *, paused: bool) -> None:
        id = self.crawl_id(name)
        with self._transaction() as database:
            database.execute("UPDATE crawl SET paused = ? WHERE id = ?", (paused, id))
            if (crawl := self._state.crawls.get(name)) is not None:
                crawl.paused = paused

    async def robots_get(self, host: str) -> StoredRobots | None:
        """Recall a host's robots.txt; None: not known, or expired."""
        rows = self._rows(
            "SELECT expires, status, body FROM robots WHERE host = ? AND expires > ?", (host, self._clock())
        )
        return StoredRobots(*rows[0]) if rows else None

    async def robots_set(self, host: str, *, expires: float, status: int, body: bytes) -> None:
        with self._transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO robots VALUES (?, ?, ?, ?)", (host, expires, status, body)
            )
            self._robots_written += 1
            if self._robots_written % ROBOTS_SWEEP == 0:
                database.execute(
                    "DELETE FROM robots WHERE host IN"
                    " (SELECT host FROM robots ORDER BY expires DESC LIMIT -1 OFFSET ?)",
                    (ROBOTS_KEPT,),
                )

    async def counts(self, crawl: str) -> Counts:
        """Count the requests of a crawl by state."""
        if (known := self._state.crawls.get(crawl)) is None:
            return await super().counts(crawl)
        promote(self._state, self._now())
        return known.counts.copy()

    async def waiting_by_pool(self, crawl: str) -> dict[str, int]:
        """Count the requests that wait for their turn or for a retry, by pool; pools without any are left
        out.
        """
        known = self._state.crawl(crawl)
        waiting: Counter[str] = Counter()
        for lane in known.lanes.values():
            waiting[lane.pool] += lane.size + (lane.suspects.size if lane.suspects is not None else 0)
        waiting.update(lane.pool for _, _, _, lane in known.delayed)
        return dict(+waiting)

    async def audit(self, crawl: str) -> Audit:
        """Count every set again from the data, on disk and in RAM, and compare."""
        found = await super().audit(crawl)
        known = self._state.crawls.get(crawl)
        if known is None:
            return found
        return Audit(found.counts, [*found.problems, *audit_state(self._state, known)])

    def _now(self) -> float:
        return self._steady_clock.now()

    def _refuse_if_broken(self) -> None:
        if self._broken is not None:
            raise self._broken

    @contextmanager
    def _changing(self) -> Iterator[Changes]:
        """Collect what the caller changes in RAM, then write it."""
        with self._fail_stop():
            changes = Changes()
            yield changes
            if changes:
                with transaction(self._database):
                    changes.write(self._database, self._state.spent)
        self._checkpointer.note(self._database.total_changes)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._fail_stop(), transaction(self._database):
            yield self._database

    @contextmanager
    def _fail_stop(self) -> Iterator[None]:
        self._refuse_if_broken()
        try:
            yield
        except BaseException as error:
            ours = translate(error, self._path) if isinstance(error, sqlite3.Error) else None
            self._broken = ours or Unavailable(f"{self._path}: stopped after {type(error).__name__}: {error}")
            if ours is not None:
                raise ours from error
            raise


def _migrations() -> list[str]:
    return [files(__package__).joinpath(name).read_text() for name in MIGRATIONS]
