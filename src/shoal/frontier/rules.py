"""Decisions that all backends share: pure functions of values."""

from collections.abc import Iterable
from dataclasses import dataclass

from shoal.model.adaptive_delay import Signal, SlowdownRules, signal_of, stretch_interval
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Dead, Done, Fetched, Gone, Retry, Settlement
from shoal.model.pace import Pace

LINE, STEPS, FIRST_STEP_AT = 1 << 49, 1 << 18, 1_577_836_800  # steps of 4 µs since 2020
LOWEST_BAND = 15  # ten priorities, and as many lower classes as a request can lose with the default retries

_USUAL_PACE = Pace()


@dataclass(slots=True)
class HostRecord:
    """The part of a host's state that survives a restart."""

    interval: float | None = None  # set by the operator, as are the next two; None: the crawls' pace applies
    burst: int | None = None
    concurrency: int | None = None
    crawl_delay: float = 0.0
    rest_until: float = 0.0
    slow: float = 1.0
    paused: bool = False


def band(priority: int, attempts: int) -> int:
    """Return the priority class in which a request waits: one lower for each attempt that was charged."""
    return min(max(priority, 0) + attempts, LOWEST_BAND)


def place_in_line(band: int, ready: float, moment: float) -> float:
    """Return the sort key of a lane: best band first, then by when the lane became due.

    A lane is due when its host is, but not before its `moment`: the unique step at which it was last served
    or last became non-empty. Of the lanes that are due now, the one that has been due for longest goes first.
    Time is in steps because one number has to hold band and time.
    """
    due = max((ready - FIRST_STEP_AT) * STEPS // 1, moment)
    return band * LINE + min(due, LINE - 1)


def next_moment(moment: float, now: float) -> float:
    """Return a moment after `moment` that is later than everything that is due now."""
    return max(moment, (now - FIRST_STEP_AT) * STEPS // 1) + 1


def applied_pace(record: HostRecord, crawls: Iterable[Pace], rules: SlowdownRules) -> Pace:
    """Return the pace that applies to a host: the slowest of its crawls' paces, its record and its slow-down.

    A Crawl-delay or a slow-down reduces the burst to 1. Otherwise a longer interval would mean more credit,
    and a host that asks for fewer requests would first get more.
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
    concurrency = slowest.concurrency if record.concurrency is None else record.concurrency
    if record.crawl_delay > interval:
        interval, burst = record.crawl_delay, 1
    if record.slow > 1.0:
        interval, burst = stretch_interval(interval, record.slow, rules), 1
    return Pace(interval, burst, concurrency)


def host_signal(settlement: Settlement) -> Signal | None:
    """Return what an attempt says about its host, for the host's governor; None: nothing."""
    if settlement.sent and settlement.signal is not None:
        return settlement.signal
    match settlement.outcome:
        case Fetched() | Done() | Gone() if settlement.sent:
            return Signal.NORMAL
        case Retry(failure=failure) | Dead(failure=failure):
            signal = signal_of(failure)
            # A host that accepts no connection says so without a request.
            return signal if settlement.sent or signal in (Signal.TIMED_OUT, Signal.RESET) else None
        case _:
            return None


OVERRAN = Failure(FailureClass.HOLDER_LOST, "its holder died or overran")
DIED_PARSING = Failure(FailureClass.POISON, "the process died while parsing it")


def poisoned(crashes: int) -> Failure:
    return Failure(FailureClass.POISON, f"its holder died or overran {crashes} times")


def struck_out(strikes: int) -> Failure:
    return Failure(FailureClass.POISON, f"the process died {strikes} times while parsing it")


def parsed_again(failure_class: FailureClass, *, archived: bool) -> bool:
    """Return True if a replay parses the archived page again, because the page was at fault."""
    return archived and failure_class in (FailureClass.PARSE_ERROR, FailureClass.POISON)
