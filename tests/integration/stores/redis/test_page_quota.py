"""However many workers fetch a crawl, it gets as many pages as it may, and not one more."""

import asyncio
import random

import pytest

from shoal.redis_client import RedisClient
from shoal.stores.redis.page_quota import SharedPageQuota

CRAWL, LIMIT = 3, 100


class Pages:
    """The pages that a crawl has, in shards that are counted one after the other."""

    def __init__(self) -> None:
        self.shards = [0] * 4

    async def count(self) -> int:
        total = 0
        for shard in range(len(self.shards)):
            total += self.shards[shard]
            await asyncio.sleep(0)
        return total


def share(store: RedisClient, worker: str, pages: Pages, *, lease: float = 60.0) -> SharedPageQuota:
    return SharedPageQuota(store, CRAWL, worker=worker, limit=LIMIT, lease=lease, count=pages.count)


async def test_the_shares_of_all_workers_and_the_pages_of_the_crawl_stay_within_the_limit(
    store: RedisClient,
) -> None:
    pages = Pages()
    anna, bert = share(store, "anna", pages), share(store, "bert", pages)

    assert await anna.take(0, 64) == 64
    assert await bert.take(0, 64) == 36
    assert await bert.take(36, 64) == 0
    pages.shards[0] = 10  # of anna's, which has 50 in progress besides and had asked for four too many
    assert await anna.take(50, 0) == 0
    assert await bert.take(36, 64) == 4
    await anna.leave()
    assert await bert.take(40, 64) == 50


async def test_pages_released_during_a_count_are_added_to_it(store: RedisClient) -> None:
    pages = Pages()
    anna, bert = share(store, "anna", pages), share(store, "bert", pages)
    assert await anna.take(0, LIMIT) == LIMIT

    async def counted_too_early() -> int:
        count = await pages.count()
        pages.shards[0] += LIMIT  # all of anna's pages arrive, and she reports it
        assert await anna.take(0, LIMIT) == 0
        return count

    late = SharedPageQuota(store, CRAWL, worker="bert", limit=LIMIT, lease=60.0, count=counted_too_early)
    assert await late.take(0, LIMIT) == 0
    assert await bert.take(0, LIMIT) == 0


async def test_the_share_of_a_dead_worker_is_released_after_its_leases_expire(
    store: RedisClient,
) -> None:
    pages = Pages()
    await share(store, "anna", pages, lease=0.2).take(0, LIMIT)
    bert = share(store, "bert", pages)
    assert await bert.take(0, 10) == 0

    granted = 0
    while not granted:
        await asyncio.sleep(0.05)
        granted = await bert.take(0, 10)

    assert granted == 10


@pytest.mark.parametrize("seed", range(3))
async def test_many_workers_get_the_limit_exactly(store: RedisClient, seed: int) -> None:
    pages, drawn = Pages(), random.Random(seed)

    async def work(name: str) -> None:
        allowance, held = share(store, name, pages), 0
        while sum(pages.shards) < LIMIT:
            granted = await allowance.take(held, drawn.randint(0, 12))
            held += granted
            for _ in range(drawn.randint(0, held)):
                held -= 1
                if drawn.random() < 0.7:  # the others end as no page
                    pages.shards[drawn.randrange(4)] += 1
                await asyncio.sleep(0)
            assert sum(pages.shards) <= LIMIT
        await allowance.leave()

    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(work(f"worker-{number}"))

    assert sum(pages.shards) == LIMIT
