"""What a frontier answers: values, the same from every backend."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from shoal.model.failure import FailureClass
from shoal.model.outcome import Acknowledgement, Lease
from shoal.model.page import PageRecord, PageRef
from shoal.model.request import Request, trace_id


@dataclass(frozen=True, slots=True)
class Opened:
    """A crawl that may now be added to and leased from."""

    crawl: str
    resumed: bool  # False: it did not exist before


@dataclass(frozen=True, slots=True)
class Added:
    new: int
    duplicate: int


@dataclass(frozen=True, slots=True)
class Committed:
    new: int  # links accepted
    duplicate: int
    stale: Sequence[Lease] = ()  # leases whose settlement was refused: drop their results
    refused: Sequence[Acknowledgement] = ()  # pages that were not being parsed


class Counts(msgspec.Struct, kw_only=True):
    """The requests of a crawl, by state, and a few sums over its life."""

    accepted: int = 0
    waiting: int = 0
    delayed: int = 0
    leased: int = 0
    parsing: int = 0
    done: int = 0
    gone: int = 0
    dead: int = 0
    filtered: int = 0
    duplicate: int = 0  # links that had been seen before
    over_budget: int = 0  # links not accepted because their host had brought enough
    retries: int = 0  # attempts that ended in another one
    crashes: int = 0  # leases that ran out, and parses that took their process along
    mistaken: float = 0.0  # share of new links that are taken for seen ones; 0: the crawl remembers exactly
    dead_by_class: dict[str, int] = {}
    filtered_by_rule: dict[str, int] = {}

    def by_state(self) -> dict[str, int]:
        return {state: getattr(self, state) for state in STATES}

    @property
    def open(self) -> int:
        """Count what has not come to its end yet."""
        return self.waiting + self.delayed + self.leased + self.parsing

    @property
    def ended(self) -> int:
        """Count what has come to its end."""
        return self.done + self.gone + self.dead + self.filtered

    def die(self, kind: FailureClass) -> None:
        self.dead += 1
        self.dead_by_class[kind.value] = self.dead_by_class.get(kind.value, 0) + 1

    def revive(self, kind: FailureClass) -> None:
        self.dead -= 1
        self.dead_by_class[kind.value] -= 1
        if not self.dead_by_class[kind.value]:
            del self.dead_by_class[kind.value]

    def filter(self, rule: FailureClass) -> None:
        self.filtered += 1
        self.filtered_by_rule[rule.value] = self.filtered_by_rule.get(rule.value, 0) + 1

    def copy(self) -> "Counts":
        return msgspec.structs.replace(
            self, dead_by_class=dict(self.dead_by_class), filtered_by_rule=dict(self.filtered_by_rule)
        )


STATES = ("waiting", "delayed", "leased", "parsing", "done", "gone", "dead", "filtered")


class HostView(msgspec.Struct, frozen=True, kw_only=True):
    """One host: its pace as of now, and what is going on there."""

    host: str
    waiting: int
    inflight: int  # requests on the wire
    interval: float  # seconds between requests, every slow-down included; 0: unlimited
    burst: int
    concurrency: int
    next_turn: float  # epoch seconds of the next possible request; in the past: now
    crawl_delay: float  # asked for by robots.txt
    rest_until: float  # epoch seconds
    slow: float  # 1.0: not slowed down
    paused: bool
    failures: int  # failed attempts since this process began


@dataclass(frozen=True, slots=True)
class Unparsed:
    """A page that was fetched and archived, and whose links and items are still to come."""

    fingerprint: int
    request: Request
    page: PageRecord
    strikes: int  # times a process died while parsing it
    consumer: str = ""  # whom a bus gave it to


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A request that was given up, with all that is known about why."""

    crawl: str
    fingerprint: int
    host: str
    request: Request
    kind: FailureClass
    reason: str
    status: int
    attempts: int
    crashes: int
    first_at: float  # when it was first leased
    died_at: float
    holder: str  # who had it last
    page: PageRecord | None

    @property
    def trace(self) -> str:
        return trace_id(self.fingerprint)


@dataclass(frozen=True, slots=True)
class Tried:
    """An attempt that brought no page."""

    at: float  # when it ended
    elapsed: float
    status: int
    kind: FailureClass
    reason: str


@dataclass(frozen=True, slots=True)
class RequestHistory:
    """One accepted request, and what has become of it."""

    crawl: str
    fingerprint: int
    state: str
    tried: Sequence[Tried]
    request: Request | None = None  # None: it has come to its end, and was forgotten
    page: PageRecord | None = None
    found_on: int | None = None  # 0: a seed; None: only its archived page knows
    ended_at: float | None = None
    status: int = 0
    elapsed: float = 0.0  # of the attempt that ended it
    rule: str = ""  # failure class of a dead one, rule of a filtered one
    reason: str = ""
    due: float | None = None  # epoch seconds before which it may not be leased
    holder: str = ""  # who has it, or had it last
    leased_at: float | None = None  # when the lease that is out was granted

    @property
    def trace(self) -> str:
        return trace_id(self.fingerprint)


@dataclass(frozen=True, slots=True)
class HostQueue:
    """What is left to do on one host, and the pace that applies there."""

    host: str
    queued: int
    interval: float
    concurrency: int
    paused: bool
    rest_until: float = 0.0  # epoch seconds
    crawl_delay: float = 0.0  # asked for by robots.txt
    slow: float = 1.0  # 1.0: not slowed down


@dataclass(frozen=True, slots=True)
class Measured:
    """What the latest pages of a crawl were like, and what is left."""

    pages: int  # that were measured
    latency: float  # seconds a page took, on average
    wire_bytes: float  # of a body, on average
    span: float  # seconds from the first of them to the last
    hosts: Sequence[HostQueue]


@dataclass(frozen=True, slots=True)
class Validator:
    """What a conditional request for a page of the crawl's previous generation needs."""

    etag: str
    modified: str
    digest: str
    ref: PageRef


@dataclass(frozen=True, slots=True)
class StoredRobots:
    """A robots.txt, as it was last answered."""

    expires: float  # epoch seconds
    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Audit:
    """Every set of a crawl, counted again from the data."""

    counts: Mapping[str, int]
    problems: Sequence[str]  # one line each; none: everything is accounted for
