"""What became of one attempt, and the pure rule that turns a failure into it.

Structs rather than dataclasses: several of these are made for every page, and a frozen dataclass takes 1.5 µs
where a frozen struct takes 0.2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, assert_never

import msgspec

from shoal.model.failure import POLICY, Action, Failure, FailureClass
from shoal.model.page import Item, PageRecord
from shoal.model.request import Link, Request


class Fetched(msgspec.Struct, frozen=True):
    """Archived, not yet parsed: the page is announced to the parse stage (state `parsing`)."""

    page: PageRecord


class Done(msgspec.Struct, frozen=True):
    """Archived, and parsed if there was anything to parse."""

    page: PageRecord


class Gone(msgspec.Struct, frozen=True):
    status: int


class Retry(msgspec.Struct, frozen=True):
    failure: Failure
    delay: float  # seconds until it may be leased again
    charged: bool = True  # False: the attempt is given back (the host rests, the request is not at fault)
    rest: float = 0.0  # seconds during which no request at all may go to this host


class Dead(msgspec.Struct, frozen=True):
    failure: Failure
    page: PageRecord | None = None  # kept when the page itself was fetched (parse_error, poison)


class Filtered(msgspec.Struct, frozen=True):
    rule: FailureClass
    reason: str = ""


class Released(msgspec.Struct, frozen=True):
    """Handed back untouched: no attempt, no crash, no place in the queue lost."""

    delay: float = 0.0


Outcome = Fetched | Done | Gone | Retry | Dead | Filtered | Released


class Lease(msgspec.Struct, frozen=True):
    """One request, held by one worker until a deadline."""

    crawl: str
    fingerprint: int
    token: int  # fencing: a settlement under an older token is refused
    host: str
    request: Request
    attempt: int  # 1 for the first; counted when granted, so that a crash counts too
    crashes: int  # times a holder died with it
    rests: int  # times it was sent away without charge (429)
    leased_until: float
    interval: float  # seconds between requests to this host, as of now; 0: unlimited
    burst: int


class Grant(msgspec.Struct, frozen=True):
    """The answer to one call for work."""

    leases: Sequence[Lease]
    wait: float  # seconds until asking again can help; inf: not before something is added or settled


class Settlement(msgspec.Struct, frozen=True):
    """An attempt's outcome and the links that its page brought, applied together or not at all."""

    lease: Lease
    outcome: Outcome
    links: Sequence[Link] = ()
    blocked: bool = False  # the answer looked like a block: feeds the host's adaptive slow-down
    sent: bool = True  # False: no request left, so the host's turn is given back
    elapsed: float = 0.0  # seconds that the attempt took
    items: Sequence[Item] = ()  # what the page brought, where the store is the way to the sinks


class Acknowledgement(msgspec.Struct, frozen=True):
    """The end of a page that was settled as `Fetched`: parsed, or given up with its page kept."""

    crawl: str
    fingerprint: int
    outcome: Done | Dead
    links: Sequence[Link] = ()
    items: Sequence[Item] = ()  # as of a settlement
    host: str = ""  # of its request: a store in shards finds the page by it, or has to look everywhere
    consumer: str = ""  # whom the bus gave the page to; one that has lost it to another is refused


@dataclass(frozen=True, slots=True)
class RetryRules:
    """When a failed attempt is made again, and for how long a host that asked for silence is left alone."""

    max_retries: Annotated[int, "Attempts after the first."] = 3
    base: Annotated[float, "The n-th retry waits this to the power of n, in seconds."] = 2.0
    ceiling: Annotated[float, "Longest wait for a retry, in seconds."] = 900.0
    # A host that answers 429 for ever must not keep a crawl from ending.
    max_rests: Annotated[int, "Times that a host may send a request away with 429 before it is given up."] = (
        20
    )
    rest: Annotated[float, "Seconds of silence when a host says 429 and not for how long."] = 30.0
    rest_ceiling: Annotated[float, "Longest silence that a host can ask for, in seconds."] = 86_400.0


def judge(
    failure: Failure, *, attempt: int, rests: int, rules: RetryRules, jitter: float
) -> Gone | Retry | Dead | Filtered:
    """Decide what becomes of a request after a failed attempt. `jitter` is uniform in [0, 1)."""
    policy = POLICY[failure.kind]
    match policy.action:
        case Action.GONE:
            return Gone(failure.status)
        case Action.FILTER:
            return Filtered(failure.kind, failure.reason)
        case Action.DEAD:
            return Dead(failure)
        case Action.REST_HOST:
            if rests >= rules.max_rests:
                return Dead(failure)
            rest = rules.rest if failure.retry_after is None else failure.retry_after
            rest = min(rest, rules.rest_ceiling)
            return Retry(failure, delay=rest, charged=False, rest=rest)
        case Action.RETRY:
            retries = rules.max_retries if policy.retries is None else min(policy.retries, rules.max_retries)
            if attempt > retries:
                return Dead(failure)
            wait = min(rules.base**attempt, rules.ceiling)
            return Retry(failure, delay=wait * (0.75 + jitter / 2))
    assert_never(policy.action)


def internal(error: BaseException) -> Failure:
    """Name a bug of ours as a failure, so that the request that met it is still accounted for."""
    return Failure(FailureClass.INTERNAL, f"{type(error).__name__}: {error}"[:300])
