"""What is paused, as a worker knows it: for requests that take no turn, because their host has no rate limit.

Other requests learn of a pause when they take their turn. These would need a call of their own, so a worker
asks each shard once a second. A pause holds when its command returns: that is `PAUSE_HOLDS_S` seconds after
it was stored, and not before every turn that was granted is over.
"""

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass

from shoal.frontier.redis.shard_client import ShardClient
from shoal.redis_client.fan_out import fan_out

PAUSE_HOLDS_S = 1.0  # for which an answer of a shard is used, counted from before the question


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
