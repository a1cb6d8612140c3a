"""The memory of all large bodies of a process."""

import asyncio
import gc
import random

from shoal.fetch.http.body_memory import BodyMemory
from shoal.model.page import Response


def page() -> Response:
    return Response("http://a.test/", 200, (), b"x", b"x", 0.0, 0.0)


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_what_fits_does_not_wait() -> None:
    memory = BodyMemory(100)
    assert await memory.reserve(60) == 60
    assert await memory.reserve(40) == 40
    assert memory.full


async def test_a_body_above_the_limit_gets_all_of_it_when_it_is_alone() -> None:
    memory = BodyMemory(100)
    assert await memory.reserve(1000) == 100
    memory.release(100)
    assert memory.used == 0


async def test_those_who_wait_are_served_in_order_even_if_a_later_one_would_fit() -> None:
    memory, served = BodyMemory(100), list[str]()

    async def take(name: str, size: int) -> None:
        await memory.reserve(size)
        served.append(name)

    await memory.reserve(90)
    async with asyncio.TaskGroup() as group:
        group.create_task(take("large", 80))
        await turns()
        group.create_task(take("small", 5))
        await turns()
        assert served == []
        memory.release(90)
    assert served == ["large", "small"]
    assert memory.used == 85


async def test_one_that_is_cancelled_leaves_the_queue_or_returns_its_share() -> None:
    memory = BodyMemory(100)
    await memory.reserve(90)
    first, second = (asyncio.create_task(memory.reserve(50)) for _ in range(2))
    await turns()
    first.cancel()
    await turns()
    memory.release(90)
    second.cancel()  # in the same turn as it was granted
    await turns()
    assert (memory.used, first.cancelled(), second.cancelled()) == (0, True, True)


async def test_a_page_counts_until_it_is_dropped() -> None:
    memory, held = BodyMemory(100), page()
    memory.hold(held, 90)
    waiting = asyncio.create_task(memory.reserve(50))
    await turns()
    assert not waiting.done()
    del held
    gc.collect()
    assert await waiting == 50
    assert memory.used == 50


async def test_any_order_of_pages_ends_with_nothing_used_and_never_goes_far_beyond() -> None:
    dice, memory = random.Random(1), BodyMemory(100)

    async def work() -> None:
        for _ in range(20):
            size = dice.randint(1, 120)
            reserved = await memory.reserve(size)
            try:
                await asyncio.sleep(0)
            finally:
                memory.release(reserved)
            held = page()
            memory.hold(held, reserved)
            await asyncio.sleep(0)
            del held

    tasks = [asyncio.create_task(work()) for _ in range(30)]
    await asyncio.sleep(0)
    for task in tasks[::7]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    gc.collect()
    await turns()
    assert memory.used == 0
    assert memory.peak <= 200
