"""Pages that other workers have fetched: taken from the bus and passed to the crawls of this worker.

The bus brings pages of every crawl. Each page waits here until the loop of its crawl takes it, and counts as
in progress until the store has confirmed its acknowledgement; until then its delivery is extended. What is
in progress when the worker stops goes back to the bus.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager

from shoal.bus import Bus, Delivery, open_bus
from shoal.frontier import Unparsed
from shoal.model.outcome import Acknowledgement
from shoal.stores.contract.fleet import Fleet

BATCH = 32
MAX_IN_PROGRESS = 128  # pages, over all crawls, at which no more are taken
MAX_WAIT_S = 5.0  # for one call to the bus


class Deliveries:
    """`arrived` is called with the crawl of every page that arrives."""

    def __init__(self, bus: Bus, deadline: float, arrived: Callable[[str], None]) -> None:
        self._bus = bus
        self._deadline = deadline
        self._arrived = arrived
        self._queues: dict[str, asyncio.Queue[Delivery]] = {}
        self._in_progress: dict[tuple[str, int], Delivery] = {}
        self._fewer = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, fleet: Fleet, *, consumer: str, deadline: float, arrived: Callable[[str], None]
    ) -> AsyncIterator["Deliveries"]:
        """Join the store's bus while the block runs."""
        async with open_bus(
            fleet.client.dsn.bus,
            fleet.client,
            consumer=consumer,
            reannounce=fleet.frontier.reannounce,
            deadline=deadline,
        ) as bus:
            deliveries = cls(bus, deadline, arrived)
            yield deliveries
            # Only after a normal end: a store that has just failed would be retried once more.
            await deliveries.give_back()

    async def run(self) -> None:
        """Take pages until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._extend(), name="deliveries.extend")
            group.create_task(self._bus.relay(), name="deliveries.relay")
            while True:
                while len(self._in_progress) >= MAX_IN_PROGRESS:
                    self._fewer.clear()
                    await self._fewer.wait()
                for delivery in await self._bus.deliver(limit=BATCH, wait=MAX_WAIT_S):
                    self._in_progress[delivery.crawl, delivery.fingerprint] = delivery
                    self._queue(delivery.crawl).put_nowait(delivery)
                    self._arrived(delivery.crawl)

    async def pages_of(self, crawl: str) -> AsyncIterator[Unparsed]:
        """Yield the pages of a crawl as they arrive."""
        while True:
            delivery = await self._queue(crawl).get()
            yield Unparsed(
                delivery.fingerprint,
                delivery.request,
                delivery.page,
                strikes=delivery.number - 1,  # the workers that had it before have died or lost it
                consumer=delivery.consumer,
            )

    async def acknowledge(self, acknowledgements: Iterable[Acknowledgement]) -> None:
        """Take pages off the bus whose end the store has recorded."""
        ended = [self._in_progress.pop((one.crawl, one.fingerprint), None) for one in acknowledgements]
        self._fewer.set()
        await self._bus.done([delivery for delivery in ended if delivery is not None])

    async def keep_only(self, crawls: Collection[str]) -> None:
        """Take the pages of all other crawls off the bus: those crawls were deleted."""
        unwanted = [delivery for delivery in self._in_progress.values() if delivery.crawl not in crawls]
        for delivery in unwanted:
            del self._in_progress[delivery.crawl, delivery.fingerprint]
            self._queues.pop(delivery.crawl, None)
        self._fewer.set()
        await self._bus.done(unwanted)

    async def give_back(self, crawl: str | None = None) -> None:
        """Release what is in progress, of one crawl or of all, to other workers."""
        left = [one for one in self._in_progress.values() if crawl in (None, one.crawl)]
        for delivery in left:
            del self._in_progress[delivery.crawl, delivery.fingerprint]
            self._queues.pop(delivery.crawl, None)
        self._fewer.set()
        await self._bus.release(left)

    async def _extend(self) -> None:
        while True:
            await asyncio.sleep(self._deadline / 4)
            await self._bus.extend(list(self._in_progress.values()))

    def _queue(self, crawl: str) -> asyncio.Queue[Delivery]:
        return self._queues.setdefault(crawl, asyncio.Queue())
