"""The state in RAM: everything that can be rebuilt from the database."""

import logging
import math
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, NamedTuple

import msgspec

from shoal.frontier.results import Counts
from shoal.frontier.rules import HostRecord
from shoal.frontier.sqlite.changes import SWEEP_EVERY_ROWS, Changes, DeferredDeletes
from shoal.frontier.sqlite.lane import HostState, Lane
from shoal.frontier.sqlite.scheduler import Roster, Scheduler
from shoal.frontier.sqlite.seen import SeenSet
from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.errors import Misconfigured
from shoal.model.pace import Pace

log = logging.getLogger(__name__)

ORDINAL_BITS = 40  # low bits of a request's id; the crawl's id is above them


class CrawlTerms(msgspec.Struct, frozen=True):
    """The options that a crawl was opened with, as stored in the database."""

    pace: Pace = Pace()
    max_crashes: int = 6
    slowdown: SlowdownRules = SlowdownRules()
    host_budget: int = 0  # requests accepted per host; 0: unlimited
    hosts: dict[str, Pace] = {}  # hosts with another pace

    def pace_at(self, host: str) -> Pace:
        return self.hosts.get(host, self.pace)


class RequestRow(NamedTuple):
    """A request, as read for a lease."""

    id: int
    fp: int
    priority: int
    attempts: int
    crashes: int
    rests: int
    first_at: float | None
    request: bytes


@dataclass(slots=True, eq=False)
class Batch:
    """The leases of one call to `lease` that are still held."""

    token: int
    holder: str
    granted_at: float
    until: float  # the earliest deadline in it
    extended: bool = False  # its deadlines differ
    held: dict[int, "HeldLease"] = field(default_factory=dict)  # by id of the request


@dataclass(slots=True, eq=False)
class HeldLease:
    """One lease that is neither settled nor reclaimed."""

    row: RequestRow
    lane: Lane
    batch: Batch
    until: float
    interval: float
    landed: bool = False


@dataclass(slots=True)
class ParsingPage:
    """A page that is being parsed, or waits to be."""

    id: int
    strikes: int
    taken: bool


class CrawlState:
    """One open crawl."""

    def __init__(self, id: int, name: str, terms: CrawlTerms, counts: Counts, *, paused: bool) -> None:
        self.id = id
        self.name = name
        self.terms = terms
        self.counts = counts
        self.paused = paused
        self.guest = False  # another process runs it, through this one
        self.asks_at = -math.inf  # when its process asks for leases again; the past: it has enough
        self.seen = SeenSet()
        self.accepted_by_host: dict[str, int] = {}  # counted since the crawl has a budget
        self.lanes: dict[tuple[str, str], Lane] = {}  # by host and pool
        self.rosters: dict[str, Roster] = {}  # by pool
        self.suspects: dict[str, Roster] = {}
        self.out: dict[int, HeldLease] = {}  # leased, by fingerprint
        self.delayed: list[tuple[float, int, int, Lane]] = []  # heap of due, id, band
        self.parsing: dict[int, ParsingPage] = {}  # by fingerprint
        self.earlier: list[int] = []  # numbers of the generations that have ended

    @property
    def first_id(self) -> int:
        return self.id << ORDINAL_BITS

    def roster(self, pool: str, *, suspect: bool) -> Roster:
        return (self.suspects if suspect else self.rosters).setdefault(pool, Roster())


class FrontierState:
    def __init__(
        self,
        database: sqlite3.Connection,
        *,
        opened_at: float,
        life: int,
        sweep_every: int = SWEEP_EVERY_ROWS,
    ) -> None:
        self.database = database
        self.opened_at = opened_at
        self.scheduler = Scheduler()
        self.crawls: dict[str, CrawlState] = {}
        self.hosts: dict[str, HostState] = {}
        # A heap; a batch may be listed too early, never too late.
        self.deadlines: list[tuple[float, int, Batch]] = []
        self.with_suspect: set[str] = set()  # holders that have a suspect
        self.spent = DeferredDeletes(sweep_every)
        self.token = life << 32  # tokens of earlier processes are smaller, those of later ones greater
        self.next_lane = self._after("lane")
        self.next_host = self._after("host")

    def _after(self, table: str) -> int:
        [last] = self.database.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()  # noqa: S608
        return int(last) + 1

    def crawl(self, name: str) -> CrawlState:
        try:
            return self.crawls[name]
        except KeyError:
            raise Misconfigured(f"no crawl named {name!r} is open") from None

    def host(self, name: str, changes: Changes) -> HostState:
        """Return a host; create it if it is new."""
        if (host := self.find_host(name)) is not None:
            return host
        host = self.hosts[name] = HostState(self.next_host, name, HostRecord())
        self.next_host += 1
        changes.hosts.add(host)
        return host

    def find_host(self, name: str) -> HostState | None:
        """Return a host that is in RAM or in the database, or None."""
        if (host := self.hosts.get(name)) is not None:
            return host
        known = self.database.execute(
            "SELECT id, interval, burst, concurrency, crawl_delay, rest_until, slow, paused"
            " FROM host WHERE name = ?",
            (name,),
        ).fetchone()
        return None if known is None else self.load_host(known[0], name, known[1:])

    def load_host(self, id: int, name: str, record: Sequence[Any]) -> HostState:
        """Load a host from its row. An earlier process may have sent it a request just before the start."""
        if any(isinstance(value, str | bytes) for value in record):
            log.error("host.unreadable", extra={"host": name, "why": "its row is damaged; defaults apply"})
            record = ()
        known = HostRecord(*record)  # its fields in the order of the columns
        known.paused = bool(known.paused)
        host = self.hosts[name] = HostState(id, name, known, last=self.opened_at)
        return host

    def lane(self, crawl: CrawlState, host_name: str, pool: str, changes: Changes) -> Lane:
        """Return the lane of a request; create it if it is new."""
        if (lane := crawl.lanes.get((host_name, pool))) is not None:
            return lane
        host = self.host(host_name, changes)
        lane = self.add_lane(self.next_lane, crawl, host, pool)
        self.next_lane += 1
        changes.lanes.append((lane.id, crawl.id, host.id, pool))
        return lane

    def add_lane(self, id: int, crawl: CrawlState, host: HostState, pool: str) -> Lane:
        lane = Lane(id, crawl, host, pool, crawl.roster(pool, suspect=False), suspect=False)
        crawl.lanes[(host.name, pool)] = lane
        lane.roster.lanes += 1
        host.join(lane)
        return lane

    def suspect_lane(self, lane: Lane) -> Lane:
        """Return the lane of suspects that belongs to a lane; create it if it is new."""
        if lane.suspects is None:
            suspects = Lane(
                lane.id,
                lane.crawl,
                lane.host,
                lane.pool,
                lane.crawl.roster(lane.pool, suspect=True),
                suspect=True,
            )
            suspects.roster.lanes += 1
            lane.suspects = suspects
            lane.host.lanes.append(suspects)
        return lane.suspects

    def next_deadline(self) -> float:
        """Return when the next lease expires."""
        while self.deadlines:
            listed, token, batch = self.deadlines[0]
            if batch.held and not batch.extended:
                return listed
            if batch.held and (until := min(held.until for held in batch.held.values())) == listed:
                return listed
            heappop(self.deadlines)
            if batch.held:
                batch.until = until
                heappush(self.deadlines, (until, token, batch))
        return math.inf

    def open_crawls(self, names: Iterable[str] | None) -> list[CrawlState]:
        """Return the open crawls that are not paused."""
        chosen = self.crawls.values() if names is None else [self.crawl(name) for name in names]
        return [crawl for crawl in chosen if not crawl.paused]
