"""Rate-limit turns of hosts, taken as requests leave, many of them in one call.

Every request of a fleet needs a turn, and a separate call for it would cost the server more than its lease
and its settlement together. While a call to a shard is running, further requests for that shard queue up, and
the next call is for all of them: the busier the server, the larger the batch.
"""

import asyncio
from collections import defaultdict
from dataclasses import dataclass

from shoal.redis_client import EPOCH, RedisClient, Script, ScriptArgument


@dataclass(slots=True, eq=False)
class TicketRequest:
    host: str
    interval: float
    leeway: float
    wait: float | None = None  # the answer; None: not answered yet


class RateTickets:
    def __init__(self, store: RedisClient, script: Script) -> None:
        self._store = store
        self._script = script
        self._queued: defaultdict[str, list[TicketRequest]] = defaultdict(list)
        self._calling: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def take(self, host: str, interval: float, leeway: float) -> float:
        """Take a turn and return 0.0, or return the seconds until it comes."""
        tag, request = self._store.tag_of(host), TicketRequest(host, interval, leeway)
        self._queued[tag].append(request)
        try:
            async with self._calling[tag]:
                while request.wait is None:
                    await self._call(tag)
        finally:
            if request in self._queued[tag]:  # cancelled: no turn is taken for it
                self._queued[tag].remove(request)
        return request.wait

    async def _call(self, tag: str) -> None:
        requests = list(self._queued[tag])
        arguments: list[ScriptArgument] = [EPOCH]
        for request in requests:
            arguments += [request.host, request.interval, request.leeway]
        answers = await self._store.run(self._script, tag, arguments)
        for request, wait in zip(requests, answers, strict=True):
            request.wait = float(wait)
            if request in self._queued[tag]:
                self._queued[tag].remove(request)
