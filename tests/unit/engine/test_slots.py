"""Slots: how many requests are out at once, and what becomes of leases that none has begun."""

import asyncio

from tests.unit.engine.leased import lease

from shoal.engine.slots import PREFETCH, Slots
from shoal.model.outcome import Lease


class Site:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.answer = asyncio.Event()

    async def attempt(self, lease: Lease) -> None:
        self.asked.append(lease.fingerprint)
        await self.answer.wait()


async def settled_down() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_no_more_requests_are_out_than_there_are_slots() -> None:
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


async def test_closing_gives_back_what_was_not_begun_and_lets_the_rest_end() -> None:
    site = Site()
    async with asyncio.TaskGroup() as group:
        slots = Slots(1, site.attempt, asyncio.Event())
        slots.open(group)
        for number in range(3):
            slots.put(lease(number))
        await settled_down()

        assert [unbegun.fingerprint for unbegun in slots.close()] == [1, 2]
        site.answer.set()
    assert site.asked == [0]


async def test_a_slot_asks_for_more_before_the_last_lease_is_begun() -> None:
    hungry = asyncio.Event()
    asked_before = []

    async def attempt(lease: Lease) -> None:
        asked_before.append(hungry.is_set())

    async with asyncio.TaskGroup() as group:
        slots = Slots(1, attempt, hungry)
        for number in range(PREFETCH):
            slots.put(lease(number))
        slots.open(group)
        await settled_down()
        slots.close()
    assert len(asked_before) == PREFETCH
    assert not asked_before[0]
    assert asked_before[-1]
