"""Repair: whatever is wrong in a store is found and put right, also by hand-made damage, also under workers."""

import asyncio
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import pytest
from tests.contract.clock import ManualClock
from tests.contract.frontiers import FLEETS, TIMEOUT, UNLIMITED, link, page, taken
from tests.contract.redis_frontiers import RedisBench, redis_bench
from tests.contract.test_frontier_cut_short import (
    LINKS,
    SCRIPTS,
    TAIL,
    prepared,
    prepared_to_spill,
    worked_off,
    wrong,
)

from shoal.frontier.redis import RedisFrontier, keys
from shoal.frontier.redis.repair.crawls import repair_crawls
from shoal.model.errors import Misconfigured
from shoal.model.outcome import Done, Gone, Outcome, Retry, Settlement
from shoal.model.pace import Pace
from shoal.redis_client import RedisClient, ScriptFault

Damage = Callable[[RedisClient, str], Awaitable[object]]


@pytest.fixture(params=FLEETS)
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[RedisBench]:
    async with redis_bench(request.param, ManualClock(), scripts=SCRIPTS) as opened:
        yield opened


async def forget_the_line(store: RedisClient, tag: str) -> object:
    return await store.do(tag, "DEL", keys.line(tag, 1, "http", suspect=False))


async def jump_the_queue(store: RedisClient, tag: str) -> object:
    return await store.do(tag, "ZADD", keys.line(tag, 1, "http", suspect=False), 1, "1.test")


async def stand_in_line_without_a_lane(store: RedisClient, tag: str) -> object:
    return await store.do(tag, "ZADD", keys.line(tag, 1, "http", suspect=False), 1, "nobody.test")


async def forget_the_hosts(store: RedisClient, tag: str) -> object:
    return await store.do(tag, "DEL", f"{tag}:h")


async def forget_the_deadlines(store: RedisClient, tag: str) -> object:
    return await store.do(tag, "DEL", f"{tag}:lx")


async def forget_the_batches(store: RedisClient, tag: str) -> object:
    tokens = await store.do(tag, "ZRANGE", f"{tag}:lx", 0, -1)
    await store.do(tag, "ZADD", f"{tag}:lx", 1, "17")
    return await store.do(tag, "HDEL", f"{tag}:l:{tokens[0].decode()}", "_")


async def miscount(store: RedisClient, tag: str) -> object:
    await store.do(tag, "HINCRBY", f"{tag}:sm:1", "size", 3)
    return await store.do(
        tag, "HSET", f"{tag}:n:1", "waiting", 99, "leased", -4, "dead.timeout", 7, "done", 5
    )


async def shuffle_a_list(store: RedisClient, tag: str) -> object:
    [last] = await store.do(tag, "RPOP", keys.fresh(tag, 1, "http", "1.test", 5), 1)
    await store.do(tag, "LPUSH", keys.fresh(tag, 1, "http", "1.test", 5), last)
    return await store.do(tag, "RPUSH", keys.fresh(tag, 1, "http", "1.test", 5), b"\0" * 6 + last[6:])


async def forget_the_dates(store: RedisClient, tag: str) -> object:
    await store.do(tag, "DEL", f"{tag}:dz:1")
    return await store.do(tag, "ZADD", f"{tag}:dz:1", 1, b"\0" * 16)


async def forget_what_was_announced(store: RedisClient, tag: str) -> object:
    [first, *_] = await store.do(tag, "XRANGE", keys.pages(tag), "-", "+")
    await store.do(tag, "XDEL", keys.pages(tag), first[0])
    return await store.do(tag, "XADD", keys.pages(tag), "*", "crawl", "c", "fp", b"12345678")


async def suspect_somebody(store: RedisClient, tag: str) -> object:
    return await store.do(tag, "HSET", f"{tag}:su", "w", 1)


@pytest.mark.parametrize(
    "damage",
    [
        forget_the_line,
        jump_the_queue,
        stand_in_line_without_a_lane,
        forget_the_hosts,
        forget_the_deadlines,
        forget_the_batches,
        miscount,
        shuffle_a_list,
        forget_the_dates,
        forget_what_was_announced,
        suspect_somebody,
    ],
)
async def test_damage_is_named_and_put_right(bench: RedisBench, damage: Damage) -> None:
    await prepared(bench)
    counts = await bench.frontier.reader.counts("c")
    assert await repair_crawls(bench.frontier, ["c"]) == []

    await damage(bench.store, bench.store.tag(0))
    assert await repair_crawls(bench.frontier, ["c"])
    assert await wrong(bench) == []
    assert await repair_crawls(bench.frontier, ["c"]) == []
    assert await bench.frontier.reader.counts("c") == counts

    ended = await worked_off(bench) | set(bench.pages)
    assert ended == {one.fingerprint for one in LINKS}
    assert await wrong(bench) == []


async def test_leases_that_end_while_keys_are_looked_at_are_no_damage(bench: RedisBench) -> None:
    await prepared(bench)
    tag = bench.store.tag(0)
    assert await bench.store.run(SCRIPTS.freeze, tag, ["me", 10]) == 1
    assert await bench.store.run(SCRIPTS.mend_leases, tag, ["me", "17"]) == []
    await bench.store.run(SCRIPTS.freeze, tag, ["me", 0])


async def test_a_lane_that_ran_empty_asks_for_its_chunks_again(bench: RedisBench) -> None:
    await prepared_to_spill(bench)
    tag = bench.store.tag(0)
    for band in range(16):
        await bench.store.do(tag, "DEL", keys.fresh(tag, 1, "http", "0.test", band))
    await bench.store.do(tag, "DEL", f"{tag}:rf")
    spilled = sum(int(id.partition(b"-")[0]) for id in await bench.store.do(tag, "HKEYS", f"{tag}:spb:1"))

    lines = await repair_crawls(bench.frontier, ["c"])
    assert any("did not ask for its next chunk" in line for line in lines)
    assert await wrong(bench) == []
    before = len(await worked_off(bench) & {one.fingerprint for one in TAIL})
    assert before == spilled > 0


async def test_a_host_that_was_forgotten_is_not_asked_too_early(bench: RedisBench) -> None:
    await bench.frontier.crawls.open("c", pace=Pace(interval=4.0, burst=2, concurrency=9))
    await bench.frontier.add("c", [link(str(number)) for number in range(9)])
    assert len(await taken(bench.frontier)) == 2
    await forget_the_hosts(bench.store, bench.store.tag(0))
    await repair_crawls(bench.frontier, ["c"])

    assert await taken(bench.frontier) == []
    bench.clock.advance(4.0)
    assert len(await taken(bench.frontier)) == 1


async def advance(bench: RedisBench, seconds: float) -> None:
    """Let time go on for calls, too, that are being made already."""
    bench.clock.advance(seconds)
    await bench.store.do(bench.store.tag(0), "SET", f"{bench.store.tag(0)}:clock", repr(bench.clock()))


async def test_while_a_shard_is_counted_others_wait() -> None:
    async with redis_bench("valkey", ManualClock()) as bench:
        await bench.frontier.crawls.open("c", pace=UNLIMITED)
        tag, scripts = bench.store.tag(0), SCRIPTS
        assert await bench.store.run(scripts.freeze, tag, ["somebody", 10]) == 1
        with pytest.raises(Misconfigured, match="somebody else"):
            await repair_crawls(bench.frontier, ["c"])

        adding = asyncio.create_task(bench.frontier.add("c", [link("1")]))
        await asyncio.sleep(0.2)
        assert not adding.done()
        await advance(bench, 10.0)  # they died over it
        assert (await adding).new == 1
        assert await bench.store.run(scripts.mend_counts, tag, ["somebody", 1, 0, "waiting", 9]) is None
        assert await repair_crawls(bench.frontier, ["c"]) == []


async def test_workers_may_be_at_work_and_scripts_be_cut_short_meanwhile() -> None:
    """Nothing is lost, whoever is cut short and when, those that repair among them."""
    rng = random.Random(7)
    links = [link(str(number), host=f"{number % 6}.test", priority=3 + number % 3) for number in range(400)]
    async with redis_bench("valkey", ManualClock(), scripts=SCRIPTS) as bench:
        await bench.frontier.crawls.open("c", pace=UNLIMITED, max_crashes=200)
        tag, done, stop = bench.store.tag(0), set[int](), asyncio.Event()
        outcomes: list[Outcome] = [Done(page()), Done(page()), Gone(404), Retry(TIMEOUT, delay=1.0)]

        async def work(frontier: RedisFrontier, holder: str) -> None:
            while not stop.is_set():
                with suppress(ScriptFault):
                    await frontier.add("c", rng.sample(links, 20))
                with suppress(ScriptFault):
                    for lease in await taken(frontier, rng.randint(1, 8), holder=holder, ttl=3.0):
                        outcome = rng.choice(outcomes)
                        if not isinstance(outcome, Retry):
                            done.add(lease.fingerprint)
                        await frontier.settle([Settlement(lease, outcome)])

        async def cut() -> None:
            while not stop.is_set():
                await bench.store.do(tag, "SET", f"{tag}:cut", rng.randint(1, 40))
                await asyncio.sleep(0.01)
                await bench.store.do(tag, "DEL", f"{tag}:cut")
                await asyncio.sleep(0.02)
                await advance(bench, 0.5)

        async def repair() -> None:
            for _ in range(25):
                try:
                    with suppress(ScriptFault):
                        await repair_crawls(bench.frontier, ["c"])
                except Misconfigured:  # the one before was cut short as it thawed the shard
                    await advance(bench, 10.0)
            await advance(bench, 10.0)  # the last one may have been
            stop.set()

        workers = []
        for _ in range(3):
            workers.append(await bench.another())
            bench.store.patience = math.inf  # on a busy machine, 25 repairs take as long as they take
            await workers[-1].crawls.open("c")
        async with asyncio.TaskGroup() as group:
            for number, worker in enumerate(workers):
                group.create_task(work(worker, f"w{number}"))
            group.create_task(cut())
            group.create_task(repair())
        await bench.store.do(tag, "DEL", f"{tag}:cut")
        bench.clock.advance(10.0)
        await repair_crawls(bench.frontier, ["c"])
        assert await wrong(bench) == []
        await bench.frontier.add("c", links)
        assert {one.fingerprint for one in links} == await worked_off(bench) | done
        assert await wrong(bench) == []
