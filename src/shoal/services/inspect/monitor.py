"""A whole store at one instant, again and again: for whoever watches a fleet, or a crawl in a folder."""

import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from shoal.frontier.results import HostQueue
from shoal.services.inspect.status import CrawlStatus, StoreStatus, folder_status
from shoal.stores.access import StoreReader, open_reader
from shoal.stores.address import is_redis, shown_store
from shoal.stores.reach import reached

__all__ = ["HostQueue", "Overview", "StoreMonitor", "held", "holdup_of", "left", "longest", "overseeing"]

HOSTS_EVERY = (1.0, 60.0)  # seconds, at least and at most
HOSTS_SHARE = 0.02  # of the time may go into looking at hosts: each of them has to be asked for
HOSTS = 20  # that are told
ENDED = ("done", "gone", "dead", "filtered")


@dataclass(frozen=True, slots=True)
class Overview:
    at: float  # epoch seconds
    status: StoreStatus
    rate: float | None  # requests per second that came to their end; None: not known yet
    hosts: Sequence[HostQueue]  # those that take the longest, first
    held: Mapping[str, int] = field(default_factory=dict)  # hosts by what keeps them from being asked


class StoreMonitor:
    """Looks at a store over and over, and remembers what is needed to tell how fast things go."""

    def __init__(self, reader: StoreReader, look: Callable[[], Awaitable[StoreStatus]]) -> None:
        self._reader = reader
        self._look = look
        self._before: tuple[float, int] | None = None
        self._hosts: Sequence[HostQueue] = ()
        self._held: Mapping[str, int] = {}
        self._hosts_due = 0.0

    async def look(self) -> Overview:
        """See how things stand."""
        status = await self._look()
        now = time.monotonic()
        if now >= self._hosts_due:
            queues = [queue for queue in await self._reader.queues() or () if queue.queued]
            took = time.monotonic() - now
            self._hosts = longest(queues, time.time())
            self._held = held(queues, time.time())
            self._hosts_due = now + min(max(took / HOSTS_SHARE, HOSTS_EVERY[0]), HOSTS_EVERY[1])
        return Overview(time.time(), status, self._rate(status, now), self._hosts, self._held)

    def _rate(self, status: StoreStatus, now: float) -> float | None:
        ended = sum(_ended(crawl) for crawl in status.crawls)
        before, self._before = self._before, (now, ended)
        if before is not None and now > before[0]:
            return max(0.0, (ended - before[1]) / (now - before[0]))
        if status.fleet is not None:  # no second look yet, but workers tell their own
            return sum(at.rate for worker in status.fleet.workers for at in worker.crawls)
        return None


def longest(queues: Sequence[HostQueue], now: float) -> list[HostQueue]:
    """Put the hosts first that take longest, at the pace that all crawls share; paused ones: for ever."""
    hosts: dict[str, HostQueue] = {}
    for queue in queues:
        known = hosts.get(queue.host)
        hosts[queue.host] = queue if known is None else replace(queue, queued=queue.queued + known.queued)
    return sorted(hosts.values(), key=lambda queue: (left(queue, now), queue.queued), reverse=True)[:HOSTS]


def held(queues: Iterable[HostQueue], now: float) -> dict[str, int]:
    """Count the hosts that are not asked as usual, by why."""
    kinds = {queue.host: kind for queue in queues if (kind := holdup_of(queue, now))}
    return dict(Counter(kinds.values()))


def holdup_of(queue: HostQueue, now: float) -> str:
    """Name what keeps a host from being asked as usual: "paused", "resting", "slowed", or nothing."""
    if queue.paused:
        return "paused"
    if queue.rest_until > now:
        return "resting"
    return "slowed" if queue.slow > 1.0 else ""


def left(queue: HostQueue, now: float) -> float:
    """Say for how many seconds politeness alone keeps a host busy."""
    if queue.paused:
        return math.inf
    return max(0.0, queue.rest_until - now) + queue.queued * queue.interval


def _ended(crawl: CrawlStatus) -> int:
    return sum(crawl.counts[state] for state in ENDED)


@asynccontextmanager
async def overseeing(store: str) -> AsyncIterator[StoreMonitor]:
    """Watch a store on one connection; raises `Misconfigured` if there is none."""
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(reached(store))
        if is_redis(address):
            from shoal.frontier.redis import RedisFrontier
            from shoal.redis_client import RedisClient
            from shoal.services.inspect.fleet_status import look_at

            opened = await stack.enter_async_context(RedisClient.open(address, advise=False))
            yield StoreMonitor(RedisFrontier(opened).reader, partial(look_at, opened, shown_store(store)))
        else:
            reader = await stack.enter_async_context(open_reader(address))
            yield StoreMonitor(reader, partial(folder_status, address, reader))
