"""Scripts that are cut short: a server does not roll back what one has done, and nothing may be lost by it.

A script is made to fail at each of its calls in turn, as one does whose keys are being moved to another server.
The same step is taken again, as a worker does that has had no answer, and then everything is worked off.
"""

import itertools
import struct
from collections.abc import Awaitable, Callable

import pytest
from tests.contract.clock import ManualClock
from tests.contract.frontiers import BROKEN, TIMEOUT, UNLIMITED, link, page, taken
from tests.contract.redis_frontiers import MANUAL_CLOCK, RedisBench, redis_bench

from shoal.frontier.redis.repair.crawls import repair_crawls
from shoal.frontier.redis.scripts import Scripts
from shoal.frontier.redis.spill import LaneName, Spilling
from shoal.model.outcome import Acknowledgement, Dead, Done, Fetched, Outcome, Released, Retry, Settlement
from shoal.model.pace import Pace
from shoal.redis_client import ScriptFault

CUT_AT = """
local whole, calls = redis, 0
local cut_at = tonumber(whole.call('GET', string.sub(KEYS[1], 1, -3) .. ':cut'))
local redis = setmetatable({}, {__index = whole})
redis.call = function(...)
  calls = calls + 1
  if calls == cut_at then error('cut short') end
  return whole.call(...)
end
"""
LOW = 4  # requests in a lane before a chunk of it is wanted back
SMALLER = {
    "spilled": ("WANTED_BELOW = 1000", f"WANTED_BELOW = {LOW}"),
    "seen": ("SEEN_MEAN = 200", "SEEN_MEAN = 2"),  # a handful of links makes buckets split
}


class CutScripts(Scripts):
    """As they are, but for the clock, for the call at which they end, and for sizes that tests can reach."""

    def fragment(self, name: str) -> str:
        text = super().fragment(name)
        if name in SMALLER:
            usual, small = SMALLER[name]
            assert usual in text
            text = text.replace(usual, small)
        return text


SCRIPTS = CutScripts(clock=CUT_AT + MANUAL_CLOCK)

LINKS = [link(str(number), host=f"{number % 3}.test") for number in range(12)]
MORE = [link(f"more/{number}", host=f"{number % 4}.test", priority=3 + number) for number in range(6)]
TAIL = [link(f"long/{number}", host="0.test", priority=9) for number in range(30)]
LONG = LaneName(1, "http", "0.test")
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
    return await bench.frontier.dead_letters.replay("c")


async def purge(bench: RedisBench) -> object:
    return await bench.frontier.dead_letters.purge("c")


async def stop_a_host(bench: RedisBench) -> object:
    return await bench.frontier.hosts.set("1.test", paused=True, concurrency=2)


async def take_turns(bench: RedisBench) -> object:
    return await bench.frontier.turn("2.test", interval=0.5, leeway=0.1)


async def slow_down(bench: RedisBench) -> object:
    return await bench.frontier.crawls.open("c", pace=Pace(interval=0.5, burst=2, concurrency=3))


async def look(bench: RedisBench) -> object:
    bench.clock.advance(7.0)  # a delay has ended
    return await bench.frontier.reader.counts("c")


def spilling(bench: RedisBench) -> Spilling:
    return Spilling(bench.store, SCRIPTS, high_water=LOW, chunk=5)


async def spill(bench: RedisBench) -> object:
    return await spilling(bench).spill(bench.store.tag(0), LONG)


async def refill(bench: RedisBench) -> object:
    return await spilling(bench).refill(bench.store.tag(0), [pack_lane(LONG)])


def pack_lane(lane: LaneName) -> bytes:
    return struct.pack(">IB", lane.crawl, len(lane.pool)) + lane.pool.encode() + lane.host.encode()


async def prepared(bench: RedisBench) -> None:
    """Have some requests waiting, some leased, one delayed, two pages to be parsed and two dead letters."""
    await bench.frontier.crawls.open("c", pace=UNLIMITED, max_crashes=100)
    await bench.frontier.add("c", LINKS)
    first, second, third, fourth, fifth, *bench.leases = await taken(bench.frontier, 10)
    outcomes: list[Outcome] = [
        Fetched(page(2)),
        Fetched(page(2)),
        Dead(BROKEN, page(3)),
        Dead(TIMEOUT),
        Retry(TIMEOUT, delay=6.0),
    ]
    ended = zip((first, second, third, fourth, fifth), outcomes, strict=True)
    await bench.frontier.settle([Settlement(lease, outcome) for lease, outcome in ended])
    bench.pages = [first.fingerprint, second.fingerprint]


async def prepared_to_spill(bench: RedisBench) -> None:
    """Have a lane that is long, some of it in chunks."""
    await prepared(bench)
    await bench.frontier.add("c", TAIL[:20])
    await spill(bench)
    await bench.frontier.add("c", TAIL[20:])


async def worked_off(bench: RedisBench) -> set[int]:
    """Work off whatever is there; return the fingerprints that have come to an end."""
    done: set[int] = set()
    await bench.frontier.hosts.set("1.test", paused=False)
    for _ in range(20):
        while leases := await taken(bench.frontier, 100, ttl=10.0):
            await bench.frontier.settle([Settlement(lease, Done(page())) for lease in leases])
            done |= {lease.fingerprint for lease in leases}
        bench.clock.advance(100.0)
    done |= {letter.fingerprint async for letter in bench.frontier.reader.dead_letters("c")}
    return done | {found.fingerprint async for found in bench.frontier.parsing("c")}


async def cut_short(bench: RedisBench, step: Step, call: int) -> bool:
    """Take a step whose scripts end at a call; say whether they did not come that far."""
    tag = bench.store.tag(0)
    await bench.store.do(tag, "SET", f"{tag}:cut", call)
    try:
        await step(bench)
        return True
    except ScriptFault:
        return False
    finally:
        await bench.store.do(tag, "DEL", f"{tag}:cut")


async def wrong(bench: RedisBench) -> list[str]:
    """Name what does not add up."""
    counts = await bench.frontier.reader.counts("c")
    problems = [*(await bench.frontier.reader.audit("c")).problems]
    return problems if counts.accepted == sum(counts.by_state().values()) else [*problems, str(counts)]


STEPS = [add, lease, settle, reclaim, extend, acknowledge, replay]


@pytest.mark.parametrize("step", STEPS)
async def test_nothing_is_lost_by_a_script_that_was_cut_short(step: Step) -> None:
    for call in itertools.count(1):
        async with redis_bench("valkey", ManualClock(), scripts=SCRIPTS) as bench:
            await prepared(bench)
            whole = await cut_short(bench, step, call)
            await step(bench)
            await bench.frontier.add("c", [*LINKS, *MORE])  # whatever was not seen yet

            # Of what a step has ended as done, nothing is left but a number.
            ended = await worked_off(bench) | {*bench.pages, bench.leases[0].fingerprint}
            assert {one.fingerprint for one in (*LINKS, *MORE)} == ended, f"cut at call {call}"
            left = (await bench.frontier.reader.audit("c")).counts
            assert left["waiting"] + left["delayed"] + left["leased"] == 0, f"cut at call {call}"
            await repair_crawls(bench.frontier, ["c"])
            assert await wrong(bench) == [], f"cut at call {call}"
        if whole:
            break


@pytest.mark.parametrize(
    "step",
    [*STEPS, purge, stop_a_host, take_turns, slow_down, look, spill, refill],
)
async def test_what_was_cut_short_can_be_put_right(step: Step) -> None:
    """Right after, and nobody takes the step again: all accounts are in order, and stay so to the end."""
    for call in itertools.count(1):
        async with redis_bench("valkey", ManualClock(), scripts=SCRIPTS) as bench:
            await (prepared_to_spill(bench) if step in (spill, refill) else prepared(bench))
            whole = await cut_short(bench, step, call)

            found = await repair_crawls(bench.frontier, ["c"])
            assert await wrong(bench) == [], f"cut at call {call}"
            assert await repair_crawls(bench.frontier, ["c"]) == [], f"cut at call {call}"
            if whole:
                assert found == [], "of a sound store nothing is changed"

            links = [*LINKS, *MORE, *(TAIL if step in (spill, refill) else ())]
            await bench.frontier.add("c", links)  # whatever was not seen yet
            ended = await worked_off(bench) | {*bench.pages, bench.leases[0].fingerprint}
            purged = {one.fingerprint for one in LINKS} if step is purge else set()
            assert {one.fingerprint for one in links} == ended | purged, f"cut at call {call}"
            assert await wrong(bench) == [], f"cut at call {call}"
        if whole:
            break
