"""How fast a store works, from its counts at two moments. Pure."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shoal.frontier.results import HostQueue
from shoal.services.inspect.status import CrawlStatus, StoreStatus
from shoal.services.live.attempts import Burst
from shoal.services.live.pipeline import Speeds

KEPT = 6  # samples that a speed is averaged over
PATIENCE_S = 5.0  # a host that is asked less often than this says nothing about a stall


@dataclass(frozen=True, slots=True)
class StoreTotals:
    """What a store has counted up to a moment."""

    accepted: int
    attempts: int
    pages: int  # fetched and archived
    parsed: int
    ended: int
    written: int  # items, as the workers report them
    waiting: int
    unparsed: int
    unwritten: int


def totals_of(status: StoreStatus) -> StoreTotals:
    crawls, fleet = status.crawls, status.fleet
    return StoreTotals(
        accepted=sum(crawl.accepted for crawl in crawls),
        attempts=sum(map(attempts_of, crawls)),
        pages=sum(crawl.counts["done"] + crawl.counts["parsing"] for crawl in crawls),
        parsed=sum(crawl.counts["done"] for crawl in crawls),
        ended=sum(map(ended_of, crawls)),
        written=sum(at.items for worker in fleet.workers for at in worker.outputs) if fleet else 0,
        waiting=sum(crawl.counts["waiting"] + crawl.counts["leased"] for crawl in crawls),
        unparsed=sum(crawl.counts["parsing"] for crawl in crawls),
        unwritten=sum(stages["sink"].waiting for stages in fleet.stages.values()) if fleet else 0,
    )


def attempts_of(crawl: CrawlStatus) -> int:
    counts = crawl.counts
    return counts["done"] + counts["parsing"] + counts["gone"] + counts["dead"] + crawl.retries


def ended_of(crawl: CrawlStatus) -> int:
    return sum(crawl.counts.get(state, 0) for state in ("done", "gone", "dead", "filtered", "held"))


def is_due(queues: Sequence[HostQueue] | None, now: float) -> bool:
    """Return whether a host may be asked within seconds, so that a crawl without requests is stalled."""
    return any(
        queue.queued
        and not queue.paused
        and queue.rest_until < now - PATIENCE_S
        and queue.interval < PATIENCE_S
        for queue in queues or ()
    )


@dataclass(slots=True)
class SpeedMeter:
    """Keeps the last samples, and since when each stage has passed nothing."""

    _samples: deque[tuple[float, StoreTotals, Burst]] = field(default_factory=lambda: deque(maxlen=KEPT))
    _moved_at: dict[str, float] = field(default_factory=dict)

    def measure(self, at: float, totals: StoreTotals, burst: Burst, *, logged: bool, due: bool) -> Speeds:
        """Add a sample and return the speeds; `logged`: the burst has every attempt since the last one."""
        before = self._samples[-1][1] if self._samples else None
        self._note_moves(at, before, totals, due=due)
        self._samples.append((at, totals, burst))
        first_at, first, _ = self._samples[0]
        passed = at - first_at
        if passed <= 0:
            return Speeds(quiet_s=self._quiet(at))
        bursts = [one for _, _, one in list(self._samples)[1:]]

        def rate(now: float, then: float) -> float:
            return max((now - then) / passed, 0.0)

        items = sum(one.items for one in bursts) / passed if logged else rate(totals.written, first.written)
        return Speeds(
            new_links=rate(totals.accepted, first.accepted),
            attempts=rate(totals.attempts, first.attempts),
            pages=rate(totals.pages, first.pages),
            bytes=sum(one.bytes for one in bursts) / passed if logged else None,
            parsed=rate(totals.parsed, first.parsed),
            items=items,
            median_ms=_median(bursts),
            quiet_s=self._quiet(at),
        )

    def _note_moves(self, at: float, before: StoreTotals | None, now: StoreTotals, *, due: bool) -> None:
        moved = {
            "fetch": before is None or now.attempts != before.attempts or not now.waiting or not due,
            "parse": before is None or now.parsed != before.parsed or not now.unparsed,
            "sink": before is None
            or now.written > before.written
            or now.unwritten < before.unwritten
            or not now.unwritten,
        }
        for stage, has_moved in moved.items():
            if has_moved:
                self._moved_at[stage] = at

    def _quiet(self, at: float) -> Mapping[str, float]:
        return {stage: at - moved for stage, moved in self._moved_at.items() if at > moved}


def _median(bursts: Sequence[Burst]) -> float | None:
    known = sorted(one for burst in bursts for one in burst.latencies)
    return known[len(known) // 2] if known else None


@dataclass(slots=True)
class CrawlSpeeds:
    """Requests that end per second, by crawl; over the last samples."""

    _samples: deque[tuple[float, Mapping[str, int]]] = field(default_factory=lambda: deque(maxlen=KEPT))

    def measure(self, at: float, crawls: Sequence[CrawlStatus]) -> Mapping[str, float]:
        ended = {crawl.name: ended_of(crawl) for crawl in crawls}
        self._samples.append((at, ended))
        first_at, first = self._samples[0]
        if at <= first_at:
            return {}
        return {
            name: max((number - first[name]) / (at - first_at), 0.0)
            for name, number in ended.items()
            if name in first
        }
