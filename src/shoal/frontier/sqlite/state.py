"""The half of the frontier that lives in RAM: everything that can be rebuilt from the database."""

import math
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, NamedTuple

import msgspec

from shoal.frontier.results import Counts
from shoal.frontier.rules import HostRecord
from shoal.frontier.sqlite.changes import Changes
from shoal.frontier.sqlite.deferred_deletes import SWEEP_EVERY, DeferredDeletes
from shoal.frontier.sqlite.host import HostState
from shoal.frontier.sqlite.lane import Lane
from shoal.frontier.sqlite.scheduler import Roster, Scheduler
from shoal.frontier.sqlite.seen import SeenSet
from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.errors import Misconfigured
from shoal.model.pace import Pace

ORDINAL_BITS = 40  # of a request's id; the crawl's id is above


class CrawlTerms(msgspec.Struct, frozen=True):
    """What a crawl was opened with, as kept in the database."""

    pace: Pace = Pace()
    max_crashes: int = 3
    slowdown: SlowdownRules = SlowdownRules()
    host_budget: int = 0  # requests that one host may bring; 0: any number
    hosts: dict[str, Pace] = {}  # hosts where another pace applies

    def pace_at(self, host: str) -> Pace:
        return self.hosts.get(host, self.pace)


class RequestRow(NamedTuple):
    """A request, as read back for a lease."""

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
    """What one call to `lease` handed out, as far as it is still held."""

    token: int
    holder: str
    granted_at: float
    until: float  # the earliest deadline in it
    extended: bool = False  # its deadlines differ
    held: dict[int, "HeldLease"] = field(default_factory=dict)  # by id of the request


@dataclass(slots=True, eq=False)
class HeldLease:
    row: RequestRow
    lane: Lane
    batch: Batch
    until: float
    interval: float
    landed: bool = False


@dataclass(slots=True)
class ParsingPage:
    """A page that is being parsed, or waits for it."""

    id: int
    strikes: int
    taken: bool


class CrawlState:
    """One crawl that was opened."""

    def __init__(self, id: int, name: str, terms: CrawlTerms, counts: Counts, *, paused: bool) -> None:
        self.id = id
        self.name = name
        self.terms = terms
        self.counts = counts
        self.paused = paused
        self.seen = SeenSet()
        self.brought: dict[str, int] = {}  # requests by host, since there is a budget
        self.lanes: dict[tuple[str, str], Lane] = {}  # by host and pool
        self.rosters: dict[str, Roster] = {}  # by pool
        self.suspects: dict[str, Roster] = {}
        self.out: dict[int, HeldLease] = {}  # leased, by fingerprint
        self.delayed: list[tuple[float, int, int, Lane]] = []  # heap of due, id, band
        self.parsing: dict[int, ParsingPage] = {}  # by fingerprint
        self.has_validators = False

    @property
    def first_id(self) -> int:
        return self.id << ORDINAL_BITS

    def roster(self, pool: str, *, suspect: bool) -> Roster:
        return (self.suspects if suspect else self.rosters).setdefault(pool, Roster())


class FrontierState:
    def __init__(
        self, database: sqlite3.Connection, *, opened_at: float, life: int, sweep_every: int = SWEEP_EVERY
    ) -> None:
        self.database = database
        self.opened_at = opened_at
        self.scheduler = Scheduler()
        self.crawls: dict[str, CrawlState] = {}
        self.hosts: dict[str, HostState] = {}
        # A heap; a batch may be listed too early, never too late.
        self.deadlines: list[tuple[float, int, Batch]] = []
        self.with_suspect: set[str] = set()  # holders that have one
        self.spent = DeferredDeletes(sweep_every)
        self.token = life << 32  # tokens of an earlier life are smaller, those of a later one greater
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
        """Find a host, or make it."""
        if (host := self.find_host(name)) is not None:
            return host
        host = self.hosts[name] = HostState(self.next_host, name, HostRecord())
        self.next_host += 1
        changes.hosts.add(host)
        return host

    def find_host(self, name: str) -> HostState | None:
        """Find a host, in RAM or among those that an earlier life knew."""
        if (host := self.hosts.get(name)) is not None:
            return host
        known = self.database.execute(
            "SELECT id, interval, burst, concurrency, crawl_delay, rest_until, slow, paused"
            " FROM host WHERE name = ?",
            (name,),
        ).fetchone()
        return None if known is None else self.take_in(known[0], name, known[1:])

    def take_in(self, id: int, name: str, record: Sequence[Any]) -> HostState:
        """Take in a host that an earlier life knew: it may have been asked the moment before."""
        known = HostRecord(*record)  # columns in the order of its fields
        known.paused = bool(known.paused)
        host = self.hosts[name] = HostState(id, name, known, last=self.opened_at)
        return host

    def lane(self, crawl: CrawlState, host_name: str, pool: str, changes: Changes) -> Lane:
        """Find the lane of a request, or make it."""
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

    def beside(self, lane: Lane) -> Lane:
        """Find the lane of suspects beside a lane, or make it."""
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
        """Say when the next lease runs out."""
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
        """Give the crawls that may be leased from."""
        chosen = self.crawls.values() if names is None else [self.crawl(name) for name in names]
        return [crawl for crawl in chosen if not crawl.paused]
