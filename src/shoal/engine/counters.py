"""Counters of one run, and the snapshot made of them."""

import heapq
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping

from shoal.engine.snapshot import HostSnapshot, Snapshot
from shoal.frontier.results import Counts
from shoal.model.crawl_totals import MAX_REASONS, OTHER_REASONS
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Dead, Filtered, Outcome, Retry
from shoal.model.page import ParseResult

BUSY = 0.8  # share of the slots in use from which on this process is the bound
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
        self.repeats = 0
        self.lenient = 0
        self.unchanged = 0  # pages whose items and links come from the previous generation
        self.discarded: Counter[str] = Counter()  # items that item hooks dropped, by reason
        self.failures: Counter[str] = Counter()
        self.last_error = ""  # one line, for people
        self.filtered: Counter[str] = Counter()
        self.before: Counts | None = None  # what earlier runs have counted; None: not read yet

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
        self.repeats += result.repeats
        if result.partial:
            self.partial += 1
        if result.dropped:
            self.filtered.update(result.dropped)
        for reason, count in result.discarded.items():
            known = reason in self.discarded or len(self.discarded) < MAX_REASONS
            self.discarded[reason if known else OTHER_REASONS] += count

    def failed(self, failure: Failure, url: str) -> None:
        """Count a failure, and keep it as the last one."""
        self.failures[failure.failure_class] += 1
        self.last_error = f"{failure.failure_class.value}: {url}: {failure.reason}"

    def outcome(self, outcome: Outcome, url: str) -> None:
        """Count an attempt that brought no page."""
        match outcome:
            case Retry(failure=failure) | Dead(failure=failure):
                self.failed(failure, url)
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
        duplicates: int,
        retries: int,
        max_pages: int,
        hosts: Iterable[HostSnapshot],
        in_flight: int,
        slots: int,
        parse_backlog: int,
        draining: bool,
    ) -> Snapshot:
        rate = self.rate()
        views = list(hosts)
        left = counts["waiting"] + counts["delayed"] + counts["leased"] + counts["parsing"]
        busy = max(in_flight, parse_backlog) >= BUSY * slots
        eta, eta_reason = estimate(left, rate, views, busy=busy)
        if max_pages:
            eta, eta_reason = limited(eta, eta_reason, pages_left=max_pages - counts["done"], rate=rate)
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
            discarded=dict(self.discarded),
            lenient=self.lenient,
            unchanged=self.unchanged,
            duplicates=self.repeats + duplicates,
            retries=retries,
            last_error=self.last_error,
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


def estimate(
    left: int, rate: float, views: Iterable[HostSnapshot], *, busy: bool
) -> tuple[float | None, str]:
    """Return how many seconds the known requests will take, and what bounds that; empty: it is not known.

    `busy`: this process has as much in progress as it can. More workers do not make a host faster, so the
    slowest host's pace counts as much as our own speed.
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
    return own, "this machine" if busy else ""


def limited(eta: float | None, reason: str, *, pages_left: int, rate: float) -> tuple[float | None, str]:
    """Return an estimate that stops at `--max-pages`: pages beyond it are not fetched.

    A crawl whose known requests are fewer may find more: the limit counts only where it comes first.
    """
    if pages_left <= 0:
        return 0.0, "--max-pages"
    if rate <= 0:
        return eta, reason
    until_limit = pages_left / rate
    return (until_limit, "--max-pages") if eta is None or until_limit < eta else (eta, reason)
