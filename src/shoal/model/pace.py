"""Rate limiting per host: GCRA, as arithmetic on one number.

`tat` (theoretical arrival time) is when the host's bucket would be full again. A request may be sent when
`now >= tat - (burst - 1) * interval`; `tat` then increases by one interval. Any window of length w therefore
holds at most `burst + w / interval` requests. No clock, no state: callers keep `tat` per host.

In a fleet the store keeps it, and a worker takes turns from the store: `TurnRequest` and `TurnAnswer`.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum


@dataclass(frozen=True, slots=True)
class Pace:
    """The configured pace of a host. If several apply, the slowest is used."""

    interval: float = 0.5  # seconds between requests; 0: unlimited
    burst: int = 1
    concurrency: int = 4


def turns(tat: float, *, now: float, interval: float, burst: int) -> int:
    """Return how many requests may be sent now (a large number if unlimited)."""
    if interval <= 0:
        return 1 << 30
    spare = now + (burst - 1) * interval - max(tat, now)
    # The small allowance keeps a turn that is due exactly now from being lost to rounding.
    return int((spare + 1e-9) // interval) + 1 if spare > -1e-9 else 0


def take(tat: float, *, now: float, interval: float, count: int = 1) -> float:
    """Return the new `tat` after `count` requests were sent."""
    return max(tat, now) + count * interval


def next_turn(tat: float, *, interval: float, burst: int) -> float:
    """Return the earliest time at which one request may be sent."""
    return tat - (burst - 1) * interval


def clamp(tat: float, *, now: float, interval: float, burst: int) -> float:
    """Limit `tat` to the largest valid value: a clock that was set back must not block the host."""
    return min(tat, now + burst * interval)


ADDRESS_MARK = "@"  # before an address that takes a turn like a host


class PaceBy(StrEnum):
    """What the rate of a crawl applies to."""

    HOST = "host"
    SITE = "site"
    ADDRESS = "address"


@dataclass(frozen=True, slots=True)
class AddressPace:
    """How often one address may be asked, over all hosts that have it."""

    interval: float = 0.0  # seconds between requests; 0: unlimited
    is_explicit: bool = False  # else a host with a faster pace keeps that
    by_site: bool = False  # the hosts of a registrable domain have the pace of one host together
    site_interval: float = 0.0  # seconds between requests to a registrable domain; 0: unlimited

    def site_interval_for(self, interval: float) -> float:
        """Return the interval of a registrable domain with many hosts, one of which has `interval`."""
        return self.site_interval if self.is_explicit else min(self.site_interval, interval)

    def interval_for(self, interval: float) -> float:
        """Return the interval that applies to a host whose own interval is `interval`."""
        return self.interval if self.is_explicit else min(self.interval, interval)


class TurnKind(Enum):
    """How a store answers a request for a turn."""

    GRANTED = "granted"
    WAIT = "wait"
    PAUSED = "paused"  # the host or the crawl


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """A worker asks for the turn of a host, with the request ready to be sent."""

    host: str
    interval: float  # at least this many seconds after it
    margin: float  # added to the interval
    leeway: float  # seconds after its turn until which the request is sent, or the turn is lost
    ahead: float = 0.0  # seconds until a turn that may be granted now
    crawl: str = ""  # empty: none that could be paused
    receipt: str = ""  # of the turn taken before, if it was not used


@dataclass(frozen=True, slots=True)
class TurnAnswer:
    kind: TurnKind
    wait: float  # seconds until the turn, or after which to ask again; counted from when the store answered
    asked_at: float  # monotonic, before the call
    receipt: str = ""


class DelayEstimate:
    """How long calls to a store take, from those that were measured."""

    __slots__ = ("_measured", "typical", "worst")

    CEILING_S = 3.0  # a call that took longer says nothing about the next one: it was repeated
    DECAY = 0.1  # per measurement

    def __init__(self) -> None:
        self.typical = 0.0
        self.worst = 0.0  # lately
        self._measured = 0

    def note(self, seconds: float) -> None:
        """Add a measurement."""
        seconds = min(seconds, self.CEILING_S)
        self._measured += 1
        if self._measured <= 2:  # the first call may have connected and loaded the script: it counts alone
            self.typical = self.worst = seconds
            return
        self.typical += (seconds - self.typical) * 0.2
        self.worst = max(seconds, self.worst + (self.typical - self.worst) * self.DECAY)
