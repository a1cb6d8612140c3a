"""Token buckets, one per key. Memory is bounded: the keys that were idle longest are forgotten first."""

from collections import OrderedDict
from dataclasses import dataclass

MAX_KEYS = 10_000


@dataclass(frozen=True, slots=True)
class Rate:
    per_s: float
    burst: float


def refilled(level: float, elapsed: float, rate: Rate) -> float:
    """Return what is in a bucket after some seconds."""
    return min(rate.burst, level + max(elapsed, 0.0) * rate.per_s)


class RateLimiter:
    def __init__(self, rate: Rate, *, max_keys: int = MAX_KEYS) -> None:
        self._rate = rate
        self._max_keys = max_keys
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # level, and when

    def take(self, key: str, cost: float, now: float) -> float:
        """Take `cost` from the bucket of a key; return 0.0, or the seconds to wait if it holds too little."""
        level, at = self._buckets.pop(key, (self._rate.burst, now))
        level = refilled(level, now - at, self._rate)
        cost = min(cost, self._rate.burst)
        wait = 0.0 if level >= cost else (cost - level) / self._rate.per_s
        self._buckets[key] = (level if wait else level - cost, now)
        if len(self._buckets) > self._max_keys:
            self._buckets.popitem(last=False)
        return wait
