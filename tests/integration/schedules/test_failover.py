"""Three schedulers on a store whose master is killed: each tick once, or recorded as skipped."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

from tests.servers.redis import SentinelSet, sentinels, valkey_program

from shoal.model.configuration.crawl_definition import CrawlDefinition
from shoal.services.schedules.manage import STATE, add_schedule, read_state
from shoal.services.schedules.rules import crawl_of
from shoal.services.schedules.scheduler import CrawlScheduler, Started
from shoal.stores.contract.schedules import Overlap, RunState, Schedule, ScheduledRun
from shoal.stores.open import open_store

START = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
EVERY_S = 600.0
TICKS = 12
FAILOVER_AT, SET_BACK_AT, DEATH_AT = 4, 6, 8  # ticks
SCHEDULE = Schedule(
    name="a",
    crawl=CrawlDefinition(spider="a.py"),
    folder="/",
    every_s=EVERY_S,
    overlap=Overlap.QUEUE,
    created_at=START,
)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


class Crawls:
    """Notes what was started; a crawl ends at once."""

    def __init__(self) -> None:
        self.starts: Counter[str] = Counter()
        self.dying = False

    async def start(self, schedule: Schedule, run: ScheduledRun) -> Started:
        if self.dying:  # its process is killed with the claim in the store
            self.dying = False
            raise asyncio.CancelledError
        self.starts[run.crawl] += 1
        return Started(RunState.DONE)

    async def is_finished(self, crawl: str) -> bool:
        return True

    async def failure(self, crawl: str) -> str:
        return ""

    async def cancel(self, schedule: Schedule, crawl: str) -> None: ...

    async def remove(self, schedule: Schedule, run: ScheduledRun) -> None: ...


async def fail_over(servers: SentinelSet) -> None:
    """Kill the master, and wait until the sentinels name another one."""
    before = await servers.master()
    before.kill()
    async with asyncio.timeout(60):
        while await servers.master() is before:  # noqa: ASYNC110 (another process decides)
            await asyncio.sleep(0.2)


async def test_a_failover_a_death_and_a_clock_set_back_neither_lose_nor_repeat_a_tick(tmp_path: Path) -> None:
    clock, crawls = Clock(), Crawls()
    async with sentinels(tmp_path, valkey_program()) as servers, AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(open_store(servers.dsn, create=True)) for _ in range(3)]
        schedulers = [
            CrawlScheduler(store.schedules, crawls, holder=f"s{number}", clock=clock)
            for number, store in enumerate(stores)
        ]
        await add_schedule(stores[0].schedules, SCHEDULE)

        async def work(scheduler: CrawlScheduler) -> None:
            for schedule, run in await scheduler.claim_due():
                try:
                    await scheduler.launch(schedule, run)
                except asyncio.CancelledError:
                    return

        async def all_work() -> None:
            async with asyncio.timeout(90):
                await asyncio.gather(*map(work, schedulers))

        for tick in range(1, TICKS + 1):
            clock.now = START + tick * EVERY_S + 1
            crawls.dying = tick == DEATH_AT
            working = asyncio.gather(*map(work, schedulers))
            if tick == FAILOVER_AT:
                await fail_over(servers)  # while they work
            async with asyncio.timeout(90):
                await working
            if tick == SET_BACK_AT:
                clock.now -= 3 * EVERY_S
                await all_work()
            await all_work()  # what was queued behind the claim of the dead scheduler, once that has expired
        state = read_state(SCHEDULE, (await stores[0].schedules.all())[STATE + "a"])

    ticks = [START + number * EVERY_S for number in range(1, TICKS + 1)]
    assert [run.tick for run in state.runs] == ticks
    assert {run.state for run in state.runs} == {RunState.DONE}
    assert crawls.starts == {crawl_of(SCHEDULE, tick): 1 for tick in ticks}
