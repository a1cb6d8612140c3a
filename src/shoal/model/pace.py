"""Rate limiting per host: GCRA, as arithmetic on one number.

`tat` (theoretical arrival time) is when the host's bucket would be full again. A request may be sent when
`now >= tat - (burst - 1) * interval`; `tat` then increases by one interval. Any window of length w therefore
holds at most `burst + w / interval` requests. No clock, no state: callers keep `tat` per host.
"""

from dataclasses import dataclass


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
