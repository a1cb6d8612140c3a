"""Pages that other workers have fetched, as one worker takes them from the bus and shares them out.

The bus brings pages of every crawl. Each waits here until the loop of its crawl takes it, and stays in hand
until the store has answered to its acknowledgement; meanwhile the bus hears that it is still worked at. What
is in hand when the worker stops goes back.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager

from shoal.bus import Bus, Delivery, open_bus
from shoal.frontier import Unparsed
from shoal.frontier.redis import RedisFrontier
from shoal.model.outcome import Acknowledgement
from shoal.redis_client import RedisClient

BATCH = 32
MOST = 128  # pages in hand, over all crawls, at which no more are taken
WAIT = 5.0  # seconds for one look, at the longest


class Deliveries:
    """`arrived` is told the crawl of every page that comes."""

    def __init__(self, bus: Bus, deadline: float, arrived: Callable[[str], None]) -> None:
        self._bus = bus
        self._deadline = deadline
        self._arrived = arrived
        self._queues: dict[str, asyncio.Queue[Delivery]] = {}
        self._in_hand: dict[tuple[str, int], Delivery] = {}
        self._fewer = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, store: RedisClient, *, consumer: str, deadline: float, arrived: Callable[[str], None]
    ) -> AsyncIterator["Deliveries"]:
        """Join the store's bus, for as long as the block runs."""
        async with open_bus(
            store.dsn.bus,
            store,
            consumer=consumer,
            reannounce=RedisFrontier(store).reannounce,
            deadline=deadline,
        ) as bus:
            deliveries = cls(bus, deadline, arrived)
            yield deliveries
            # Only where all is well: a store that has just failed would be waited for once more.
            await deliveries.give_back()

    async def run(self) -> None:
        """Take pages until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._extend(), name="deliveries.extend")
            group.create_task(self._bus.relay(), name="deliveries.relay")
            while True:
                while len(self._in_hand) >= MOST:
                    self._fewer.clear()
                    await self._fewer.wait()
                for delivery in await self._bus.deliver(limit=BATCH, wait=WAIT):
                    self._in_hand[delivery.crawl, delivery.fingerprint] = delivery
                    self._queue(delivery.crawl).put_nowait(delivery)
                    self._arrived(delivery.crawl)

    async def of(self, crawl: str) -> AsyncIterator[Unparsed]:
        """Give the pages of a crawl, as they come."""
        while True:
            delivery = await self._queue(crawl).get()
            yield Unparsed(
                delivery.fingerprint,
                delivery.request,
                delivery.page,
                strikes=delivery.number - 1,  # whoever had it before has not been heard of since
                consumer=delivery.consumer,
            )

    async def done(self, acknowledgements: Iterable[Acknowledgement]) -> None:
        """Take pages off the bus that the store has answered for."""
        ended = [self._in_hand.pop((one.crawl, one.fingerprint), None) for one in acknowledgements]
        self._fewer.set()
        await self._bus.done([delivery for delivery in ended if delivery is not None])

    async def keep_only(self, crawls: Collection[str]) -> None:
        """Take pages off the bus that nobody will want: those of crawls that there are no more."""
        unwanted = [delivery for delivery in self._in_hand.values() if delivery.crawl not in crawls]
        for delivery in unwanted:
            del self._in_hand[delivery.crawl, delivery.fingerprint]
            self._queues.pop(delivery.crawl, None)
        self._fewer.set()
        await self._bus.done(unwanted)

    async def give_back(self) -> None:
        """Let others have what is in hand."""
        left = list(self._in_hand.values())
        self._in_hand.clear()
        await self._bus.release(left)

    async def _extend(self) -> None:
        while True:
            await asyncio.sleep(self._deadline / 4)
            await self._bus.extend(list(self._in_hand.values()))

    def _queue(self, crawl: str) -> asyncio.Queue[Delivery]:
        return self._queues.setdefault(crawl, asyncio.Queue())
