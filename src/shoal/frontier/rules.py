"""Decisions that every backend makes alike: values in, values out."""

from collections.abc import Iterable
from dataclasses import dataclass

from shoal.model.adaptive_delay import ResponseWindow, SlowdownRules, stretch_interval
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Dead, Done, Fetched, Gone, Retry, Settlement
from shoal.model.pace import Pace

LINE, STEPS, FIRST_STEP_AT = 1 << 49, 1 << 18, 1_577_836_800  # steps of 4 µs, from 2020 on
LOWEST_BAND = 15  # ten priorities, and as many classes below as a request can lose with the usual retries

_USUAL_PACE = Pace()


@dataclass(slots=True)
class HostRecord:
    """What is known of a host and survives a restart."""

    interval: float | None = None  # set by hand, as are the next two; None: what the crawls say
    burst: int | None = None
    concurrency: int | None = None
    crawl_delay: float = 0.0
    rest_until: float = 0.0
    slow: float = 1.0
    paused: bool = False


def band(priority: int, attempts: int) -> int:
    """Return the priority class in which a request waits: one lower for every attempt it has cost."""
    return min(max(priority, 0) + attempts, LOWEST_BAND)


def place_in_line(band: int, ready: float, moment: float) -> float:
    """Return where a lane stands in line: the best band first, then by when it is due.

    That is when its host is, and not before the moment, a step of its own, at which it was last served or
    ceased to be empty. Of lanes that could go now, the one goes first that could have gone for longest. In
    steps, because one number has to hold both.
    """
    due = max((ready - FIRST_STEP_AT) * STEPS // 1, moment)
    return band * LINE + min(due, LINE - 1)


def next_moment(moment: float, now: float) -> float:
    """Return the moment after `moment`: later than whatever is due now."""
    return max(moment, (now - FIRST_STEP_AT) * STEPS // 1) + 1


def applied_pace(record: HostRecord, crawls: Iterable[Pace], rules: SlowdownRules) -> Pace:
    """Return the pace that applies to a host: the slowest of all that have a say.

    No burst survives a Crawl-delay or a slow-down: stretching the interval would stretch the credit too, and
    a host that asks for less would first get more.
    """
    slowest, *others = list(crawls) or [_USUAL_PACE]
    for pace in others:
        slowest = Pace(
            max(slowest.interval, pace.interval),
            min(slowest.burst, pace.burst),
            min(slowest.concurrency, pace.concurrency),
        )
    interval = slowest.interval if record.interval is None else record.interval
    burst = slowest.burst if record.burst is None else record.burst
    at_once = slowest.concurrency if record.concurrency is None else record.concurrency
    if record.crawl_delay > interval:
        interval, burst = record.crawl_delay, 1
    if record.slow > 1.0:
        interval, burst = stretch_interval(interval, record.slow, rules), 1
    return Pace(interval, burst, at_once)


def answered(settlement: Settlement) -> bool:
    """Say whether the host answered at all; silence says nothing about being pushed back."""
    if not settlement.sent:
        return False
    match settlement.outcome:
        case Fetched() | Done() | Gone():
            return True
        case Retry(failure=failure) | Dead(failure=failure):
            return settlement.blocked or failure.status > 0
        case _:
            return settlement.blocked


def slowed(window: ResponseWindow, blocked: bool, slow: float) -> float:
    """Return a host's slow factor after one more answer."""
    factor = window.note(blocked)
    # A new window says nothing yet: after a restart the factor that was found before it goes on.
    return round(factor, 3) if window.is_significant else slow


OVERRAN = Failure(FailureClass.POISON, "its holder died or overran")
DIED_PARSING = Failure(FailureClass.POISON, "the process died while parsing it")


def poisoned(crashes: int) -> Failure:
    return Failure(FailureClass.POISON, f"its holder died or overran {crashes} times")


def struck_out(strikes: int) -> Failure:
    return Failure(FailureClass.POISON, f"the process died {strikes} times while parsing it")


def parsed_again(kind: FailureClass, *, kept: bool) -> bool:
    """Say whether a replayed dead letter is parsed again, not fetched: its page is there, and at fault."""
    return kept and kind in (FailureClass.PARSE_ERROR, FailureClass.POISON)
