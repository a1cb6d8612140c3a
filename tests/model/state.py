"""The state of the model, and the few ways in which it changes."""

import math
from bisect import insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from shoal.frontier.clock import Clock
from shoal.frontier.generations import Generation
from shoal.frontier.governor import USUAL_RULES, Governor
from shoal.frontier.results import Counts, StoredRobots, Tried
from shoal.frontier.rules import (
    DIED_PARSING,
    OVERRAN,
    HostRecord,
    band,
    next_moment,
    poisoned,
    struck_out,
)
from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.errors import Misconfigured
from shoal.model.failure import Failure, FailureClass
from shoal.model.generations.page_history import PageFate, PageHistory, pack_history
from shoal.model.outcome import Lease
from shoal.model.pace import Pace
from shoal.model.page import PageRecord
from shoal.model.request import Link


@dataclass(slots=True, eq=False)
class Entry:
    """One accepted request, in any state."""

    ordinal: int  # its place in the order of acceptance
    link: Link
    state: str = "waiting"
    attempts: int = 0  # that have ended
    crashes: int = 0
    rests: int = 0
    due: float = 0.0
    first_at: float | None = None
    token: int = 0  # of its lease
    holder: str = ""
    granted_at: float = 0.0
    until: float = 0.0
    landed: bool = False
    page: PageRecord | None = None
    strikes: int = 0
    taken: bool = False
    failure: Failure | None = None
    died_at: float = 0.0
    purged: bool = False  # dead, and its dead letter was deleted
    ended_at: float = 0.0
    elapsed: float = 0.0  # of the last attempt
    status: int = 0
    tried: list[Tried] = field(default_factory=list)  # attempts that ended without a page

    def log_attempt(self, failure: Failure, at: float, elapsed: float) -> None:
        self.tried.append(Tried(at, elapsed, failure.status, failure.failure_class, failure.reason))

    @property
    def rank(self) -> tuple[int, int]:
        return band(self.link.priority, self.attempts), self.ordinal


@dataclass(slots=True, eq=False)
class Lane:
    crawl: "Crawl"
    host: "Host"
    pool: str
    suspect: bool
    waiting: list[Entry] = field(default_factory=list)  # by rank
    moment: float = 0  # when it was last served, or last became non-empty


@dataclass(slots=True, eq=False)
class Crawl:
    name: str
    pace: Pace
    max_crashes: int
    slowdown: SlowdownRules
    host_budget: int = 0
    paces: dict[str, Pace] = field(default_factory=dict)  # of hosts with another pace
    accepted_by_host: Counter[str] = field(default_factory=Counter)  # since the crawl has a budget
    opened: bool = False
    paused: bool = False
    counts: Counts = field(default_factory=Counts)
    requests: dict[int, Entry] = field(default_factory=dict)  # by fingerprint; everything that was seen
    lanes: dict[tuple[str, str, bool], Lane] = field(default_factory=dict)  # by host, pool and `suspect`
    values: dict[str, bytes] = field(default_factory=dict)

    def histories(self) -> dict[int, bytes]:
        """Return what the next generation gets to know of each request that has ended."""
        found = {}
        for fp, entry in self.requests.items():
            if entry.state == "done" and entry.page is not None and entry.page.history:
                found[fp] = entry.page.history
            elif entry.state == "gone":
                found[fp] = pack_history(PageHistory(PageFate.GONE, entry.status))
            elif entry.state == "dead":
                status = entry.failure.status if entry.failure is not None else 0
                found[fp] = pack_history(PageHistory(PageFate.DEAD, status))
        return found


@dataclass(slots=True)
class Generations:
    """The earlier generations of a crawl."""

    current: int = 1
    key: bytes = b""  # of its fingerprints
    earlier: dict[Generation, dict[int, bytes]] = field(default_factory=dict)


class Host(Governor):
    def __init__(self, name: str, record: HostRecord, *, last: float = -math.inf) -> None:
        super().__init__(record, last=last)
        self.name = name
        self.joined: list[Crawl] = []

    def update_pace(self) -> None:
        rules = self.joined[0].slowdown if self.joined else USUAL_RULES
        self.follow([crawl.paces.get(self.name, crawl.pace) for crawl in self.joined], rules)


class State:
    """All crawls and hosts. An entry's state changes in `move` and nowhere else."""

    def __init__(self, read_clock: Callable[[], float]) -> None:
        self.read_clock = read_clock
        self.crawls: dict[str, Crawl] = {}
        self.hosts: dict[str, Host] = {}
        self.clock = Clock(read_clock, self.set_back)
        self.generations: dict[str, Generations] = {}  # by crawl
        self.checkpoints: dict[str, bytes] = {}
        self.robots: dict[str, StoredRobots] = {}
        self._moment = 0.0

    def crawl(self, name: str) -> Crawl:
        """Return an open crawl."""
        crawl = self.crawls.get(name)
        if crawl is None or not crawl.opened:
            raise Misconfigured(f"no crawl named {name!r} is open")
        return crawl

    def known(self, name: str) -> Crawl:
        """Return a crawl, open or not."""
        if name not in self.crawls:
            raise Misconfigured(f"the store has no crawl named {name!r}")
        return self.crawls[name]

    def open(self) -> list[Crawl]:
        return [crawl for crawl in self.crawls.values() if crawl.opened]

    def leased(self) -> Iterator[tuple[Crawl, Entry]]:
        for crawl in self.crawls.values():
            for entry in crawl.requests.values():
                if entry.state == "leased":
                    yield crawl, entry

    def held(self, lease: Lease) -> Entry | None:
        """Return the request of a lease, or None if the lease was settled or reclaimed."""
        crawl = self.crawls.get(lease.crawl)
        entry = crawl.requests.get(lease.fingerprint) if crawl is not None else None
        return entry if entry is not None and entry.state == "leased" and entry.token == lease.token else None

    def dead(
        self, crawl: Crawl, classes: Collection[FailureClass], host: str, fingerprints: Collection[int]
    ) -> list[Entry]:
        return [
            entry
            for fp, entry in crawl.requests.items()
            if entry.state == "dead"
            and not entry.purged
            and entry.failure is not None
            and (not classes or entry.failure.failure_class in classes)
            and (not host or entry.link.host == host)
            and (not fingerprints or fp in fingerprints)
        ]

    def host(self, name: str) -> Host:
        return self.hosts.setdefault(name, Host(name, HostRecord()))

    def admit(self, crawl: Crawl, links: Iterable[Link]) -> tuple[int, int]:
        """Accept links; return how many were new and how many had been seen before."""
        new = duplicate = 0
        for link in links:
            if link.fingerprint in crawl.requests:
                duplicate += 1
                continue
            if crawl.host_budget:
                if crawl.accepted_by_host[link.host] >= crawl.host_budget:
                    crawl.counts.over_budget += 1
                    continue
                crawl.accepted_by_host[link.host] += 1
            new += 1
            crawl.counts.accepted += 1
            crawl.counts.waiting += 1
            entry = crawl.requests[link.fingerprint] = Entry(crawl.counts.accepted, link)
            self.wait(crawl, entry)
        crawl.counts.duplicate += duplicate
        return new, duplicate

    def readmit(self, crawl: Crawl, links: Iterable[Link], rule: FailureClass) -> int:
        """Queue what a rule had filtered; return how many."""
        found = 0
        for link in links:
            entry = crawl.requests.get(link.fingerprint)
            if entry is None or entry.state != "filtered" or entry.failure is None:
                continue
            if entry.failure.failure_class is rule:
                found += 1
                self.move(crawl, entry, "waiting")
                entry.attempts = entry.crashes = entry.rests = 0
                entry.first_at = None
                self.wait(crawl, entry)
        return found

    def lane(self, crawl: Crawl, host_name: str, pool: str, *, suspect: bool) -> Lane:
        key = (host_name, pool, suspect)
        if key not in crawl.lanes:
            host = self.host(host_name)
            crawl.lanes[key] = Lane(crawl, host, pool, suspect)
            host.joined.append(crawl)
            host.update_pace()
        return crawl.lanes[key]

    def wait(self, crawl: Crawl, entry: Entry) -> None:
        """Put a waiting entry into its lane."""
        lane = self.lane(crawl, entry.link.host, entry.link.pool, suspect=entry.crashes > 0)
        insort(lane.waiting, entry, key=lambda entry: entry.rank)
        if len(lane.waiting) == 1:
            self.stamp(lane)

    def stamp(self, lane: Lane) -> None:
        lane.moment = self._moment = next_moment(self._moment, self.clock.now())

    def move(self, crawl: Crawl, entry: Entry, state: str, failure: Failure | None = None) -> None:
        """Change an entry's state and update the counts."""
        counts = crawl.counts
        if entry.state == "dead" and entry.failure is not None:
            counts.revive(entry.failure.failure_class)
        elif entry.state == "filtered" and entry.failure is not None:
            counts.readmit(entry.failure.failure_class)
        else:
            setattr(counts, entry.state, getattr(counts, entry.state) - 1)
        entry.state, entry.failure = state, failure
        if state == "dead" and failure is not None:
            counts.die(failure.failure_class)
        elif state == "filtered" and failure is not None:
            counts.filter(failure.failure_class)
        else:
            setattr(counts, state, getattr(counts, state) + 1)

    def end_lease(self, entry: Entry) -> None:
        if not entry.landed:
            self.hosts[entry.link.host].inflight -= 1

    def put_back(self, crawl: Crawl, entry: Entry, delay: float, now: float) -> None:
        """Queue an entry again, now or after `delay` seconds."""
        if delay > 0:
            entry.due = now + delay
            self.move(crawl, entry, "delayed")
        else:
            self.move(crawl, entry, "waiting")
            self.wait(crawl, entry)

    def die(self, crawl: Crawl, entry: Entry, failure: Failure, now: float) -> None:
        entry.died_at = now
        self.move(crawl, entry, "dead", failure)

    def promote(self, now: float) -> None:
        """Move entries whose delay has ended to `waiting`."""
        for crawl in self.open():
            ended = [
                entry for entry in crawl.requests.values() if entry.state == "delayed" and entry.due <= now
            ]
            for entry in sorted(ended, key=lambda entry: (entry.due, entry.ordinal)):
                self.move(crawl, entry, "waiting")
                self.wait(crawl, entry)

    def reclaim(self, now: float) -> int:
        """Take back every lease whose deadline has passed."""
        expired = [(crawl, entry) for crawl, entry in self.leased() if entry.until <= now]
        self.crash(expired, now)
        return len(expired)

    def crash(self, held: Iterable[tuple[Crawl, Entry]], now: float) -> None:
        """Charge a crash to requests whose holder died or let the lease expire."""
        for crawl, entry in sorted(held, key=lambda pair: (pair[1].token, pair[0].name, pair[1].ordinal)):
            self.end_lease(entry)
            entry.attempts += 1
            entry.crashes += 1
            entry.first_at = entry.granted_at if entry.first_at is None else entry.first_at
            entry.log_attempt(OVERRAN, now, now - entry.granted_at)
            crawl.counts.crashes += 1
            if entry.crashes >= crawl.max_crashes:
                self.die(crawl, entry, poisoned(entry.crashes), now)
            else:
                self.put_back(crawl, entry, 0.0, now)

    def set_back(self, now: float, by: float) -> None:
        for host in self.hosts.values():
            host.set_back(now)
        for _, entry in self.leased():
            entry.until -= by

    def take_up(self, crawl: Crawl) -> None:
        """Open a crawl: its lanes join their hosts again, in the order in which they were created."""
        crawl.opened = True
        self.promote(self.clock.now())
        for (host, pool, suspect), lane in crawl.lanes.items():
            lane.host.joined.append(crawl)
            if suspect:
                continue  # stamped right after the lane that it belongs to
            for other in (lane, crawl.lanes.get((host, pool, True))):
                if other is not None and other.waiting:
                    self.stamp(other)

    def restart(self, now: float) -> None:
        """Do what the death of the owner does to a frontier that survives it."""
        self.crash(list(self.leased()), now)
        for crawl in self.crawls.values():
            crawl.opened = False
            for entry in crawl.requests.values():
                if entry.state == "parsing" and entry.taken:
                    entry.taken = False
                    entry.strikes += 1
                    entry.log_attempt(DIED_PARSING, now, 0.0)
                    crawl.counts.crashes += 1
                    if entry.strikes >= crawl.max_crashes:
                        self.die(crawl, entry, struck_out(entry.strikes), now)
        self._moment = 0.0  # lanes get new ones when their crawl is opened
        self.hosts = {name: Host(name, host.record, last=now) for name, host in self.hosts.items()}
        for crawl in self.crawls.values():
            for lane in crawl.lanes.values():
                lane.host = self.hosts[lane.host.name]
