"""Waiting for space in a store that is full.

A full store takes no new crawls and start URLs. Workers still process what it holds, which frees space. So a
submission waits as long as there is work that frees space when it is done. Without such work, waiting would
not end, and the submission fails at once.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from shoal.engine.plan import Stop
from shoal.engine.seeding import SeedFrontier
from shoal.frontier import Added
from shoal.frontier.finished import CountsReader, is_finished
from shoal.model.errors import Interrupted, Misconfigured
from shoal.model.request import Link
from shoal.redis_client import Full
from shoal.stores.contract.fleet import Heartbeats, SubmittedCrawls

RETRY_S = 1.0
REMIND_S = 30.0  # between two messages

T = TypeVar("T")


class CountedFrontier(Protocol):
    @property
    def reader(self) -> CountsReader: ...


class StoreActivity(Protocol):
    """The part of a `Fleet` that shows whether space will be freed, and by how many workers."""

    @property
    def frontier(self) -> CountedFrontier: ...
    @property
    def crawls(self) -> SubmittedCrawls: ...
    @property
    def workers(self) -> Heartbeats: ...


class Backpressure:
    """Retries calls until the store has space; `say` is called with a message for the operator.

    Without `say`, `Full` is raised at once.
    """

    def __init__(
        self,
        store: StoreActivity,
        stop: Stop,
        say: Callable[[str], None] | None,
        *,
        retry_s: float = RETRY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._stop = stop
        self._say = say
        self._retry_s = retry_s
        self._clock = clock
        self._remind_at: float | None = None  # by the clock; None: the store was never full

    async def retry(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await call()
            except Full as error:
                if self._say is None:
                    raise
                await self._wait(error, self._say)

    async def _wait(self, error: Full, say: Callable[[str], None]) -> None:
        if not await self._work_left():
            raise Full(
                f"{error.what}, and no crawl has work left that would free space",
                "raise maxmemory; or, for a long list of start URLs, let workers start before its end:"
                " --any-host",
            ) from None
        now = self._clock()
        if self._remind_at is None or now >= self._remind_at:
            say(await self._message(error, first=self._remind_at is None))
            self._remind_at = now + REMIND_S
        with suppress(TimeoutError):
            async with asyncio.timeout(self._retry_s):
                await self._stop.drain.wait()
        if self._stop.drain.is_set():
            raise Interrupted("interrupted: what was added is kept; run the same command to resume")

    async def _work_left(self) -> bool:
        """Return whether a crawl of the store has requests left."""
        reader = self._store.frontier.reader
        for record in await self._store.crawls.all():
            with suppress(Misconfigured):  # it was deleted
                if not await is_finished(reader, record.name):
                    return True
        return False

    async def _message(self, error: Full, *, first: bool) -> str:
        workers = len(await self._store.workers.all())
        if not workers:
            who = "no worker is running: start shoal worker to free space"
        else:
            who = f"{workers} {'worker is' if workers == 1 else 'workers are'} freeing space"
        if first:
            return f"{error.what}: waiting, {who}. Ctrl-C stops; the same command resumes"
        return f"{error.what}: still waiting, {who}"


class BackpressuredFrontier:
    """A frontier that takes start URLs as soon as the store has space for them."""

    def __init__(self, frontier: SeedFrontier, backpressure: Backpressure) -> None:
        self._frontier = frontier
        self._backpressure = backpressure

    async def add(self, crawl: str, links: Sequence[Link]) -> Added:
        return await self._backpressure.retry(lambda: self._frontier.add(crawl, links))
