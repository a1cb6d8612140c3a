"""Lines of lists: crawls, hosts, exits. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from shoal.frontier.results import HostQueue
from shoal.model.alert import Alert
from shoal.model.api.live import AlertLine, CrawlLine, ExitLine, HostLine
from shoal.model.format import duration
from shoal.services.inspect.bottlenecks import MIN_SLOW, host_remark
from shoal.services.inspect.monitor import bottleneck_of, count_held, seconds_left
from shoal.services.inspect.status import CrawlStatus, StoreStatus
from shoal.services.live.attempts import RecentFigures
from shoal.services.live.speeds import ended_of, is_due
from shoal.services.proxies import ExitState, exit_json

# The words of `shoal status` for the states of a request; docs/glossary.md has both.
AHEAD = {"waiting": ("waiting",), "to retry": ("delayed",), "in progress": ("leased", "parsing")}
ENDED = {
    "done": ("done",),
    "gone": ("gone",),
    "failed": ("dead",),
    "skipped": ("filtered",),
    "held": ("held",),
}
_STATES = {"": "usual pace"}


@dataclass(frozen=True, slots=True)
class HostTable:
    """The hosts with requests, in the orders in which they are listed."""

    by_left: Sequence[HostQueue] = ()  # the longest first
    by_waiting: Sequence[HostQueue] = ()
    by_name: Mapping[str, HostQueue] = field(default_factory=dict)
    by_state: Mapping[str, Sequence[HostQueue]] = field(default_factory=dict)  # the longest first
    held: Mapping[str, int] = field(default_factory=dict)  # hosts that are held, by what
    is_due: bool = False  # a host may be asked within seconds, so a crawl without requests is stalled
    read_at: float = 0.0  # epoch seconds; 0: not read yet

    @classmethod
    def of(cls, queues: Sequence[HostQueue], now: float) -> "HostTable":
        """Return the table of queues, with those of several crawls at one host added up."""
        hosts: dict[str, HostQueue] = {}
        for queue in queues:
            known = hosts.get(queue.host)
            hosts[queue.host] = queue if known is None else replace(queue, queued=queue.queued + known.queued)
        listed = list(hosts.values())
        by_left = sorted(listed, key=lambda queue: -seconds_left(queue, now))
        by_state: dict[str, list[HostQueue]] = {}
        for queue in by_left:
            by_state.setdefault(state_of(queue, now), []).append(queue)
        return cls(
            by_left,
            sorted(listed, key=lambda queue: -queue.queued),
            hosts,
            by_state,
            count_held(listed, now),
            is_due(listed, now),
            now,
        )

    def choose(self, *, sort: str, state: str, search: str) -> Sequence[HostQueue]:
        """Return the hosts that were in a state and whose names contain `search`; empty: all."""
        listed = self.by_waiting if sort == "waiting" else self.by_left
        if state:
            listed = self.by_state.get(state, ())
            if sort == "waiting":
                listed = sorted(listed, key=lambda queue: -queue.queued)
        if search:
            listed = [queue for queue in listed if search in queue.host]
        return listed

    def in_state(self, hosts: Sequence[str], state: str) -> list[str]:
        chosen = {queue.host for queue in self.by_state.get(state, ())}
        return [host for host in hosts if host in chosen]

    def failing_first(
        self, listed: Sequence[HostQueue], failing: Sequence[str], limit: int
    ) -> tuple[list[HostQueue], int]:
        """Return the first hosts with the named ones at the top, and how many there are.

        Named ones without requests left are added.
        """
        first = [self.by_name.get(host) or _without_queue(host) for host in failing]
        named = set(failing)
        others = (queue for queue in listed if queue.host not in named)
        added = sum(host not in self.by_name for host in failing)
        return [*first, *islice(others, max(limit - len(first), 0))], len(listed) + added


def _without_queue(host: str) -> HostQueue:
    return HostQueue(host, 0, 0.0, 0, paused=False)


def state_of(queue: HostQueue, now: float) -> str:
    held = bottleneck_of(queue, now)
    return _STATES.get(held, held)


def host_line(queue: HostQueue, figures: RecentFigures, now: float) -> HostLine:
    left = seconds_left(queue, now)
    return HostLine(
        host=queue.host,
        waiting=queue.queued,
        interval_s=queue.interval,
        concurrency=queue.concurrency,
        state=state_of(queue, now),
        why=_why(queue, figures, now),
        left_s=None if math.isinf(left) else left,
        attempts=figures.attempts,
        failures=figures.failures,
        failure_classes=dict(figures.classes.most_common(5)),
        mean_ms=round(figures.ms / figures.attempts, 1) if figures.attempts else 0.0,
        last_status=figures.last_status,
        last_reason=figures.last_reason,
    )


def _why(queue: HostQueue, figures: RecentFigures, now: float) -> str:
    if queue.paused:
        return "paused by the operator"
    if (rest := queue.rest_until - now) > 0:
        return f"rests {duration(rest)}: it answered 429 or 503, or it was paused for a while"
    if queue.slow >= MIN_SLOW:
        kinds = ", ".join(kind for kind, _ in figures.classes.most_common(2))
        return (
            f"asked {queue.slow:.1f} times less often: it turns requests away{f' ({kinds})' if kinds else ''}"
        )
    return "Crawl-delay of robots.txt" if host_remark(queue, now) == "robots.txt" else ""


def crawl_lines(status: StoreStatus, rates: Mapping[str, float], *, limit: int) -> list[CrawlLine]:
    """Return the crawls that have most left, then those with most requests."""
    ranked = sorted(status.crawls, key=lambda crawl: (-left_of(crawl), -crawl.accepted))
    running = status.owner is not None or bool(status.fleet and status.fleet.workers)
    return [crawl_line(crawl, rates.get(crawl.name), running=running) for crawl in ranked[:limit]]


def left_of(crawl: CrawlStatus) -> int:
    return sum(crawl.counts[state] for states in AHEAD.values() for state in states)


def crawl_line(crawl: CrawlStatus, rate: float | None, *, running: bool) -> CrawlLine:
    left, ended = left_of(crawl), ended_of(crawl)
    spending = crawl.spending
    return CrawlLine(
        crawl=crawl.name,
        state=_state(crawl, left, rate, running=running),
        stopped=crawl.stopped,
        accepted=crawl.accepted,
        ahead=_words(crawl.counts, AHEAD),
        ended=_words(crawl.counts, ENDED),
        share=ended / crawl.accepted if crawl.accepted else 0.0,
        rate=rate,
        left_s=left / rate if rate and left else None,
        dead_by_class=dict(crawl.dead_by_class),
        traps=crawl.traps,
        cost=spending.cost if spending else 0.0,
        budget_share=spending.share if spending else 0.0,
    )


def _state(crawl: CrawlStatus, left: int, rate: float | None, *, running: bool) -> str:
    if not crawl.accepted:
        return "empty"
    if not left:
        return "finished"
    if crawl.paused:
        return "paused"
    if crawl.stopped:
        return "stopped"
    return "running" if running and (rate or crawl.counts["leased"]) else "waiting"


def plain_totals(status: StoreStatus) -> dict[str, int]:
    """Return the requests of all crawls by plain word."""
    words = {**AHEAD, **ENDED}
    return {
        word: sum(crawl.counts.get(state, 0) for crawl in status.crawls for state in states)
        for word, states in words.items()
    }


def _words(counts: Mapping[str, int], words: Mapping[str, Sequence[str]]) -> dict[str, int]:
    return {word: sum(counts.get(state, 0) for state in states) for word, states in words.items()}


def alert_line(alert: Alert) -> AlertLine:
    return AlertLine(
        kind=alert.kind.value,
        level=alert.level.value,
        about=alert.about,
        stage=alert.stage,
        cause=alert.cause,
        action=alert.action,
        done=alert.done,
        since=alert.since,
        cleared_at=alert.cleared_at or None,
    )


def exit_line(exit: ExitState, carried: Mapping[str, int], now: float) -> ExitLine:
    """Return an exit with the bytes that crawls have sent through it."""
    found = exit_json(exit, now)
    record = exit.record
    return ExitLine(
        name=exit.name,
        kind=exit.kind,
        country=exit.country,
        state=exit.state(now),
        rest_s=max(record.rest_until - now, 0.0),
        cause=record.cause,
        why=record.why,
        success=float(str(found["success"])),
        recent=int(str(found["recent"])),
        requests=record.total,
        bytes=carried.get(exit.name, 0),
        hosts_resting=exit.hosts_resting,
    )
