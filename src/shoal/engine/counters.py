"""Counters of one run, and the snapshot made of them."""

import heapq
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping

from shoal.engine.snapshot import HostSnapshot, Snapshot
from shoal.model.failure import FailureClass
from shoal.model.outcome import Dead, Filtered, Outcome, Retry
from shoal.model.page import ParseResult

RATE_WINDOW_S = 5.0
MAX_HOSTS = 5  # named in a snapshot


class Counters:
    """Plain additions only: they run for every page."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self._marks: deque[tuple[float, int]] = deque([(self._started, 0)])
        self.pages = 0
        self.handed_on = 0  # of those, pages that another worker parses
        self.items = 0
        self.rejected = 0
        self.bytes = 0
        self.withheld = 0
        self.partial = 0
        self.hook_faults = 0
        self.lenient = 0
        self.failures: Counter[str] = Counter()
        self.filtered: Counter[str] = Counter()

    def page(self, result: ParseResult) -> None:
        """Count a parsed page, its items and its dropped links."""
        self.pages += 1
        self._count(result)

    def hook(self, result: ParseResult) -> None:
        """Count what an `on_error` hook yielded, or that it failed."""
        self.hook_faults += result.fault is not None
        self._count(result)

    def _count(self, result: ParseResult) -> None:
        self.items += len(result.items)
        self.rejected += len(result.rejected)
        self.withheld += result.withheld
        if result.partial:
            self.partial += 1
        if result.dropped:
            self.filtered.update(result.dropped)

    def outcome(self, outcome: Outcome) -> None:
        """Count an attempt that brought no page."""
        match outcome:
            case Retry(failure=failure) | Dead(failure=failure):
                self.failures[failure.failure_class] += 1
            case Filtered(rule=rule):
                self.filtered[rule] += 1
            case _:
                pass

    def rate(self) -> float:
        """Return pages per second over the last `RATE_WINDOW_S` seconds; call it about once per second."""
        now = self._clock()
        self._marks.append((now, self.pages))
        while len(self._marks) > 2 and now - self._marks[1][0] > RATE_WINDOW_S:
            self._marks.popleft()
        since, pages = self._marks[0]
        return (self.pages - pages) / (now - since) if now > since else 0.0

    def snapshot(
        self,
        *,
        crawl: str,
        counts: Mapping[str, int],
        over_budget: int,
        hosts: Iterable[HostSnapshot],
        in_flight: int,
        parse_backlog: int,
        draining: bool,
    ) -> Snapshot:
        rate = self.rate()
        views = list(hosts)
        left = counts["waiting"] + counts["delayed"] + counts["leased"] + counts["parsing"]
        eta, eta_reason = estimate(left, rate, views)
        return Snapshot(
            crawl=crawl,
            elapsed=self._clock() - self._started,
            pages=self.pages,
            items=self.items,
            bytes=self.bytes,
            rate=rate,
            counts=counts,
            failures=dict(self.failures),
            filtered=dict(self.filtered + Counter({FailureClass.BUDGET.value: over_budget})),
            in_flight=in_flight,
            parse_backlog=parse_backlog,
            slowest=slowest(views),
            failing=heapq.nlargest(MAX_HOSTS, (v for v in views if v.failures), key=lambda v: v.failures),
            eta=eta,
            eta_reason=eta_reason,
            rejected=self.rejected,
            withheld=self.withheld,
            partial=self.partial,
            hook_faults=self.hook_faults,
            lenient=self.lenient,
            draining=draining,
        )


def drain_time(view: HostSnapshot) -> float:
    """Return the least time that the pace of a host needs for its waiting requests."""
    if view.paused and view.waiting:
        return math.inf
    return view.next_turn + max(view.waiting - 1, 0) * view.interval if view.waiting else 0.0


def slowest(views: Iterable[HostSnapshot]) -> list[HostSnapshot]:
    """Return the hosts that will delay the crawl longest."""
    return heapq.nlargest(MAX_HOSTS, (v for v in views if v.waiting), key=drain_time)


def estimate(left: int, rate: float, views: Iterable[HostSnapshot]) -> tuple[float | None, str]:
    """Return how many seconds the known requests will take, and what bounds that.

    More workers do not make a host faster, so the slowest host's pace counts as much as our own speed.
    """
    if not left:
        return 0.0, ""
    bound = max(views, key=drain_time, default=None)
    polite = drain_time(bound) if bound is not None else 0.0
    own = left / rate if rate > 0 else math.inf
    if bound is not None and math.isinf(polite):
        return None, f"{bound.host} is paused"
    if math.isinf(own):
        return None, ""
    # A host near its pace is the bound, although each response takes a little of the interval.
    if bound is not None and polite >= 0.8 * own:
        return max(polite, own), f"the pace of {bound.host}"
    return own, "this machine"
