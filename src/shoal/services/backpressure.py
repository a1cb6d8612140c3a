"""Waiting for room in a store that is full.

A full store takes no new crawls and start URLs; what it holds is worked off all the same, which makes room.
So whoever submits waits, as long as there is work whose end would help. Where there is none, waiting has no
end: that is said at once.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from shoal.engine.plan import Stop
from shoal.frontier import Added
from shoal.frontier.finished import is_finished
from shoal.frontier.redis import RedisFrontier
from shoal.model.errors import Interrupted, Misconfigured
from shoal.model.request import Link
from shoal.redis_client import Full, RedisClient
from shoal.stores.redis.crawls import Crawls
from shoal.stores.redis.workers import Workers

AGAIN = 1.0  # seconds between two tries
REMIND = 30.0  # seconds between two lines about it

T = TypeVar("T")


class Backpressure:
    """Makes calls that need room, again and again until there is some. `say` is told how it stands.

    Without `say`, nothing is waited for: `Full` goes to the caller.
    """

    def __init__(self, store: RedisClient, stop: Stop, say: Callable[[str], None] | None) -> None:
        self._store = store
        self._stop = stop
        self._say = say
        self._remind_at: float | None = None  # monotonic; None: nothing was waited for yet

    async def when_there(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await call()
            except Full as error:
                if self._say is None:
                    raise
                await self._wait(error, self._say)

    async def _wait(self, error: Full, say: Callable[[str], None]) -> None:
        if not await self._can_help():
            raise Full(
                f"{error.what}, and no crawl has work left whose end would make room",
                "raise maxmemory; or, if this is a long list of start URLs, let workers begin before its end:"
                " --any-host",
            ) from None
        now = time.monotonic()
        if self._remind_at is None or now >= self._remind_at:
            say(await self._how_it_stands(error, first=self._remind_at is None))
            self._remind_at = now + REMIND
        with suppress(TimeoutError):
            async with asyncio.timeout(AGAIN):
                await self._stop.drain.wait()
        if self._stop.drain.is_set():
            raise Interrupted("interrupted: what was added stays, and the same command goes on")

    async def _can_help(self) -> bool:
        """Tell whether workers know of a crawl that has something to do."""
        frontier = RedisFrontier(self._store)
        for record in await Crawls(self._store).all():
            with suppress(Misconfigured):  # it was dropped
                if not await is_finished(frontier.reader, record.name):
                    return True
        return False

    async def _how_it_stands(self, error: Full, *, first: bool) -> str:
        workers = len(await Workers(self._store).all())
        if not workers:
            who = "no worker is there: shoal worker makes room"
        else:
            who = f"{workers} {'worker makes' if workers == 1 else 'workers make'} room"
        if first:
            return f"{error.what}: waiting, {who}. Ctrl-C stops; the same command goes on"
        return f"{error.what}: still waiting, {who}"


class BackpressuredFrontier:
    """A frontier that start URLs go to when there is room for them."""

    def __init__(self, frontier: RedisFrontier, room: Backpressure) -> None:
        self._frontier = frontier
        self._room = room

    async def add(self, crawl: str, links: Sequence[Link]) -> Added:
        return await self._room.when_there(lambda: self._frontier.add(crawl, links))
