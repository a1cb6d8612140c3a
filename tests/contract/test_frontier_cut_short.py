"""Scripts that are cut short: a server does not roll back what one has done, and nothing may be lost by it.

A script is made to fail at each of its calls in turn, as one does whose keys are being moved to another server.
The same step is taken again, as a worker does that has had no answer, and then everything is worked off.
"""

import itertools
from collections.abc import Awaitable, Callable

import pytest
from tests.contract.clock import ManualClock
from tests.contract.frontiers import BROKEN, TIMEOUT, UNLIMITED, link, page, taken
from tests.contract.redis_frontiers import MANUAL_CLOCK, RedisBench, redis_bench

from shoal.frontier.redis.scripts import Scripts
from shoal.model.outcome import Acknowledgement, Dead, Done, Fetched, Outcome, Released, Retry, Settlement
from shoal.stores.redis import ScriptFault

SCRIPTS = Scripts(
    clock="""
local whole, calls = redis, 0
local cut_at = tonumber(whole.call('GET', string.sub(KEYS[1], 1, -3) .. ':cut'))
local redis = setmetatable({}, {__index = whole})
redis.call = function(...)
  calls = calls + 1
  if calls == cut_at then error('cut short') end
  return whole.call(...)
end
"""
    + MANUAL_CLOCK
)

LINKS = [link(str(number), host=f"{number % 3}.test") for number in range(12)]
MORE = [link(f"more/{number}", host=f"{number % 4}.test", priority=3 + number) for number in range(6)]
Step = Callable[[RedisBench], Awaitable[object]]


async def add(bench: RedisBench) -> object:
    return await bench.frontier.add("c", MORE)


async def lease(bench: RedisBench) -> object:
    return await taken(bench.frontier, 8)


async def settle(bench: RedisBench) -> object:
    outcomes: list[Outcome] = [
        Done(page(1)),
        Retry(TIMEOUT, delay=0.0),
        Retry(TIMEOUT, delay=5.0),
        Fetched(page(2)),
        Dead(BROKEN, page(3)),
        Released(),
    ]
    return await bench.frontier.settle(
        [
            Settlement(lease, outcome)
            for lease, outcome in zip(bench.leases, itertools.cycle(outcomes), strict=False)
        ]
    )


async def reclaim(bench: RedisBench) -> object:
    bench.clock.advance(100.0)
    return await bench.frontier.reclaim()


async def extend(bench: RedisBench) -> object:
    return await bench.frontier.extend(bench.leases[:3], 500.0)


async def acknowledge(bench: RedisBench) -> object:
    ended: list[Done | Dead] = [Done(page(2)), Dead(BROKEN)]
    return await bench.frontier.acknowledge(
        [Acknowledgement("c", fp, outcome) for fp, outcome in zip(bench.pages, ended, strict=True)]
    )


async def replay(bench: RedisBench) -> object:
    return await bench.frontier.replay("c")


async def prepared(bench: RedisBench) -> None:
    """Have some requests waiting, some leased, two pages to be parsed and two dead letters."""
    await bench.frontier.open_crawl("c", pace=UNLIMITED, max_crashes=100)
    await bench.frontier.add("c", LINKS)
    first, second, third, fourth, *bench.leases = await taken(bench.frontier, 10)
    outcomes: list[Outcome] = [Fetched(page(2)), Fetched(page(2)), Dead(BROKEN, page(3)), Dead(TIMEOUT)]
    ended = zip((first, second, third, fourth), outcomes, strict=True)
    await bench.frontier.settle([Settlement(lease, outcome) for lease, outcome in ended])
    bench.pages = [first.fingerprint, second.fingerprint]


async def worked_off(bench: RedisBench) -> set[int]:
    """Work off whatever is there; return the fingerprints that have come to an end."""
    done: set[int] = set()
    for _ in range(20):
        for lease in await taken(bench.frontier, 100, ttl=10.0):
            await bench.frontier.settle([Settlement(lease, Done(page()))])
            done.add(lease.fingerprint)
        bench.clock.advance(100.0)
    done |= {letter.fingerprint async for letter in bench.frontier.dead_letters("c")}
    return done | {found.fingerprint async for found in bench.frontier.parsing("c")}


@pytest.mark.parametrize("step", [add, lease, settle, reclaim, extend, acknowledge, replay])
async def test_nothing_is_lost_by_a_script_that_was_cut_short(step: Step) -> None:
    for call in itertools.count(1):
        async with redis_bench("valkey", ManualClock(), scripts=SCRIPTS) as bench:
            await prepared(bench)
            tag = bench.store.tag(0)
            await bench.store.do(tag, "SET", f"{tag}:cut", call)
            try:
                await step(bench)
                whole = True
            except ScriptFault:
                whole = False
            await bench.store.do(tag, "DEL", f"{tag}:cut")
            await step(bench)
            await bench.frontier.add("c", [*LINKS, *MORE])  # whatever was not seen yet

            # Of what a step has ended as done, nothing is left but a number.
            ended = await worked_off(bench) | {*bench.pages, bench.leases[0].fingerprint}
            assert {one.fingerprint for one in (*LINKS, *MORE)} == ended, f"cut at call {call}"
            left = (await bench.frontier.audit("c")).counts
            assert left["waiting"] + left["delayed"] + left["leased"] == 0, f"cut at call {call}"
        if whole:
            break
