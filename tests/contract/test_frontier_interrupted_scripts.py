"""Interrupted scripts: a server does not roll back what a script has done, and nothing may be lost by it.

Each test makes a script fail at each of its calls in turn, as when its keys are moved to another server. It
then repeats the step, as a worker does that got no reply, and finishes all requests.
"""

import itertools
import struct
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from tests.contract.redis_frontiers import MANUAL_CLOCK, RedisBench, redis_bench

from shoal.frontier.redis import keys
from shoal.frontier.redis.repair import repair_crawls
from shoal.frontier.redis.scripts import Scripts
from shoal.frontier.redis.spill import LaneName, Spilling
from shoal.model.generations.page_history import PageHistory, pack_history
from shoal.model.outcome import Acknowledgement, Dead, Done, Fetched, Outcome, Released, Retry, Settlement
from shoal.model.pace import Pace, TurnRequest
from shoal.model.page import Item
from shoal.redis_client import ScriptFault
from shoal.testing.contracts.frontier import BROKEN, TIMEOUT, UNLIMITED, ManualClock, link, page, take

CUT_AT = """
local whole, calls = redis, 0
local cut_at = tonumber(whole.call('GET', string.sub(KEYS[1], 1, -3) .. ':cut'))
local redis = setmetatable({}, {__index = whole})
redis.call = function(...)
  calls = calls + 1
  if calls == cut_at then error('interrupted') end
  return whole.call(...)
end
"""
LOW = 4  # requests left in a lane when its next chunk is loaded
SMALLER = {
    "spilled": ("REFILL_BELOW = 1000", f"REFILL_BELOW = {LOW}"),
    "seen": ("SEEN_MEAN = 200", "SEEN_MEAN = 2"),  # a few links make buckets split
}


class CutScripts(Scripts):
    """The scripts with a manual clock, a call at which they fail, and limits that tests can reach."""

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
TALLY = {"rejected": 2}
HISTORY = pack_history(PageHistory(status=200))
unpack_items = msgspec.msgpack.Decoder(list[Item]).decode
Step = Callable[[RedisBench], Awaitable[object]]


def items(fp: int) -> list[Item]:
    return [Item(f"{fp}", b"{}")]


async def stored_items(bench: RedisBench) -> set[int]:
    """Return the fingerprints of the pages whose items are in the stream."""
    tag, number = bench.store.tag(0), await bench.frontier.reader.number("c")
    entries = await bench.store.do(tag, "XRANGE", keys.items(tag, number), "-", "+")
    return {int(item.key) for _, fields in entries for item in unpack_items(fields[3])}


async def add(bench: RedisBench) -> object:
    return await bench.frontier.add("c", MORE)


async def lease(bench: RedisBench) -> object:
    return await take(bench.frontier, 8)


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
            Settlement(lease, outcome, items=items(lease.fingerprint), tally=TALLY, history=HISTORY)
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
        [
            Acknowledgement("c", fp, outcome, items=items(fp), tally=TALLY, history=HISTORY)
            for fp, outcome in zip(bench.pages, ended, strict=True)
        ]
    )


async def replay(bench: RedisBench) -> object:
    return await bench.frontier.dead_letters.replay("c")


async def purge(bench: RedisBench) -> object:
    return await bench.frontier.dead_letters.purge("c")


async def pause_host(bench: RedisBench) -> object:
    return await bench.frontier.hosts.set("1.test", paused=True, concurrency=2)


async def take_turns(bench: RedisBench) -> object:
    return await bench.frontier.turn(TurnRequest("2.test", 0.5, 0.1, leeway=0.3, ahead=0.2))


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


async def prepare(bench: RedisBench) -> None:
    """Create waiting, leased and delayed requests, two unparsed pages and two dead letters."""
    await bench.frontier.crawls.open("c", pace=UNLIMITED, max_crashes=100)
    await bench.frontier.add("c", LINKS)
    first, second, third, fourth, fifth, *bench.leases = await take(bench.frontier, 10)
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


async def prepare_to_spill(bench: RedisBench) -> None:
    """Create a long lane, part of it in chunks."""
    await prepare(bench)
    await bench.frontier.add("c", TAIL[:20])
    await spill(bench)
    await bench.frontier.add("c", TAIL[20:])


async def finish_all(bench: RedisBench) -> set[int]:
    """Finish all requests; return the fingerprints of those that have ended.

    Hosts that timed out often have slowed down, and then grant one request at a time.
    """
    done: set[int] = set()
    await bench.frontier.hosts.set("1.test", paused=False)
    idle = 0  # times in a row that nothing was granted
    while idle < 20:
        idle += 1
        while leases := await take(bench.frontier, 100, ttl=10.0):
            assert len({lease.fingerprint for lease in leases}) == len(leases), "one request, granted twice"
            await bench.frontier.settle([Settlement(lease, Done(page())) for lease in leases])
            done |= {lease.fingerprint for lease in leases}
            idle = 0
        bench.clock.advance(100.0)
    done |= {letter.fingerprint async for letter in bench.frontier.reader.dead_letters("c")}
    return done | {found.fingerprint async for found in bench.frontier.parsing("c")}


async def interrupt(bench: RedisBench, step: Step, call: int) -> bool:
    """Run a step whose scripts fail at call number `call`; return True if they made fewer calls."""
    tag = bench.store.tag(0)
    await bench.store.do(tag, "SET", f"{tag}:cut", call)
    try:
        await step(bench)
        return True
    except ScriptFault:
        return False
    finally:
        await bench.store.do(tag, "DEL", f"{tag}:cut")


async def find_problems(bench: RedisBench) -> list[str]:
    """Return the problems that an audit finds."""
    counts = await bench.frontier.reader.counts("c")
    problems = [*(await bench.frontier.reader.audit("c")).problems]
    return problems if counts.accepted == sum(counts.by_state().values()) else [*problems, str(counts)]


STEPS = [add, lease, settle, reclaim, extend, acknowledge, replay]


@pytest.mark.parametrize("step", STEPS)
async def test_an_interrupted_script_loses_nothing(step: Step) -> None:
    for call in itertools.count(1):
        async with redis_bench("valkey", ManualClock(), scripts=SCRIPTS) as bench:
            await prepare(bench)
            finished = await interrupt(bench, step, call)
            await step(bench)
            if step in (settle, acknowledge):
                ended = bench.pages if step is acknowledge else [one.fingerprint for one in bench.leases]
                assert await stored_items(bench) == {*ended}, f"interrupted at call {call}"
            await bench.frontier.add("c", [*LINKS, *MORE])  # those that were not seen yet

            # Of requests that are done, only a number is left.
            finished_ones = await finish_all(bench) | {*bench.pages, bench.leases[0].fingerprint}
            assert {one.fingerprint for one in (*LINKS, *MORE)} == finished_ones, (
                f"interrupted at call {call}"
            )
            left = (await bench.frontier.reader.audit("c")).counts
            assert left["waiting"] + left["delayed"] + left["leased"] == 0, f"interrupted at call {call}"
            await repair_crawls(bench.frontier, ["c"])
            assert await find_problems(bench) == [], f"interrupted at call {call}"
        if finished:
            break


@pytest.mark.parametrize(
    "step",
    [*STEPS, purge, pause_host, take_turns, slow_down, look, spill, refill],
)
async def test_the_effects_of_an_interrupted_script_can_be_repaired(step: Step) -> None:
    """The repair comes at once, and the step is not repeated: the audit finds nothing, then or at the end."""
    for call in itertools.count(1):
        async with redis_bench("valkey", ManualClock(), scripts=SCRIPTS) as bench:
            await (prepare_to_spill(bench) if step in (spill, refill) else prepare(bench))
            finished = await interrupt(bench, step, call)

            found = await repair_crawls(bench.frontier, ["c"])
            assert await find_problems(bench) == [], f"interrupted at call {call}"
            assert await repair_crawls(bench.frontier, ["c"]) == [], f"interrupted at call {call}"
            if finished:
                assert found == [], "a repair changes nothing in a consistent store"

            links = [*LINKS, *MORE, *(TAIL if step in (spill, refill) else ())]
            await bench.frontier.add("c", links)  # those that were not seen yet
            ended = await finish_all(bench) | {*bench.pages, bench.leases[0].fingerprint}
            purged = {one.fingerprint for one in LINKS} if step is purge else set()
            assert {one.fingerprint for one in links} == ended | purged, f"interrupted at call {call}"
            assert await find_problems(bench) == [], f"interrupted at call {call}"
        if finished:
            break
