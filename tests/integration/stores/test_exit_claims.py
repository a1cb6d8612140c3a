"""Workers that divide a list of exits, on a clock of the test: who uses which exit is in the exits' own logs.

Only a shared store has workers; a folder keeps the same record.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.integration.stores.test_exit_records import in_folder, in_redis

from shoal.fetch.exits.exit_pool import ExitPool
from shoal.fetch.exits.shared_health import SharedHealth
from shoal.model.exits.exit import ChosenExit, ExitWish, parse_exit
from shoal.model.page import NotSent, Response
from shoal.model.settings import ProxySettings
from shoal.stores.contract.exits import StoredExits

SIZE_S = 300.0
STEP_S = 0.5
SLOTS = 6
EXITS = [parse_exit(f"http://10.0.0.{n}:1 name=e{n}") for n in range(1, 10)]
SETTINGS = ProxySettings(slice="auto")


@pytest.fixture(params=[in_folder, in_redis], ids=["folder", "redis"])
async def records(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[StoredExits]]:
    async with request.param(tmp_path) as opened:
        yield opened


class World:
    """A clock, and what the exits see: which workers have a request at them."""

    def __init__(self, seed: int) -> None:
        self.now = 1_000_000.0
        self.dice = random.Random(seed)
        self.open: defaultdict[str, list[str]] = defaultdict(list)  # workers by exit
        self.log: defaultdict[str, set[str]] = defaultdict(set)  # workers by exit, ever
        self.shared: list[str] = []
        self.due: list[tuple[float, asyncio.Event]] = []

    async def request(self, via: ChosenExit, worker: str) -> Response:
        here = self.open[via.name]
        if set(here) - {worker}:
            self.shared.append(f"{self.now - 1e6:.1f} s: {via.name} by {worker} and {here}")
        here.append(worker)
        self.log[via.name].add(worker)
        over = asyncio.Event()
        self.due.append((self.now + self.dice.choice((0.2, 1.0, 6.0)), over))
        try:
            await over.wait()
        finally:
            here.remove(worker)
        return Response("http://a.example/", 200, (), b"", b"", 0.0, 0.0, exit=via.name)

    async def step(self) -> None:
        self.now += STEP_S
        for at, over in self.due:
            if at <= self.now:
                over.set()
        self.due = [(at, over) for at, over in self.due if at > self.now]
        await asyncio.sleep(0)


class FakeWorker:
    def __init__(self, name: str, world: World, records: StoredExits) -> None:
        self.name, self.world = name, world
        clock = lambda: world.now  # noqa: E731
        health = SharedHealth(EXITS, records, cool_off=30.0, clock=clock)
        self.pool = ExitPool(EXITS, SETTINGS, worker=name, health=health, clock=clock, divided=True)
        self.running: set[asyncio.Task[None]] = set()
        self.served = self.waited = 0

    async def act(self) -> None:
        await self.pool.health.sync()
        while len(self.running) < SLOTS:
            task = asyncio.create_task(self._fetch(f"h{self.world.dice.randrange(5)}.example"))
            self.running.add(task)
            task.add_done_callback(self.running.discard)

    async def _fetch(self, host: str) -> None:
        async def call(via: ChosenExit) -> Response:
            return await self.world.request(via, self.name)

        found, _ = await self.pool.send(call, host=host, wish=ExitWish())
        if isinstance(found, NotSent):
            self.waited += 1
            await asyncio.sleep(0)
        else:
            self.served += 1

    async def die(self) -> None:
        for task in list(self.running):
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)


async def test_no_exit_is_used_by_two_workers_at_once_while_they_start_die_and_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.fetch.exits.exit_pool.BUSY_WAIT_S", 0.0)
    async with in_redis(tmp_path) as records:
        await start_die_and_return(World(7), records)


async def start_die_and_return(world: World, records: list[StoredExits]) -> None:
    workers: dict[int, FakeWorker] = {}
    ended: list[FakeWorker] = []
    serial = 0
    for number in range(round(SIZE_S / STEP_S)):
        place = world.dice.randrange(4)
        if place not in workers and (number < 20 or world.dice.random() < 0.3):
            serial += 1
            workers[place] = FakeWorker(f"w{serial}", world, records[serial % 2])
        elif place in workers and number > 30 and world.dice.random() < 0.08:
            gone = workers.pop(place)
            ended.append(gone)
            if world.dice.random() < 0.5:
                await gone.die()
            else:  # in good order
                for task in list(gone.running):
                    task.cancel()
                await asyncio.gather(*gone.running, return_exceptions=True)
                await gone.pool.leave()
        for worker in list(workers.values()):
            await worker.act()
            await asyncio.sleep(0)
        await world.step()
    for worker in workers.values():
        await worker.die()
    assert world.shared == []
    assert len(ended) >= 15
    assert set(world.log) == {exit.name for exit in EXITS}
    assert all(len(users) > 1 for users in world.log.values()), "exits change hands"
    assert sum(worker.served for worker in [*workers.values(), *ended]) > 1_000


async def test_a_worker_uses_no_exit_before_its_claim_is_stored(records: list[StoredExits]) -> None:
    world = World(1)
    one, two = FakeWorker("w1", world, records[0]), FakeWorker("w2", world, records[1])
    await one.pool.health.sync()
    await two.pool.health.sync()
    found, _ = await two.pool.send(lambda via: world.request(via, "w2"), host="a.example", wish=ExitWish())
    assert isinstance(found, NotSent), "the first one has all of them, and has not seen this one yet"
    for _ in range(6):
        world.now += 1.0
        await one.pool.health.sync()
        await two.pool.health.sync()
    parts = [pool._claims.usable(world.now) for pool in (one.pool, two.pool) if pool._claims is not None]
    assert sorted(map(len, parts)) == [4, 5]
    assert not parts[0] & parts[1]
    await one.pool.leave()
    world.now += 1.0
    await two.pool.health.sync()
    assert two.pool._claims is not None
    assert len(two.pool._claims.usable(world.now)) == len(EXITS)
