"""Whom a running crawl belongs to: one process alone, or the workers of a fleet together.

This page is all that differs in the running of the two; whoever wires the stations chooses.

    one owner                                       shared by workers
    ---------                                       -----------------
    deadlines of leases are on our clock            they are on the store's
    a page whose parse takes long is settled early  it stays leased to whoever has its body
    no lease is out: count what is left             so may others' be: count when nothing is to wait for
    cookies and scope are the crawl's, and kept     cookies are each worker's own, scope grows with the queue
"""

import math
import time
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from shoal.engine.scope_state import ScopeState
from shoal.fetch.cookies import CookieJar
from shoal.model import crawl_totals as sums
from shoal.model.outcome import Lease

PATIENCE = 2.0  # seconds after which a page is settled although its parse has not ended
SOON = 1.0  # seconds before its end at which a lease counts as run out: nobody reclaims it sooner
COUNT_EVERY = 1.0  # seconds between two questions to every shard whether anything is left


class Ownership(Protocol):
    """What running a crawl has to know about who else does."""

    @property
    def patience(self) -> float:
        """Give the seconds after which a page is settled as fetched, its parse going on; inf: never."""

    @property
    def last_patience(self) -> float:
        """Give the same for when the crawl is stopped."""

    def took(self, lease: Lease) -> None:
        """Hear of a lease that was granted."""

    def extend_before(self, ttl: float) -> float:
        """Give the deadline before which a lease is extended now; `ttl` is how long one lasts."""

    def run_out_by(self) -> float:
        """Give the deadline up to which a lease counts as run out, and may be reclaimed by our next call."""

    def may_be_finished(self, wait: float) -> bool:
        """Tell whether to count what is left, when the frontier has nothing for us for `wait` seconds."""

    def state(self) -> Mapping[str, bytes]:
        """Give what else the crawl should find again, by name."""


class Owned:
    """One process runs the crawl, and nobody else has the store open."""

    patience = PATIENCE
    last_patience = 0.0  # what has been fetched is kept, and parsed by the next run

    def __init__(self, jar: CookieJar, border: ScopeState, clock: Callable[[], float] = time.time) -> None:
        self._jar = jar
        self._border = border
        self._clock = clock

    def took(self, lease: Lease) -> None:
        pass  # whatever is queued, this process has queued it under its own scope

    def extend_before(self, ttl: float) -> float:
        return self._clock() + ttl / 2

    def run_out_by(self) -> float:
        return self._clock() + SOON

    def may_be_finished(self, wait: float) -> bool:
        return True

    def state(self) -> Mapping[str, bytes]:
        state = {"cookies": self._jar.dump()}
        if self._border.hosts is not None:  # those that seeds led to included
            state["hosts"] = msgspec.json.encode(sorted(self._border.hosts))
        return state


class Shared:
    """One worker of a fleet runs its share of the crawl, next to any number of others."""

    # Whoever would parse a page that was settled early would have to read it from the archive.
    patience = last_patience = math.inf

    def __init__(
        self,
        worker: str,
        border: ScopeState,
        totals: sums.CrawlTotals,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._worker = worker
        self._border = border
        self._totals = totals
        self._clock = clock
        self._counted_at = -math.inf

    def took(self, lease: Lease) -> None:
        # Another worker may have followed a seed to this host: what it has queued is in scope.
        self._border.admit(lease.host)

    def extend_before(self, ttl: float) -> float:
        return math.inf  # the store's clock is not ours, so all are extended

    def run_out_by(self) -> float:
        return -math.inf  # only the store can tell, and any worker may reclaim it before our next call

    def may_be_finished(self, wait: float) -> bool:
        # Counting takes a question to every shard. While the frontier knows of anything to wait for, be it
        # another worker's lease, there is something left.
        now = self._clock()
        if math.isfinite(wait) or now - self._counted_at < COUNT_EVERY:
            return False
        self._counted_at = now
        return True

    def state(self) -> Mapping[str, bytes]:
        return {f"{sums.PART}{self._worker}": self._totals.dump()}
