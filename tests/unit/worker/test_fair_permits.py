"""Requests of many crawls through one worker: each gets its share, and none waits behind a big one."""

import asyncio
from collections import Counter
from itertools import pairwise

from shoal.worker.fair_permits import LONGEST_BURST, FairPermits, PermitShare


async def send(share: PermitShare, name: str, order: list[str]) -> None:
    async with share:
        order.append(name)
        await asyncio.sleep(0)


async def test_requests_of_a_small_crawl_pass_between_those_of_a_big_one() -> None:
    permits, order = FairPermits(2), list[str]()
    big, small = permits.share(), permits.share()
    async with asyncio.TaskGroup() as group:
        for _ in range(100):
            group.create_task(send(big, "big", order))
        await asyncio.sleep(0)
        for _ in range(10):
            group.create_task(send(small, "small", order))

    assert len(order) == 110
    assert max(index for index, name in enumerate(order) if name == "small") < 30


async def test_a_weight_of_three_gets_three_times_as_much() -> None:
    permits, order = FairPermits(1), list[str]()
    light, heavy = permits.share(), permits.share(3.0)
    async with asyncio.TaskGroup() as group:
        for _ in range(60):
            group.create_task(send(light, "light", order))
            group.create_task(send(heavy, "heavy", order))

    served = Counter(order[:40])
    assert 28 <= served["heavy"] <= 32


async def test_where_many_crawls_wait_each_sends_several_requests_in_a_row() -> None:
    permits, order = FairPermits(1), list[str]()
    async with asyncio.TaskGroup() as group:
        for number in range(40):
            share = permits.share()
            for _ in range(2 * LONGEST_BURST):
                group.create_task(send(share, f"c{number}", order))

    changes = sum(one != other for one, other in pairwise(order))
    assert changes <= len(order) / 4
    for end in range(0, len(order), LONGEST_BURST):  # and none is ahead of another by more than that
        served = Counter(order[:end])
        assert max(served.values(), default=0) - min(served[f"c{n}"] for n in range(40)) <= LONGEST_BURST + 1


async def test_no_more_requests_than_permits_are_sent_at_once() -> None:
    permits, now, most = FairPermits(3), 0, 0

    async def count(share: PermitShare) -> None:
        nonlocal now, most
        async with share:
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.001)
            now -= 1

    async with asyncio.TaskGroup() as group:
        for share in [permits.share() for _ in range(5)]:
            for _ in range(4):
                group.create_task(count(share))
    assert most == 3


async def test_a_cancelled_request_gives_its_permit_back() -> None:
    permits = FairPermits(1)
    share, other = permits.share(), permits.share()
    async with share:
        waiting = asyncio.create_task(send(other, "cancelled", []))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    order = list[str]()
    async with asyncio.timeout(5):
        await send(other, "next", order)
    assert order == ["next"]


async def test_a_crawl_that_was_idle_gets_no_credit_for_it() -> None:
    permits, order = FairPermits(1), list[str]()
    busy, idle = permits.share(), permits.share()
    for _ in range(50):
        await send(busy, "busy", [])
    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(send(busy, "busy", order))
        await asyncio.sleep(0)
        for _ in range(20):
            group.create_task(send(idle, "idle", order))
    assert 3 <= Counter(order[:12])["busy"] <= 9


async def test_a_waiter_that_is_cancelled_while_a_permit_is_released_ends_as_cancelled() -> None:
    """All slots of a crawl are cancelled at once: those that send release what those that wait wanted."""
    permits = FairPermits(1)
    share = permits.share()

    async def hold() -> None:
        async with share:
            await asyncio.sleep(60)

    tasks = [asyncio.create_task(hold()) for _ in range(3)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(end) for end in ends] == [asyncio.CancelledError] * 3
    async with asyncio.timeout(1), share:
        pass
