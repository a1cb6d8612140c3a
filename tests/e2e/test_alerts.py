"""What goes wrong in a crawl is named within half a minute, with its stage and its cause, by an alert, by `status` and
on the dashboard, and is over after the repair; in a folder and in a fleet of real processes.

The faults happen to one crawl in turn, with waiting times that are scaled by settings as an operator would. With
`make alert-faults` each of them happens on each kind of store, with the settings as they are.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from tests.e2e.faults import LIMIT_S, ROLES, Fault, World, opened_world

EVERYWHERE = bool(os.environ.get("ALERTS_EVERYWHERE"))
NAMED_S = 30.0
SCALED = {
    "SHOAL_ALERTS_EVERY": "0.5",
    "SHOAL_ALERTS_WINDOW": "6",
    "SHOAL_ALERTS_WAIT": "0.5",
    "SHOAL_ALERTS_CALM": "1",
    "SHOAL_ALERTS_STALLED": "2",
    "SHOAL_PROXY_COOL_OFF": "0.5",
}
FULL = {"SHOAL_ALERTS_WINDOW": "60"}  # after which a trap that was closed is not news any more
FIXED = {
    "SHOAL_ALERTS_MIN_ATTEMPTS": "1000000",  # rates are not what these cases are about
    "SHOAL_LINKS_PER_PATTERN": "300",
}


@asynccontextmanager
async def host_answers_429(world: World) -> AsyncIterator[None]:
    world.tree.status = 429
    yield
    world.tree.status = 200


@asynccontextmanager
async def trap_opens(world: World) -> AsyncIterator[None]:
    world.tree.trap = True
    yield
    world.tree.trap = False


@asynccontextmanager
async def exits_fail(world: World) -> AsyncIterator[None]:
    assert world.proxy is not None
    world.proxy.kill()
    yield
    assert "secret" not in world.log()
    world.proxy.start()


@asynccontextmanager
async def parsing_hangs(world: World) -> AsyncIterator[None]:
    world.hang.touch()
    yield
    world.hang.unlink()


@asynccontextmanager
async def sink_blocks(world: World) -> AsyncIterator[None]:
    blocker = await asyncpg.connect(world.database)
    try:
        async with asyncio.timeout(LIMIT_S):
            while not await blocker.fetchval("SELECT count(*) FROM items"):  # noqa: ASYNC110 (another process)
                await asyncio.sleep(0.2)
        async with blocker.transaction():
            await blocker.execute("LOCK TABLE items IN ACCESS EXCLUSIVE MODE")
            yield
    finally:
        await blocker.close()


@asynccontextmanager
async def parse_workers_die(world: World) -> AsyncIterator[None]:
    world.fleet.kill(world.fleet.workers[ROLES.index("parse")])
    yield
    world.fleet.start("--roles", "parse")


@asynccontextmanager
async def pool_has_no_worker(world: World) -> AsyncIterator[None]:
    world.tree.pool = True
    yield
    world.tree.pool = False
    world.fleet.start("--roles", "fetch", "--pools", "http-eu")


@asynccontextmanager
async def redis_stalls(world: World) -> AsyncIterator[None]:
    assert world.server is not None
    await world.watched()  # of the workers, the one that evaluates posts to the webhook
    world.server.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        world.server.signal(signal.SIGCONT)


FLEET = ("fleet",)
FAULTS = {
    "a host answers 429": Fault(
        "host_throttled", "fetch", (" answers 429", "more workers will not help"), "held", host_answers_429
    ),
    "a trap opens": Fault(
        "trap_closed", "frontier", ("tree has found more than", "/day/", "--follow"), "notice", trap_opens
    ),
    "all exits fail": Fault(
        "exits_down",
        "fetch",
        ("the only exit is down", "shoal proxy list"),
        "stalled",
        exits_fail,
        exits=True,
    ),
    "parsing hangs": Fault(
        "stage_stalled",
        "parse",
        ("wait to be parsed", "does the spider hang?"),
        "stalled" if EVERYWHERE else "held",  # the rate of a stage is a mean of 12 seconds
        parsing_hangs,
    ),
    # In a folder, a database that blocks for ten seconds ends the crawl with a message that names it.
    "the sink blocks": Fault(
        "stage_stalled",
        "sink",
        ("wait to be written", "repair the output"),
        "stalled",
        sink_blocks,
        stores=FLEET,
    ),
    "the parse workers die": Fault(
        "no_worker",
        "parse",
        ("no worker has the role parse", "shoal worker --roles parse"),
        "stalled",
        parse_workers_die,
        stores=FLEET,
    ),
    "a pool has no worker": Fault(
        "no_worker",
        "fetch",
        ("no worker serves the pool http-eu", "shoal worker --pools http-eu"),
        "held",
        pool_has_no_worker,
        stores=FLEET,
    ),
    "Redis stalls": Fault(
        "store_unavailable",
        "store",
        ("no request leaves until it does",),
        "stalled",
        redis_stalls,
        shown_at="frontier",
        shown_words=("the store has not answered",),
        status_words=("has not answered for 10 s",),
        stores=FLEET,
    ),
}
IN_TURN = {
    "folder": ("all exits fail", "parsing hangs", "a trap opens"),
    "fleet": (
        "a host answers 429",
        "the sink blocks",
        "a pool has no worker",
        "Redis stalls",
        "the parse workers die",
    ),
}


RESTARTED = "a pool has no worker"  # during this fault, the server of the dashboard is killed


async def check(world: World, name: str) -> tuple[float, float]:
    """Break something, see it named everywhere, repair it, see it nowhere; return how long both took."""
    fault = FAULTS[name]
    async with fault.broken(world):
        named_s = await world.named(fault)
        if name == RESTARTED:
            world.dashboard.kill()
            world.dashboard.start()
            await world.named(fault)
    normal_s = await world.normal(fault)
    print(f"{name}: named after {named_s:.1f} s, over {normal_s:.1f} s after the repair")
    return named_s, normal_s


@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", IN_TURN)
async def test_faults_in_turn_are_named_everywhere_and_over_after_the_repair(
    store: str, tmp_path: Path
) -> None:
    exits = any(FAULTS[name].exits for name in IN_TURN[store])
    async with opened_world(store, tmp_path, {**FIXED, **SCALED}, exits=exits) as world:
        for name in IN_TURN[store]:
            await check(world, name)


if EVERYWHERE:  # full size: make alert-faults

    @pytest.mark.parametrize(
        ("store", "name"), [(store, name) for name, fault in FAULTS.items() for store in fault.stores]
    )
    async def test_a_fault_is_named_within_half_a_minute(store: str, name: str, tmp_path: Path) -> None:
        async with opened_world(store, tmp_path, {**FIXED, **FULL}, exits=FAULTS[name].exits) as world:
            named_s, _ = await check(world, name)
            assert named_s <= NAMED_S


def test_every_fault_is_part_of_the_quick_run() -> None:
    assert {name for names in IN_TURN.values() for name in names} == set(FAULTS)
