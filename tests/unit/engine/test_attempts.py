"""Slots and attempts: how many requests are in flight, and what becomes of each."""

import asyncio

from tests.unit.engine.leased import lease

from shoal.engine.attempts import PREFETCH, Slots
from shoal.model.outcome import Lease


class Site:
    """Answers when `answer` is set."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.answer = asyncio.Event()

    async def attempt(self, lease: Lease) -> None:
        self.asked.append(lease.fingerprint)
        await self.answer.wait()


async def settled_down() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_no_more_requests_are_in_flight_than_there_are_slots() -> None:
    site = Site()
    async with asyncio.TaskGroup() as group:
        slots = Slots(2, site.attempt, asyncio.Event())
        slots.open(group)
        for number in range(5):
            slots.put(lease(number))
        await settled_down()

        assert (site.asked, slots.active) == ([0, 1], 2)
        assert slots.room == 2 + PREFETCH - 5
        site.answer.set()
        await settled_down()
        assert (site.asked, slots.active) == ([0, 1, 2, 3, 4], 0)
        slots.close()


async def test_closing_returns_unused_leases_and_finishes_the_rest() -> None:
    site = Site()
    async with asyncio.TaskGroup() as group:
        slots = Slots(1, site.attempt, asyncio.Event())
        slots.open(group)
        for number in range(3):
            slots.put(lease(number))
        await settled_down()

        assert [unused.fingerprint for unused in slots.close()] == [1, 2]
        site.answer.set()
    assert site.asked == [0]


async def test_a_slot_asks_for_more_before_the_last_lease_is_started() -> None:
    wake = asyncio.Event()
    asked_before = []

    async def attempt(lease: Lease) -> None:
        asked_before.append(wake.is_set())

    async with asyncio.TaskGroup() as group:
        slots = Slots(1, attempt, wake)
        for number in range(PREFETCH):
            slots.put(lease(number))
        slots.open(group)
        await settled_down()
        slots.close()
    assert len(asked_before) == PREFETCH
    assert not asked_before[0]
    assert asked_before[-1]
