"""Hosts on Redis: their pace, rests and pauses, and their robots.txt.

A request learns of a pause when it takes its turn. Requests to hosts without a rate limit take no turn, and
would need a separate call. So a worker asks each shard once a second what is paused (`RedisPauses`). A
pause holds `PAUSE_HOLDS_S` seconds after it was stored, and not before every turn that was granted is over.
"""

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass

from shoal.frontier.redis.packing import clamp_int16
from shoal.frontier.redis.shard_client import ShardClient
from shoal.frontier.redis.views import view_of, views_in
from shoal.frontier.results import HostView, StoredRobots
from shoal.redis_client.fan_out import fan_out

PAUSE_HOLDS_S = 1.0  # for which an answer of a shard is used, counted from before the question
NOT_SET = -1  # instead of an interval, burst or concurrency: the crawls' pace applies


class RedisHosts:
    def __init__(self, client: ShardClient) -> None:
        self._client = client
        self._store = client.store
        self._scripts = client.scripts

    async def get(self, host: str) -> HostView | None:
        """Return one host, or None if the store has no record of it, or no longer has."""
        tag = self._store.tag_of(host)
        reply = await self._store.run(self._scripts.host_get, tag, [host, self._client.held.take_landed(tag)])
        return None if reply is None else view_of(reply, self._client.names)

    async def all(self) -> list[HostView]:
        """Return every host of the crawls that are open."""
        shards = await fan_out(self._all_in(tag) for tag in self._store.tags())
        return [view for views in shards for view in views]

    async def _all_in(self, tag: str) -> list[HostView]:
        return await views_in(
            self._store,
            self._scripts,
            tag,
            self._client.names,
            lambda: self._client.held.take_landed(tag),
        )

    async def set(
        self,
        host: str,
        *,
        interval: float | None = None,
        burst: int | None = None,
        concurrency: int | None = None,
        crawl_delay: float | None = None,
        rest_until: float | None = None,
        paused: bool | None = None,
    ) -> HostView:
        """Override the pace of a host, rest it or pause it. What is None stays unchanged.

        A new interval and the end of a pause also end an adaptive slow-down.
        """
        limits = [None if number is None else clamp_int16(number) for number in (burst, concurrency)]
        flag = None if paused is None else int(paused)
        return await self._set(host, interval, *limits, crawl_delay, rest_until, flag)

    async def clear(self, host: str) -> HostView:
        """Remove the interval, burst and concurrency set for a host: the crawls' pace applies again."""
        return await self._set(host, NOT_SET, NOT_SET, NOT_SET, None, None, None)

    async def _set(self, host: str, *fields: float | None) -> HostView:
        tag = self._store.tag_of(host)
        arguments = ["" if field is None else field for field in fields]
        reply = await self._store.run(
            self._scripts.host_set,
            tag,
            [host, *arguments, self._client.held.take_landed(tag)],
            replicated=True,
        )
        self._client.pickers.wake(self._store.shard_of(host))
        return view_of(reply, self._client.names)

    async def get_robots(self, host: str) -> StoredRobots | None:
        """Return a host's robots.txt, or None if it is unknown or expired."""
        found = await self._store.run(self._scripts.robots_get, self._store.tag_of(host), [host])
        return None if found is None else StoredRobots(float(found[0]), int(found[1]), found[2])

    async def set_robots(self, host: str, *, expires: float, status: int, body: bytes) -> None:
        """Store a robots.txt until it expires."""
        await self._store.run(
            self._scripts.robots_set, self._store.tag_of(host), [host, expires, status, body]
        )


@dataclass(frozen=True, slots=True)
class _Known:
    asked_at: float  # monotonic
    crawl: bool
    hosts: frozenset[str]


class RedisPauses:
    def __init__(self, client: ShardClient) -> None:
        self._client = client
        self._store = client.store
        self._known: dict[tuple[str, int], _Known] = {}
        self._asking: defaultdict[tuple[str, int], asyncio.Lock] = defaultdict(asyncio.Lock)

    async def is_paused(self, crawl: str, host: str) -> bool:
        """Return whether nothing may be sent to a host for a crawl; at most `PAUSE_HOLDS_S` old."""
        place = self._store.tag_of(host), self._client.opened_number(crawl)
        known = self._known.get(place)
        while known is None or known.asked_at + PAUSE_HOLDS_S < time.monotonic():
            async with self._asking[place]:
                if self._known.get(place) is known:
                    self._known[place] = await self._ask(*place)
            known = self._known[place]
        return known.crawl or host in known.hosts

    async def _ask(self, tag: str, crawl: int) -> _Known:
        asked_at = time.monotonic()
        paused, _, *hosts = await self._store.run(self._client.scripts.pauses, tag, [crawl])
        return _Known(asked_at, bool(paused), frozenset(name.decode() for name in hosts))

    async def wait_until_held(self, host: str = "") -> None:
        """Return when a pause that was stored before this call holds in every worker."""
        began = time.monotonic()
        tags = [self._store.tag_of(host)] if host else self._store.tags()
        answers = await fan_out(self._store.run(self._client.scripts.pauses, tag, [0]) for tag in tags)
        holds_in = max(PAUSE_HOLDS_S, *(float(answer[1]) for answer in answers))
        await asyncio.sleep(max(began + holds_in - time.monotonic(), 0.0))
