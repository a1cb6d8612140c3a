"""Repair: every kind of damage in a store is found and repaired, also while workers run."""

import asyncio
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import pytest
from tests.contract.frontiers import FLEETS, marks_of
from tests.contract.redis_frontiers import RedisBench, redis_bench
from tests.contract.test_frontier_interrupted_scripts import (
    LINKS,
    SCRIPTS,
    TAIL,
    find_problems,
    finish_all,
    prepare,
    prepare_to_spill,
)

from shoal.frontier.redis import RedisFrontier, keys
from shoal.frontier.redis.repair import repair_crawls
from shoal.model.errors import Misconfigured
from shoal.model.outcome import Done, Gone, Outcome, Retry, Settlement
from shoal.model.pace import Pace
from shoal.redis_client import RedisClient, ScriptFault
from shoal.testing.contracts.frontier import TIMEOUT, UNLIMITED, ManualClock, link, page, take

Damage = Callable[[RedisClient, str], Awaitable[object]]


@pytest.fixture(params=[pytest.param(kind, marks=marks_of(kind, topology=False)) for kind in FLEETS])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[RedisBench]:
    async with redis_bench(request.param, ManualClock(), scripts=SCRIPTS) as opened:
        yield opened


async def delete_the_line(store: RedisClient, tag: str) -> object:
    return await store.do(tag, "DEL", keys.schedule(tag, 1, "http", suspect=False))


async def move_a_host_to_the_front(store: RedisClient, tag: str) -> object:
    return await store.do(tag, "ZADD", keys.schedule(tag, 1, "http", suspect=False), 1, "1.test")


async def queue_a_host_without_a_lane(store: RedisClient, tag: str) -> object:
    return await store.do(tag, "ZADD", keys.schedule(tag, 1, "http", suspect=False), 1, "unknown.test")


async def delete_the_hosts(store: RedisClient, tag: str) -> object:
    return await store.do(tag, "DEL", f"{tag}:h")


async def delete_the_deadlines(store: RedisClient, tag: str) -> object:
    return await store.do(tag, "DEL", f"{tag}:lx")


async def damage_the_batches(store: RedisClient, tag: str) -> object:
    tokens = await store.do(tag, "ZRANGE", f"{tag}:lx", 0, -1)
    await store.do(tag, "ZADD", f"{tag}:lx", 1, "17")
    return await store.do(tag, "HDEL", f"{tag}:l:{tokens[0].decode()}", "_")


async def change_the_counters(store: RedisClient, tag: str) -> object:
    await store.do(tag, "HINCRBY", f"{tag}:sm:1", "size", 3)
    return await store.do(
        tag, "HSET", f"{tag}:n:1", "waiting", 99, "leased", -4, "dead.timeout", 7, "done", 5
    )


async def reorder_a_list(store: RedisClient, tag: str) -> object:
    [last] = await store.do(tag, "RPOP", keys.fresh(tag, 1, "http", "1.test", 5), 1)
    await store.do(tag, "LPUSH", keys.fresh(tag, 1, "http", "1.test", 5), last)
    return await store.do(tag, "RPUSH", keys.fresh(tag, 1, "http", "1.test", 5), b"\0" * 6 + last[6:])


async def delete_the_dates(store: RedisClient, tag: str) -> object:
    await store.do(tag, "DEL", f"{tag}:dz:1")
    return await store.do(tag, "ZADD", f"{tag}:dz:1", 1, b"\0" * 16)


async def delete_an_announcement(store: RedisClient, tag: str) -> object:
    [first, *_] = await store.do(tag, "XRANGE", keys.pages(tag), "-", "+")
    await store.do(tag, "XDEL", keys.pages(tag), first[0])
    return await store.do(tag, "XADD", keys.pages(tag), "*", "crawl", "c", "fp", b"12345678")


async def add_a_suspect(store: RedisClient, tag: str) -> object:
    return await store.do(tag, "HSET", f"{tag}:su", "w", 1)


@pytest.mark.parametrize(
    "damage",
    [
        delete_the_line,
        move_a_host_to_the_front,
        queue_a_host_without_a_lane,
        delete_the_hosts,
        delete_the_deadlines,
        damage_the_batches,
        change_the_counters,
        reorder_a_list,
        delete_the_dates,
        delete_an_announcement,
        add_a_suspect,
    ],
)
async def test_damage_is_reported_and_repaired(bench: RedisBench, damage: Damage) -> None:
    await prepare(bench)
    counts = await bench.frontier.reader.counts("c")
    assert await repair_crawls(bench.frontier, ["c"]) == []

    await damage(bench.store, bench.store.tag(0))
    assert await repair_crawls(bench.frontier, ["c"])
    assert await find_problems(bench) == []
    assert await repair_crawls(bench.frontier, ["c"]) == []
    assert await bench.frontier.reader.counts("c") == counts

    ended = await finish_all(bench) | set(bench.pages)
    assert ended == {one.fingerprint for one in LINKS}
    assert await find_problems(bench) == []


async def test_leases_that_end_during_the_scan_are_not_damage(bench: RedisBench) -> None:
    await prepare(bench)
    tag = bench.store.tag(0)
    assert await bench.store.run(SCRIPTS.freeze, tag, ["me", 10]) == 1
    assert await bench.store.run(SCRIPTS.repair_leases, tag, ["me", "17"]) == []
    await bench.store.run(SCRIPTS.freeze, tag, ["me", 0])


async def test_an_empty_lane_requests_its_chunks_again(bench: RedisBench) -> None:
    await prepare_to_spill(bench)
    tag = bench.store.tag(0)
    for band in range(16):
        await bench.store.do(tag, "DEL", keys.fresh(tag, 1, "http", "0.test", band))
    await bench.store.do(tag, "DEL", f"{tag}:rf")
    spilled = sum(int(id.partition(b"-")[0]) for id in await bench.store.do(tag, "HKEYS", f"{tag}:spb:1"))

    lines = await repair_crawls(bench.frontier, ["c"])
    assert any("had not requested its next chunk" in line for line in lines)
    audit = await bench.frontier.reader.audit("c")
    assert audit.lost == (await bench.frontier.reader.counts("c")).lost > 0, "those in the lists"
    assert [line for line in audit.problems if "are lost" not in line] == []
    before = len(await finish_all(bench) & {one.fingerprint for one in TAIL})
    assert before == spilled > 0


async def test_a_host_that_was_deleted_gets_no_request_too_early(bench: RedisBench) -> None:
    await bench.frontier.crawls.open("c", pace=Pace(interval=4.0, burst=2, concurrency=9))
    await bench.frontier.add("c", [link(str(number)) for number in range(9)])
    assert len(await take(bench.frontier)) == 2
    await delete_the_hosts(bench.store, bench.store.tag(0))
    await repair_crawls(bench.frontier, ["c"])

    assert await take(bench.frontier) == []
    bench.clock.advance(4.0)
    assert len(await take(bench.frontier)) == 1


async def advance(bench: RedisBench, seconds: float) -> None:
    """Advance the clock, also for calls that are in progress."""
    bench.clock.advance(seconds)
    await bench.store.do(bench.store.tag(0), "SET", f"{bench.store.tag(0)}:clock", repr(bench.clock()))


async def test_workers_wait_while_a_shard_is_recounted() -> None:
    async with redis_bench("valkey", ManualClock()) as bench:
        await bench.frontier.crawls.open("c", pace=UNLIMITED)
        tag, scripts = bench.store.tag(0), SCRIPTS
        assert await bench.store.run(scripts.freeze, tag, ["another", 10]) == 1
        with pytest.raises(Misconfigured, match="another process"):
            await repair_crawls(bench.frontier, ["c"])

        adding = asyncio.create_task(bench.frontier.add("c", [link("1")]))
        await asyncio.sleep(0.2)
        assert not adding.done()
        await advance(bench, 10.0)  # the process that froze it died
        assert (await adding).new == 1
        assert await bench.store.run(scripts.repair_counts, tag, ["another", 1, 0, "waiting", 9]) is None
        assert await repair_crawls(bench.frontier, ["c"]) == []


async def test_repair_while_workers_run_and_scripts_are_interrupted() -> None:
    """Nothing is lost no matter which script is interrupted, those of the repair included."""
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
                    for lease in await take(frontier, rng.randint(1, 8), holder=holder, ttl=3.0):
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
                except Misconfigured:  # the one before was interrupted while it thawed the shard
                    await advance(bench, 10.0)
            await advance(bench, 10.0)  # the last one may have been interrupted
            stop.set()

        workers = []
        for _ in range(3):
            workers.append(await bench.another())
            bench.store.patience = math.inf  # on a busy machine, 25 repairs take long
            await workers[-1].crawls.open("c")
        async with asyncio.TaskGroup() as group:
            for number, worker in enumerate(workers):
                group.create_task(work(worker, f"w{number}"))
            group.create_task(cut())
            group.create_task(repair())
        await bench.store.do(tag, "DEL", f"{tag}:cut")
        bench.clock.advance(10.0)
        await repair_crawls(bench.frontier, ["c"])
        assert await find_problems(bench) == []
        await bench.frontier.add("c", links)
        assert {one.fingerprint for one in links} == await finish_all(bench) | done
        assert await find_problems(bench) == []
