"""The slots: as many requests as a crawl may have out at once, and a few leases that wait for one."""

import asyncio
from collections.abc import Awaitable, Callable

from shoal.model.outcome import Lease

PREFETCH = 32  # leases that wait for a slot: enough to keep all of them busy between two calls for work


class Slots:
    """`attempt` is what a slot does with a lease; `hungry` is set when few leases are left to begin."""

    def __init__(
        self, count: int, attempt: Callable[[Lease], Awaitable[None]], hungry: asyncio.Event
    ) -> None:
        self._count = count
        self._attempt = attempt
        self._hungry = hungry
        self._queue: asyncio.Queue[Lease | None] = asyncio.Queue()
        self.active = 0  # slots that are at work

    @property
    def room(self) -> int:
        """Say how many more leases can be put in."""
        return self._count + PREFETCH - self.active - self._queue.qsize()

    def open(self, group: asyncio.TaskGroup) -> None:
        for n in range(self._count):
            group.create_task(self._run(), name=f"slot.{n}")

    def put(self, lease: Lease) -> None:
        self._queue.put_nowait(lease)

    def close(self) -> list[Lease]:
        """Send each slot home when it has finished what it is at; returns the leases that none has begun."""
        unbegun = []
        while not self._queue.empty():
            if (lease := self._queue.get_nowait()) is not None:
                unbegun.append(lease)
        for _ in range(self._count):
            self._queue.put_nowait(None)
        return unbegun

    async def _run(self) -> None:
        while (lease := await self._queue.get()) is not None:
            self.active += 1
            try:
                await self._attempt(lease)
            finally:
                self.active -= 1
            if self._queue.qsize() < PREFETCH // 2:
                self._hungry.set()
