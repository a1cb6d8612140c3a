"""Counts attempts for metrics: by outcome, failure class and host, and how long each phase took.

Plain additions only: they run for every page. Memory is bounded whatever a crawl meets: labels are closed
sets, and of hosts only those of the last minutes are kept.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from heapq import nlargest
from time import monotonic
from typing import NamedTuple

from shoal.model.failure import FailureClass
from shoal.model.outcome import (
    Acknowledgement,
    Dead,
    Done,
    Fetched,
    Filtered,
    Gone,
    Released,
    Retry,
    Settlement,
)
from shoal.model.page import ParseResult
from shoal.model.quarantine import Count, Seconds

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
PHASES = ("queue", "dns", "connect", "tls", "first_byte", "body", "parse")
SUCCESS, ERROR, RATE_LIMITED = "success", "error", "rate_limited"
ACTIVE_S = 60.0  # after its last attempt, a host counts as active for so long
MAX_HOSTS = 20_000
TOP_HOSTS = 20


class Histogram:
    """How often something took how long."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum += seconds

    def merge(self, other: "Histogram") -> None:
        self.counts = [own + more for own, more in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum

    def cumulative(self) -> list[tuple[str, float]]:
        """Return upper bounds with the number of values up to each, as Prometheus has them."""
        total, buckets = 0, []
        for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), self.counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        return buckets


class HostActivity:
    """The recent attempts at one host.

    Those of the window are counted in two halves: the current one, and the complete one before it.
    """

    __slots__ = (
        "attempts",
        "before",
        "failures",
        "half_began",
        "interval",
        "last_at",
        "now",
        "rests_until",
        "status",
        "why",
    )

    def __init__(self) -> None:
        self.attempts = self.failures = 0
        self.last_at = self.rests_until = self.half_began = self.interval = 0.0
        self.now, self.before = [0, 0, 0], [0, 0, 0]  # attempts, failures, refusals (429, 403, challenges)
        self.why, self.status = "", 0  # of the last failure

    def turn(self, now: float, half_s: float) -> None:
        """Start another half of the window if the current one is complete."""
        if now - self.half_began >= half_s:
            fresh = now - self.half_began < 2 * half_s
            self.before = self.now if fresh else [0, 0, 0]
            self.now, self.half_began = [0, 0, 0], now


class HostFigures(NamedTuple):
    host: str
    attempts: int
    failures: int


class FailingHost(NamedTuple):
    """The attempts at a host within the window of the meter."""

    host: str
    attempts: Count  # without those that were answered 429
    failures: Count  # likewise
    refused: Count  # 429, 403 and challenges
    why: str  # the class of the last failure
    status: int  # of the last failure; 0: no response
    interval: Seconds  # between requests at the last attempt


class AttemptMeter:
    """The attempts of one crawl in this process, since it started."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self.outcomes: Counter[str] = Counter()
        self.tasks = Counter({SUCCESS: 0, ERROR: 0, RATE_LIMITED: 0})
        self.duration = Histogram()  # of attempts that were sent, without the wait for their turn
        self.phases = {name: Histogram() for name in PHASES}
        self.window_s = 300.0  # over which trouble at hosts is counted
        self.lost = 0  # outcomes that came after their lease had expired
        self._hosts: dict[str, HostActivity] = {}

    def settled(self, settlement: Settlement, result: ParseResult | None, *, lost: bool = False) -> None:
        outcome = settlement.outcome
        if type(outcome) is Released:
            return
        if lost:
            self.lost += 1
            return
        name = _NAMES[type(outcome)]
        self.outcomes[name] += 1
        self.tasks[status_of(settlement)] += 1
        timing, phases = settlement.timing, self.phases
        if timing is not None and settlement.sent:
            self.duration.add(timing.total - timing.queue)
            phases["queue"].add(timing.queue)
            if timing.connect:  # a new connection
                phases["dns"].add(timing.dns)
                phases["connect"].add(timing.connect)
                if timing.tls:
                    phases["tls"].add(timing.tls)
            phases["first_byte"].add(timing.first_byte)
            phases["body"].add(timing.body)
        if result is not None:
            phases["parse"].add(result.cpu)
        if settlement.sent:
            self._count_host(settlement, failed=name in ("retry", "dead"))

    def acknowledged(self, end: Acknowledgement, result: ParseResult | None) -> None:
        self.outcomes["parsed" if type(end.outcome) is Done else "dead"] += 1
        if result is not None:
            self.phases["parse"].add(result.cpu)

    def _count_host(self, settlement: Settlement, *, failed: bool) -> None:
        name, now = settlement.lease.host, self._clock()
        host = self._hosts.get(name)
        if host is None:
            if len(self._hosts) >= MAX_HOSTS:
                self._remove_idle(now)
            host = self._hosts[name] = HostActivity()
        host.attempts += 1
        host.failures += failed
        host.last_at = now
        host.interval = settlement.lease.interval
        if failed and type(settlement.outcome) is Retry and settlement.outcome.rest:
            host.rests_until = now + settlement.outcome.rest
        host.turn(now, self.window_s / 2)
        if not failed:
            host.now[0] += 1
            return
        failure = settlement.outcome.failure  # type: ignore[union-attr]
        kind = failure.failure_class
        limited = kind is FailureClass.RATE_LIMITED
        host.now[0] += not limited  # a host that asks to wait has neither succeeded nor failed
        if kind in _BY_HOST:
            host.now[1] += not limited
            host.now[2] += kind in _REFUSALS
            host.why, host.status = kind.value, failure.status

    def _remove_idle(self, now: float) -> None:
        latest = nlargest(MAX_HOSTS // 2, self._hosts.items(), key=lambda pair: pair[1].last_at)
        self._hosts = {name: host for name, host in latest if now - host.last_at < ACTIVE_S}

    def hosts_active(self) -> int:
        """Count the hosts with an attempt in the last minute."""
        since = self._clock() - ACTIVE_S
        return sum(host.last_at > since for host in self._hosts.values())

    def hosts_resting(self) -> int:
        """Count the hosts that asked for a pause which has not ended."""
        now = self._clock()
        return sum(host.rests_until > now for host in self._hosts.values())

    def troubled_hosts(self) -> list[FailingHost]:
        """Return the hosts with most failures within the window."""
        now, half_s = self._clock(), self.window_s / 2
        found = []
        for name, host in self._hosts.items():
            if not host.why or now - host.half_began >= 2 * half_s:
                continue
            host.turn(now, half_s)
            attempts, failures, refused = (a + b for a, b in zip(host.now, host.before, strict=True))
            if failures or refused:
                found.append(
                    FailingHost(name, attempts, failures, refused, host.why, host.status, host.interval)
                )
        return nlargest(TOP_HOSTS, found, key=lambda one: one.failures + one.refused)

    def hosts_slowed(self) -> int:
        """Count the hosts that were asked in the last minute, and refused some of the recent requests."""
        since = self._clock() - ACTIVE_S
        return sum(
            host.last_at > since and bool(host.now[2] + host.before[2]) for host in self._hosts.values()
        )

    def top_hosts(self) -> list[HostFigures]:
        """Return the hosts with most attempts."""
        found = nlargest(TOP_HOSTS, self._hosts.items(), key=lambda pair: pair[1].attempts)
        return [HostFigures(name, host.attempts, host.failures) for name, host in found]

    def merge(self, other: "AttemptMeter") -> None:
        """Add what another meter has counted."""
        self.outcomes.update(other.outcomes)
        self.tasks.update(other.tasks)
        self.duration.merge(other.duration)
        for name, histogram in self.phases.items():
            histogram.merge(other.phases[name])
        self.lost += other.lost
        for name, host in other._hosts.items():
            own = self._hosts.setdefault(name, HostActivity())
            own.attempts += host.attempts
            own.failures += host.failures
            own.last_at = max(own.last_at, host.last_at)
            own.rests_until = max(own.rests_until, host.rests_until)
            own.interval = max(own.interval, host.interval)
            own.half_began = max(own.half_began, host.half_began)
            own.now = [a + b for a, b in zip(own.now, host.now, strict=True)]
            own.before = [a + b for a, b in zip(own.before, host.before, strict=True)]
            own.why, own.status = host.why or own.why, host.status or own.status


def merged_meters(meters: Sequence[AttemptMeter]) -> AttemptMeter | None:
    """Return the sum of meters; None: no meter was given."""
    if len(meters) <= 1:
        return meters[0] if meters else None
    total = AttemptMeter()
    for meter in meters:
        total.merge(meter)
    return total


def status_of(settlement: Settlement) -> str:
    """Return how an attempt counts as a task: success, error or rate_limited."""
    match settlement.outcome:
        case Done() | Fetched() | Gone() | Filtered():
            return SUCCESS  # the request is done with, as it should be
        case Retry(failure=failure) | Dead(failure=failure):
            return RATE_LIMITED if failure.failure_class is FailureClass.RATE_LIMITED else ERROR
    return ERROR


_REFUSALS = frozenset({FailureClass.RATE_LIMITED, FailureClass.IP_BLOCKED, FailureClass.ANTI_BOT})
_BY_HOST = _REFUSALS | {  # failures that a host is responsible for
    FailureClass.DNS,
    FailureClass.CONNECT,
    FailureClass.TIMEOUT,
    FailureClass.TLS,
    FailureClass.PROTOCOL,
    FailureClass.TRUNCATED,
    FailureClass.DECODE,
    FailureClass.TARGET_ERROR,
    FailureClass.HTTP_ERROR,
}
_NAMES: dict[type, str] = {
    Done: "done",
    Fetched: "fetched",
    Gone: "gone",
    Retry: "retry",
    Dead: "dead",
    Filtered: "filtered",
}
