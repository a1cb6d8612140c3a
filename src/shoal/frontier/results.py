"""The values that a frontier returns, the same from every backend."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from shoal.model.adaptive_delay import Spike, count_signals, find_spike
from shoal.model.failure import FailureClass
from shoal.model.outcome import Acknowledgement, Lease
from shoal.model.page import PageRecord
from shoal.model.request import Request, trace_id


class Opened(msgspec.Struct, frozen=True):
    """A crawl that is now open: `add` and `lease` accept it."""

    crawl: str
    resumed: bool  # False: it did not exist before


class Added(msgspec.Struct, frozen=True):
    new: int
    duplicate: int


@dataclass(frozen=True, slots=True)
class Committed:
    new: int  # links accepted
    duplicate: int
    stale: Sequence[Lease] = ()  # leases whose settlement was rejected: discard their results
    refused: Sequence[Acknowledgement] = ()  # acknowledgements of pages that were not being parsed


class Counts(msgspec.Struct, kw_only=True):
    """The requests of a crawl by state, and totals over its whole life."""

    accepted: int = 0
    waiting: int = 0
    delayed: int = 0
    leased: int = 0
    parsing: int = 0
    done: int = 0
    gone: int = 0
    dead: int = 0
    filtered: int = 0
    lost: int = 0  # accepted, and found in no state by a repair
    duplicate: int = 0  # links that were seen before
    over_budget: int = 0  # links not accepted because the budget of their host was used up
    retries: int = 0  # attempts that were followed by another one
    crashes: int = 0  # leases that expired, and parses during which the process died
    mistaken: float = 0.0  # probability that a new link is taken for a seen one; 0: the seen-set is exact
    dead_by_class: dict[str, int] = {}
    filtered_by_rule: dict[str, int] = {}

    @property
    def held(self) -> int:
        """The number of filtered requests that can be released."""
        return self.filtered_by_rule.get(FailureClass.HELD.value, 0)

    def by_state(self) -> dict[str, int]:
        """Return the number of requests by state; those that are held back apart from others filtered."""
        return shown_states({state: getattr(self, state) for state in STORED_STATES}, held=self.held)

    @property
    def open(self) -> int:
        """The number of requests that have not ended."""
        return self.waiting + self.delayed + self.leased + self.parsing

    @property
    def ended(self) -> int:
        """The number of requests that will not be worked on again: those that have ended, or are lost."""
        return self.done + self.gone + self.dead + self.filtered + self.lost

    @property
    def pages(self) -> int:
        """The number of pages that count for a limit: those parsed, and those that the spider failed on."""
        return self.done + self.dead_by_class.get(FailureClass.PARSE_ERROR.value, 0)

    def die(self, failure_class: FailureClass) -> None:
        self.dead += 1
        self.dead_by_class[failure_class.value] = self.dead_by_class.get(failure_class.value, 0) + 1

    def revive(self, failure_class: FailureClass) -> None:
        self.dead -= 1
        self.dead_by_class[failure_class.value] -= 1
        if not self.dead_by_class[failure_class.value]:
            del self.dead_by_class[failure_class.value]

    def filter(self, rule: FailureClass) -> None:
        self.filtered += 1
        self.filtered_by_rule[rule.value] = self.filtered_by_rule.get(rule.value, 0) + 1

    def readmit(self, rule: FailureClass) -> None:
        self.filtered -= 1
        self.filtered_by_rule[rule.value] -= 1
        if not self.filtered_by_rule[rule.value]:
            del self.filtered_by_rule[rule.value]

    def copy(self) -> "Counts":
        return msgspec.structs.replace(
            self, dead_by_class=dict(self.dead_by_class), filtered_by_rule=dict(self.filtered_by_rule)
        )


STORED_STATES = ("waiting", "delayed", "leased", "parsing", "done", "gone", "dead", "filtered")
STATES = (*STORED_STATES, "held")  # as they are shown: `held` are the filtered ones that can be released


def shown_states(stored: Mapping[str, int], *, held: int) -> dict[str, int]:
    """Return the number of requests by shown state, of those by stored state."""
    return {**stored, "filtered": stored["filtered"] - held, "held": held}


class HostView(msgspec.Struct, frozen=True, kw_only=True):
    """One host: its current pace, and its requests."""

    host: str
    waiting: int
    inflight: int  # requests on the wire
    interval: float  # seconds between requests, with every slow-down applied; 0: unlimited
    burst: int
    concurrency: int
    next_turn: float  # epoch seconds of the next possible request; in the past: now
    crawl_delay: float  # from robots.txt
    rest_until: float  # epoch seconds
    slow: float  # 1.0: not slowed down
    paused: bool
    failures: int  # failed attempts since this process started
    responses: str = ""  # signals of the latest ones, a digit each; empty: no trouble, or not known here

    @property
    def trouble(self) -> dict[str, int]:
        """How many of the latest responses were trouble, by kind."""
        return count_signals(self.responses)

    @property
    def spike(self) -> Spike | None:
        """The kind of trouble that prevails among the latest responses, with its remedy."""
        return find_spike(self.responses)


class Unparsed(msgspec.Struct, frozen=True):
    """A page that was fetched and archived, but not parsed yet."""

    fingerprint: int
    request: Request
    page: PageRecord
    strikes: int  # times a process died while parsing it
    consumer: str = ""  # the consumer to which a bus delivered it


LetterPosition = tuple[float, float, int]
"""Where a dead letter is in the list of its crawl: when it died, its ordinal, its fingerprint."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A request that was given up, with everything that is known about the reason."""

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
    holder: str  # the last holder
    page: PageRecord | None
    detail: str = ""  # several lines: the traceback of a spider that raised
    ordinal: float = field(default=0.0, compare=False)  # its place in the order of acceptance

    @property
    def trace(self) -> str:
        return trace_id(self.fingerprint)

    @property
    def position(self) -> LetterPosition:
        return (self.died_at, self.ordinal, self.fingerprint)


class ListedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, as a list of a crawl's requests has it."""

    fingerprint: int
    state: str
    url: str = ""  # empty: the store has not kept it
    method: str = "GET"
    host: str = ""
    attempts: int = 0  # that have ended
    status: int = 0  # of the last response, if the store has it
    at: float | None = None  # when it ended, was leased, or becomes due again; None: it was never leased
    rule: str = ""  # failure class of a dead request, rule of a filtered one
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Tried:
    """An attempt that ended without a page."""

    at: float  # when it ended
    elapsed: float
    status: int
    kind: FailureClass
    reason: str


@dataclass(frozen=True, slots=True)
class RequestHistory:
    """One accepted request and what happened to it."""

    crawl: str
    fingerprint: int
    state: str
    tried: Sequence[Tried]
    request: Request | None = None  # None: it has ended and its record was deleted
    page: PageRecord | None = None
    found_on: int | None = None  # 0: a seed; None: only the archived page has it
    ended_at: float | None = None
    status: int = 0
    elapsed: float = 0.0  # of the last attempt
    rule: str = ""  # failure class of a dead request, rule of a filtered one
    reason: str = ""
    due: float | None = None  # epoch seconds before which it may not be leased
    holder: str = ""  # the current or the last holder
    leased_at: float | None = None  # when the current lease was granted

    @property
    def trace(self) -> str:
        return trace_id(self.fingerprint)


@dataclass(frozen=True, slots=True)
class HostQueue:
    """The queue of one host, and the pace that applies there."""

    host: str
    queued: int
    interval: float
    concurrency: int
    paused: bool
    rest_until: float = 0.0  # epoch seconds
    crawl_delay: float = 0.0  # from robots.txt
    slow: float = 1.0  # 1.0: not slowed down


class CrawlStats(msgspec.Struct, frozen=True):
    """Averages over the latest pages of a crawl, and its queue by host."""

    pages: int  # that the averages cover
    latency: float  # mean seconds per page
    wire_bytes: float  # mean size of a body
    span: float  # seconds from the first of these pages to the last
    hosts: Sequence[HostQueue]


class StoredRobots(msgspec.Struct, frozen=True):
    """A robots.txt response that is cached in the store."""

    expires: float  # epoch seconds
    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Audit:
    """The requests of a crawl by state, recounted from the data."""

    counts: Mapping[str, int]
    problems: Sequence[str]  # one line per problem; empty: counters and data agree
    lost: int = 0  # requests that were accepted and are in no state
