"""The outcome of an attempt, and the pure rule that decides it for a failure.

Structs and not dataclasses: several of these are created for every page, and a frozen dataclass takes 1.5 µs
where a frozen struct takes 0.2 µs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, assert_never

import msgspec

from shoal.model.adaptive_delay import Signal
from shoal.model.failure import POLICY, Action, Failure, FailureClass
from shoal.model.page import Item, PageRecord, Timing
from shoal.model.request import Link, Request

OTHER_EXIT_S = 1.0  # before a request that met faults of exits is tried again


class Fetched(msgspec.Struct, frozen=True, tag=True):
    """Archived, not yet parsed: the page is published on the bus (state `parsing`)."""

    page: PageRecord


class Done(msgspec.Struct, frozen=True, tag=True):
    """Archived, and parsed if the page has something to parse."""

    page: PageRecord


class Gone(msgspec.Struct, frozen=True, tag=True):
    status: int


class Retry(msgspec.Struct, frozen=True, tag=True):
    failure: Failure
    delay: float  # seconds until it may be leased again
    charged: bool = True  # False: the attempt does not count; the host is paused, not the request at fault
    rest: float = 0.0  # seconds for which the whole host is paused
    instead: Request | None = None  # the same request with another level or pool, which is tried next


class Dead(msgspec.Struct, frozen=True, tag=True):
    failure: Failure
    page: PageRecord | None = None  # set if the page itself was fetched (parse_error, poison)


class Filtered(msgspec.Struct, frozen=True, tag=True):
    rule: FailureClass
    reason: str = ""


class Released(msgspec.Struct, frozen=True, tag=True):
    """Returned: no attempt and no crash is counted, and the request keeps its place."""

    delay: float = 0.0
    instead: Request | None = None  # as for `Retry`; None: unchanged


Outcome = Fetched | Done | Gone | Retry | Dead | Filtered | Released


class Lease(msgspec.Struct, frozen=True):
    """One request, held by one worker until a deadline."""

    crawl: str
    fingerprint: int
    token: int  # fencing token: a settlement with an older token is refused
    host: str
    request: Request
    attempt: int  # 1 for the first; a lease that was lost with its holder counts, a retry without charge not
    crashes: int  # how often a holder died with it
    rests: int  # how often it was retried without charge (429)
    leased_until: float
    interval: float  # current seconds between requests to this host; 0: unlimited
    burst: int

    @property
    def tries(self) -> int:
        """How often the request was tried, charged or not, this attempt included."""
        return self.attempt + self.rests

    @property
    def charged(self) -> int:
        """Attempts that count against the retries, this one included.

        Those that ended with their holder do not: their request may never have been sent. They count as
        crashes, which have a separate limit.
        """
        return max(self.attempt - self.crashes, 1)


class Grant(msgspec.Struct, frozen=True):
    """The result of one call of `lease`."""

    leases: Sequence[Lease]
    wait: float  # seconds until calling again can help; inf: not before something is added or settled


class Settlement(msgspec.Struct, frozen=True):
    """An attempt's outcome and the links of its page, applied together or not at all."""

    lease: Lease
    outcome: Outcome
    links: Sequence[Link] = ()
    signal: Signal | None = None  # for the host's governor; None: what the outcome says about the host
    sent: bool = True  # False: no request was sent, so the host's turn is returned
    elapsed: float = 0.0  # seconds that the attempt took
    items: Sequence[Item] = ()  # items of the page, if the store passes them on to the sinks
    tally: Mapping[str, int] = {}  # what the page adds to the crawl's totals, if the store counts them
    timing: Timing | None = None  # for the fetch log; stores do not keep it
    history: bytes = b""  # for the next generations, of a request without a page; else its page has it


class Acknowledgement(msgspec.Struct, frozen=True):
    """The outcome of a page that was settled as `Fetched`: parsed, or a dead letter with its page kept."""

    crawl: str
    fingerprint: int
    outcome: Done | Dead
    links: Sequence[Link] = ()
    items: Sequence[Item] = ()  # as in a settlement
    tally: Mapping[str, int] = {}  # as in a settlement
    host: str = ""  # of its request: a sharded store finds the page by it; without it, it searches all shards
    consumer: str = ""  # the consumer that received the page; refused if another one has it by now
    history: bytes = b""  # as in a settlement


@dataclass(frozen=True, slots=True)
class RetryRules:
    """When a failed attempt is retried, and for how long a host that sends 429 is paused."""

    max_retries: Annotated[int, "Attempts after the first."] = 3
    base: Annotated[float, "The n-th retry waits this to the power of n, in seconds."] = 2.0
    ceiling: Annotated[float, "Longest wait before a retry, in seconds."] = 900.0
    # A host that always responds with 429 must not keep a crawl from finishing.
    max_rests: Annotated[int, "Responses of 429 to one request before it becomes a dead letter."] = 20
    rest: Annotated[
        float,
        "Seconds to pause a host after the sixth 429 without Retry-After to one request; before that, the"
        " host is slowed down and the request waits.",
    ] = 30.0
    rest_ceiling: Annotated[float, "Longest pause that a host can ask for, in seconds."] = 86_400.0


# 429 without Retry-After to one request after which its host is paused. Before, its governor slows it down: a
# pause of the whole host for each of them would leave most of what the server allows unused.
FREE_RESTS = 5


def judge(
    failure: Failure, *, attempt: int, rests: int, rules: RetryRules, jitter: float
) -> Gone | Retry | Dead | Filtered:
    """Return the outcome of a failed attempt. `jitter` is a random number in [0, 1)."""
    policy = POLICY[failure.failure_class]
    match policy.action:
        case Action.GONE:
            return Gone(failure.status)
        case Action.FILTER:
            return Filtered(failure.failure_class, failure.reason)
        case Action.DEAD | Action.OTHER_LEVEL:
            return Dead(failure)
        case Action.REST_HOST:
            # The frontier charges a request that is refused again while its host serves others: such a
            # request has used up its attempts here, and any other one is dead before.
            if rests >= rules.max_rests or attempt > rules.max_retries + 1:
                return Dead(failure)
            if failure.retry_after is None and rests < FREE_RESTS:
                wait = min(rules.base ** (rests + attempt), rules.rest)
                return Retry(failure, delay=wait * (0.75 + jitter / 2), charged=False)
            rest = rules.rest if failure.retry_after is None else failure.retry_after
            rest = min(rest, rules.rest_ceiling)
            return Retry(failure, delay=rest, charged=False, rest=rest)
        case Action.OTHER_EXIT:
            if rests >= rules.max_rests:
                return Dead(failure)
            return Retry(failure, delay=OTHER_EXIT_S * (1 + jitter), charged=False)
        case Action.RETRY:
            retries = rules.max_retries if policy.retries is None else min(policy.retries, rules.max_retries)
            if attempt > retries:
                return Dead(failure)
            wait = min(rules.base**attempt, rules.ceiling)
            return Retry(failure, delay=wait * (0.75 + jitter / 2))
    assert_never(policy.action)


def internal_failure(error: BaseException) -> Failure:
    """Return the failure for a bug in Shoal, so that the request it happened to is still accounted for."""
    return Failure(FailureClass.INTERNAL, f"{type(error).__name__}: {error}"[:300])
