"""Turns of hosts, taken as requests leave: those that are wanted at once are asked for in one call.

Every request of a fleet needs one, and a call of its own costs the server more than its lease and its
settlement together. While a shard is being asked, whoever else wants a turn there gathers, and the next call
is for all of them: the busier the server, the more go in one.
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
    wait: float | None = None  # the answer


class RateTickets:
    def __init__(self, store: RedisClient, script: Script) -> None:
        self._store = store
        self._script = script
        self._gathered: defaultdict[str, list[TicketRequest]] = defaultdict(list)
        self._asking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def take(self, host: str, interval: float, leeway: float) -> float:
        """Take a turn and return 0.0, or return the seconds until it comes."""
        tag, wish = self._store.tag_of(host), TicketRequest(host, interval, leeway)
        self._gathered[tag].append(wish)
        try:
            async with self._asking[tag]:
                while wish.wait is None:
                    await self._ask(tag)
        finally:
            if wish in self._gathered[tag]:  # given up: no turn is taken for it
                self._gathered[tag].remove(wish)
        return wish.wait

    async def _ask(self, tag: str) -> None:
        wishes = list(self._gathered[tag])
        arguments: list[ScriptArgument] = [EPOCH]
        for wish in wishes:
            arguments += [wish.host, wish.interval, wish.leeway]
        answers = await self._store.run(self._script, tag, arguments)
        for wish, wait in zip(wishes, answers, strict=True):
            wish.wait = float(wait)
            if wish in self._gathered[tag]:
                self._gathered[tag].remove(wish)
