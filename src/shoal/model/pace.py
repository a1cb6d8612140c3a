"""How often a host may be asked: GCRA, as arithmetic on one number.

`tat` (theoretical arrival time) is when the host's bucket would be full again. A request may go when
`now >= tat - (burst - 1) * interval`; then `tat` moves one interval on. Any window of length w therefore
holds at most `burst + w / interval` requests. No clock, no state: callers keep `tat` per host.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """The configured pace of a host; `slowest` of several is what applies."""

    interval: float = 0.5  # seconds between requests; 0: unlimited
    burst: int = 1
    concurrency: int = 4


def turns(tat: float, *, now: float, interval: float, burst: int) -> int:
    """Count the requests that may go right now (a large number when unlimited)."""
    if interval <= 0:
        return 1 << 30
    spare = now + (burst - 1) * interval - max(tat, now)
    # The small allowance keeps a turn that falls due "now" from being lost to rounding.
    return int((spare + 1e-9) // interval) + 1 if spare > -1e-9 else 0


def take(tat: float, *, now: float, interval: float, count: int = 1) -> float:
    """Return the new `tat` after `count` requests went."""
    return max(tat, now) + count * interval


def next_turn(tat: float, *, interval: float, burst: int) -> float:
    """Return the earliest time at which one request may go."""
    return tat - (burst - 1) * interval


def clamp(tat: float, *, now: float, interval: float, burst: int) -> float:
    """Pull a `tat` from the future back to what can be owed at most: the clock may have been set back."""
    return min(tat, now + burst * interval)
