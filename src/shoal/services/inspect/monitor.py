"""The state of a store over time: counts, speed, and the hosts that take longest."""

import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from shoal.frontier.results import HostQueue
from shoal.services.inspect.bottlenecks import MIN_SLOW
from shoal.services.inspect.status import CrawlStatus, StoreStatus, read_status
from shoal.stores.contract.store import Store
from shoal.stores.open import open_store

__all__ = ["HostQueue", "Overview", "StoreMonitor", "bottleneck_of", "count_held", "slowest", "watch_store"]

HOSTS_EVERY_S = (1.0, 60.0)  # at least and at most
HOSTS_SHARE = 0.02  # of the time may be spent on reading hosts: each of them costs the store a lookup
MAX_HOSTS = 20  # in an overview
ENDED = ("done", "gone", "dead", "filtered", "held")


class QueueReader(Protocol):
    """The part of a frontier that a monitor needs."""

    async def queues(self, max_hosts: int | None = None) -> list[HostQueue] | None: ...


@dataclass(frozen=True, slots=True)
class Overview:
    at: float  # epoch seconds
    status: StoreStatus
    rate: float | None  # requests per second that ended; None: not known yet
    hosts: Sequence[HostQueue]  # the slowest first
    held: Mapping[str, int] = field(default_factory=dict)  # hosts by what keeps them from being fetched


@dataclass(frozen=True, slots=True)
class SlowHosts:
    """The hosts that take longest, and how many are held by what."""

    hosts: Sequence[HostQueue] = ()  # the slowest first
    held: Mapping[str, int] = field(default_factory=dict)


ReadHosts = Callable[[], Awaitable[SlowHosts]]


class StoreMonitor:
    """Reads a store repeatedly, and keeps what is needed to compute speeds.

    With `read_hosts`, what that returns is taken for the hosts, and no host is read from the store.
    """

    def __init__(
        self,
        frontier: QueueReader,
        read: Callable[[], Awaitable[StoreStatus]],
        read_hosts: ReadHosts | None = None,
    ) -> None:
        self._frontier = frontier
        self._read = read
        self._read_hosts = read_hosts
        self._before: tuple[float, int] | None = None
        self._slow = SlowHosts()
        self._hosts_due = 0.0

    @classmethod
    def of(cls, store: Store, read_hosts: ReadHosts | None = None) -> "StoreMonitor":
        return cls(store.frontier, partial(read_status, store), read_hosts)

    async def look(self) -> Overview:
        """Read the store once."""
        status = await self._read()
        now = time.monotonic()
        if self._read_hosts is not None:
            self._slow = await self._read_hosts()
        elif now >= self._hosts_due:
            queues = [queue for queue in await self._frontier.queues() or () if queue.queued]
            took = time.monotonic() - now
            self._slow = SlowHosts(slowest(queues, time.time()), count_held(queues, time.time()))
            self._hosts_due = now + min(max(took / HOSTS_SHARE, HOSTS_EVERY_S[0]), HOSTS_EVERY_S[1])
        return Overview(time.time(), status, self._rate(status, now), self._slow.hosts, self._slow.held)

    def _rate(self, status: StoreStatus, now: float) -> float | None:
        ended = sum(_ended(crawl) for crawl in status.crawls)
        before, self._before = self._before, (now, ended)
        if before is not None and now > before[0]:
            return max(0.0, (ended - before[1]) / (now - before[0]))
        if status.fleet is not None:  # the first look: workers report their own rates
            return sum(at.rate for worker in status.fleet.workers for at in worker.crawls)
        return None


def slowest(queues: Sequence[HostQueue], now: float, limit: int = MAX_HOSTS) -> list[HostQueue]:
    """Return the hosts that take longest at the pace that all crawls share; paused ones come first."""
    hosts: dict[str, HostQueue] = {}
    for queue in queues:
        known = hosts.get(queue.host)
        hosts[queue.host] = queue if known is None else replace(queue, queued=queue.queued + known.queued)
    return sorted(hosts.values(), key=lambda queue: (seconds_left(queue, now), queue.queued), reverse=True)[
        :limit
    ]


def count_held(queues: Iterable[HostQueue], now: float) -> dict[str, int]:
    """Count the hosts that are not fetched at their usual pace, by reason."""
    reasons = {queue.host: reason for queue in queues if (reason := bottleneck_of(queue, now))}
    return dict(Counter(reasons.values()))


def bottleneck_of(queue: HostQueue, now: float) -> str:
    """Return why a host is not fetched at its usual pace: "paused", "resting", "slowed", or empty."""
    if queue.paused:
        return "paused"
    if queue.rest_until > now:
        return "resting"
    return "slowed" if queue.slow >= MIN_SLOW else ""


def seconds_left(queue: HostQueue, now: float) -> float:
    """Return how long politeness alone keeps a host busy."""
    if queue.paused:
        return math.inf
    return max(0.0, queue.rest_until - now) + queue.queued * queue.interval


def _ended(crawl: CrawlStatus) -> int:
    return sum(crawl.counts.get(state, 0) for state in ENDED)


@asynccontextmanager
async def watch_store(dsn: str) -> AsyncIterator[StoreMonitor]:
    """Open a store for repeated reading on one connection; raise `Misconfigured` if it does not exist."""
    async with open_store(dsn) as store:
        yield StoreMonitor.of(store)
