"""Pages from the bus, passed to the crawls of a worker."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from shoal.bus import BusBacklog, Delivery
from shoal.model.outcome import Acknowledgement, Done
from shoal.model.page import PageRecord, PageRef
from shoal.model.request import Request
from shoal.worker.deliveries import MAX_IN_PROGRESS, Deliveries

PAGE = PageRecord(PageRef("segment", 0, 1), 200, 0.0)


def delivery(number: int, *, crawl: str = "c", times: int = 1) -> Delivery:
    request = Request(url=f"https://a.test/{number}")
    return Delivery(crawl, number, request, PAGE, times, "worker", f"0/{number}")


def acknowledged(number: int, *, crawl: str = "c") -> Acknowledgement:
    return Acknowledgement(crawl, number, Done(PAGE))


@dataclass
class FakeBus:
    """Has pages, and records what becomes of them."""

    waiting: list[Delivery] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    extended: list[int] = field(default_factory=list)

    async def deliver(self, *, limit: int, wait: float) -> list[Delivery]:
        await asyncio.sleep(0)
        given, self.waiting = self.waiting[:limit], self.waiting[limit:]
        if not given:
            await asyncio.sleep(wait)
        return given

    async def extend(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        self.extended += [one.fingerprint for one in deliveries]
        return list(deliveries)

    async def done(self, deliveries: Sequence[Delivery]) -> None:
        self.ended += [one.fingerprint for one in deliveries]

    async def release(self, deliveries: Sequence[Delivery]) -> None:
        self.released += [one.fingerprint for one in deliveries]

    async def relay(self) -> None:
        pass

    async def backlog(self) -> BusBacklog:
        return BusBacklog(len(self.waiting), 0)


@pytest.fixture
def bus() -> FakeBus:
    return FakeBus()


async def turns(deliveries: Deliveries, seconds: float = 0.2) -> None:
    """Run the deliveries for a moment."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await deliveries.run()


async def test_each_crawl_gets_its_pages_and_is_notified(bus: FakeBus) -> None:
    arrived: list[str] = []
    deliveries = Deliveries(bus, 60.0, arrived.append)
    bus.waiting = [delivery(1), delivery(2, crawl="d", times=3)]
    await turns(deliveries)
    page = await anext(deliveries.pages_of("d"))

    assert (page.fingerprint, page.strikes, page.consumer) == (2, 2, "worker")
    assert arrived == ["c", "d"]


async def test_a_page_is_taken_off_the_bus_once_the_store_has_recorded_its_end(bus: FakeBus) -> None:
    deliveries = Deliveries(bus, 60.0, lambda _: None)
    bus.waiting = [delivery(1), delivery(2)]
    await turns(deliveries)
    await deliveries.acknowledge([acknowledged(1), acknowledged(9)])  # the bus never delivered 9
    await deliveries.give_back()

    assert (bus.ended, bus.released) == ([1], [2])


async def test_deliveries_in_progress_are_extended(bus: FakeBus) -> None:
    deliveries = Deliveries(bus, 0.01, lambda _: None)
    bus.waiting = [delivery(1)]
    await turns(deliveries, 0.1)

    assert set(bus.extended) == {1}


async def test_the_number_of_pages_in_progress_is_bounded(bus: FakeBus) -> None:
    deliveries = Deliveries(bus, 60.0, lambda _: None)
    bus.waiting = [delivery(number) for number in range(MAX_IN_PROGRESS + 50)]
    await turns(deliveries)

    assert len(bus.waiting) == 50


async def test_pages_of_deleted_crawls_free_their_places(bus: FakeBus) -> None:
    deliveries = Deliveries(bus, 60.0, lambda _: None)
    bus.waiting = [
        *(delivery(number, crawl="gone") for number in range(MAX_IN_PROGRESS)),
        delivery(MAX_IN_PROGRESS),
    ]
    await turns(deliveries)
    assert len(bus.waiting) == 1
    await deliveries.keep_only({"c"})
    assert bus.ended == list(range(MAX_IN_PROGRESS))

    await turns(deliveries)
    assert (await anext(deliveries.pages_of("c"))).fingerprint == MAX_IN_PROGRESS
    await deliveries.give_back()
    assert bus.released == [MAX_IN_PROGRESS]
