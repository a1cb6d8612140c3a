"""Counts that several processes share: each counts alone, and knows what the others have counted.

Every worker of a fleet stores its counts with the crawl, under its own name, and adds up those of all others.
They remain when a worker has ended.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from heapq import nlargest

import msgspec

from shoal.engine.traps.heavy_hitters import HeavyHitters
from shoal.model import crawl_totals
from shoal.model.limits import LinkLimits
from shoal.model.traps.page_evidence import SAMPLE

SPAN_S = 3600.0  # URLs are counted per hour
URL_SAMPLE = 64  # one link in this many is counted, for that many
CAPACITY = 4096  # names of each kind
PART = "traps/"  # followed by the name of a worker
MAX_NAMES = 200  # stored of each kind, those with the highest counts


class TrapCounts(msgspec.Struct):
    """What a process has counted, as it is stored."""

    urls: dict[str, int] = {}  # new URLs by pattern, within the last hour
    nothing_new: dict[str, int] = {}  # scores by shape (novelty.py), as are the next two
    repeated: dict[str, int] = {}
    doubts: dict[str, int] = {}
    held: dict[str, int] = {}  # links that were kept, by closed shape
    at: float = 0.0  # epoch seconds

    @classmethod
    def load(cls, stored: bytes | None) -> "TrapCounts":
        """Return what was stored; nothing, if that cannot be read: a trap is found again."""
        try:
            return cls() if stored is None else msgspec.msgpack.decode(stored, type=cls)
        except msgspec.DecodeError:
            return cls()

    def dump(self) -> bytes:
        return msgspec.msgpack.encode(self)


class SharedCounts:
    """The most frequent names, and their counts in this process and in others."""

    def __init__(self) -> None:
        self._own = HeavyHitters(CAPACITY)
        self._others: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._own)

    def add(self, name: str, weight: int = 1) -> int:
        """Count `name` and return its count so far, in all processes."""
        return self._own.add(name, weight) + self._others.get(name, 0)

    def raise_by(self, name: str, weight: int) -> int:
        """Raise a score and return it."""
        return self.add(name, weight)

    def lower_by(self, name: str, weight: int) -> None:
        """Lower a score of this process, down to 0."""
        self._own.lower(name, weight)

    def get(self, name: str) -> int:
        return self._own.get(name) + self._others.get(name, 0)

    def clear(self) -> None:
        self._own.clear()
        self._others = {}

    def largest(self, above: int) -> dict[str, int]:
        """Return the names with a count above `above`, at most `MAX_NAMES`: most have a single sample."""
        counted = [(name, count) for name, count in self._own.items() if count > above]
        return dict(counted if len(counted) <= MAX_NAMES else nlargest(MAX_NAMES, counted, key=_count))

    def restore(self, counts: dict[str, int]) -> None:
        """Continue with what this process, or the one before it, has counted."""
        for name, count in counts.items():
            self._own.add(name, count)

    def set_others(self, parts: Iterable[dict[str, int]]) -> None:
        self._others = {}
        for part in parts:
            for name, count in part.items():
                self._others[name] = self._others.get(name, 0) + count


def _count(counted: tuple[str, int]) -> int:
    return counted[1]


class TrapCounters:
    """All that is counted to find traps, over the life of a crawl."""

    def __init__(self, key: str = f"{PART}local", clock: Callable[[], float] = time.time) -> None:
        self.key = key  # under which this process stores them with the crawl
        self._clock = clock
        self._since = clock()
        self.urls = SharedCounts()
        self.nothing_new = SharedCounts()
        self.repeated = SharedCounts()
        self.doubts = SharedCounts()
        self.held = SharedCounts()

    def count_url(self, pattern: str, weight: int) -> int:
        """Count new URLs of a pattern; return how many there were within the hour."""
        now = self._clock()
        if now - self._since > SPAN_S:
            self._since = now
            self.urls.clear()
        return self.urls.add(pattern, weight)

    def dump(self) -> bytes:
        return TrapCounts(
            self.urls.largest(URL_SAMPLE),
            self.nothing_new.largest(SAMPLE),
            self.repeated.largest(SAMPLE),
            self.doubts.largest(SAMPLE),
            self.held.largest(0),
            self._since,
        ).dump()

    def restore(self, stored: bytes | None) -> None:
        """Continue with the counts of an earlier process of the same name."""
        counts = TrapCounts.load(stored)
        if 0 <= self._clock() - counts.at < SPAN_S:
            self._since = counts.at
            self.urls.restore(counts.urls)
        self.nothing_new.restore(counts.nothing_new)
        self.repeated.restore(counts.repeated)
        self.doubts.restore(counts.doubts)
        self.held.restore(counts.held)

    def set_others(self, stored: Iterable[bytes]) -> None:
        """Take in what other workers have stored."""
        parts = [TrapCounts.load(one) for one in stored]
        now = self._clock()
        self.urls.set_others(part.urls for part in parts if now - part.at < SPAN_S)
        self.nothing_new.set_others(part.nothing_new for part in parts)
        self.repeated.set_others(part.repeated for part in parts)
        self.doubts.set_others(part.doubts for part in parts)
        self.held.set_others(part.held for part in parts)


def share_traps(
    values: Mapping[str, bytes],
    limits: LinkLimits,
    totals: crawl_totals.CrawlTotals,
    counters: TrapCounters,
) -> bool:
    """Take what other workers have closed and counted from the values that are stored with the crawl.

    Return whether an operator has released a pattern since: links to it that were dropped may be sent again.
    """
    for key, value in values.items():
        if key.startswith(crawl_totals.PART):
            try:
                others = crawl_totals.CrawlTotals.load(value)
            except msgspec.DecodeError:
                continue  # `shoal status` reports it
            totals.close(others)
    released = crawl_totals.load_released(values.get(crawl_totals.RELEASED))
    is_new = totals.reopen(per_pattern=limits.per_pattern, nothing_new=limits.nothing_new, released=released)
    parts = [value for key, value in values.items() if key.startswith(PART) and key != counters.key]
    counters.set_others(parts)
    return is_new
