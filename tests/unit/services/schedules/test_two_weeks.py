"""Two simulated weeks in a folder and in a fleet: sites that are down, schedulers that die, disks that are full.

Every tick is a run, a failure that was recorded with an alert, or was skipped by policy, with an alert unless the policy
is about runs that overlap. What the runs leave is bounded by `keep`. `make schedules` runs it with 20 schedules and several
seeds; `make test` with a few.
"""

import os
import random
from collections import defaultdict
from contextlib import suppress

import msgspec
import pytest
from tests.unit.services.schedules.test_rules import START, Clock, Killed, Records, expected_ticks, schedule

from shoal.model.alert import Alert, AlertBook, AlertKind
from shoal.model.errors import ShoalError, Unavailable
from shoal.model.settings import AlertSettings
from shoal.services.alerts.evaluate import apply_conditions
from shoal.services.schedules.conditions import schedule_alerts
from shoal.services.schedules.manage import STATE, add_schedule, read_state
from shoal.services.schedules.rules import MISSED, removable
from shoal.services.schedules.scheduler import CrawlScheduler, Started
from shoal.stores.contract.schedules import Missed, Overlap, RunState, Schedule, ScheduledRun

FULL_SIZE = bool(os.environ.get("SCHEDULES"))
NUMBER = 20 if FULL_SIZE else 4
SEEDS = 10 if FULL_SIZE else 1
DAYS = 14
SLOW = pytest.mark.slow("20 schedules over 14 days") if FULL_SIZE else pytest.mark.filterwarnings()


class Disk:
    """The disk that the store and the outputs share."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, float], int] = {}
        self.is_full = False


class StoredOnDisk(Records):
    def __init__(self, disk: Disk) -> None:
        super().__init__()
        self.disk = disk

    async def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        if self.disk.is_full and after is not None and len(after) > len(before or b""):
            raise Unavailable("the disk is full")
        return await super().swap(key, before, after)


class Machines:
    """Starts runs. In a folder one is done at its end; in a fleet workers finish it later."""

    def __init__(self, clock: Clock, disk: Disk, chance: random.Random, *, shared: bool) -> None:
        self.clock, self.disk, self.chance, self.shared = clock, disk, chance, shared
        self.dying = True
        self.until: dict[str, float] = {}
        self.failing: dict[str, str] = {}

    async def start(self, one: Schedule, run: ScheduledRun) -> Started:
        dice = self.chance.random() if self.dying else 1.0
        if dice < 0.03:
            raise Killed
        if dice < 0.06:
            return Started(None, "the store does not answer")
        self.disk.files[one.name, run.tick] = 1
        if self.disk.is_full:
            return Started(RunState.FAILED, "shoal: No space left on device: make room")
        why = "shoal: not one page was fetched" if dice < 0.2 else ""
        if dice > 0.95 and self.dying:
            raise Killed  # after the crawl has begun
        if not self.shared:
            return Started(RunState.FAILED if why else RunState.DONE, why)
        self.until[run.crawl] = self.clock.now + self.chance.uniform(0, 5400)
        self.failing[run.crawl] = why
        return Started(RunState.RUNNING)

    async def is_finished(self, crawl: str) -> bool:
        return self.clock.now >= self.until.get(crawl, 0.0)

    async def failure(self, crawl: str) -> str:
        return self.failing.get(crawl, "")

    async def cancel(self, one: Schedule, crawl: str) -> None:
        self.until[crawl] = 0.0

    async def remove(self, one: Schedule, run: ScheduledRun) -> None:
        if self.dying and self.chance.random() < 0.1:
            raise Unavailable("another crawl owns the folder")
        self.disk.files.pop((one.name, run.tick), None)


@SLOW
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("shared", [False, True], ids=["folder", "fleet"])
async def test_each_tick_of_two_weeks_is_a_run_or_a_failure_with_an_alert_and_the_disk_is_bounded(
    shared: bool, seed: int
) -> None:
    chance, clock, disk = random.Random(seed), Clock(START), Disk()
    records, machines = StoredOnDisk(disk), Machines(clock, disk, chance, shared=shared)
    schedules = [any_schedule(chance, number) for number in range(NUMBER)]
    for one in schedules:
        await add_schedule(records, one)
    scheduler = CrawlScheduler(records, machines, holder="s", clock=clock)
    book, alerts = AlertBook(), AlertSettings()
    runs: dict[str, dict[float, ScheduledRun]] = defaultdict(dict)
    told: set[tuple[str, float]] = set()  # failed and missed ticks that an active alert was about
    most = 0

    async def step() -> None:
        nonlocal scheduler, book, most
        try:
            for one, run in await scheduler.claim_due():
                with suppress(ShoalError):  # as in `CrawlScheduler.run`: the claim expires
                    await scheduler.launch(one, run)
            await scheduler.remove_old()
        except* Killed:
            scheduler = CrawlScheduler(records, machines, holder=f"s{chance.random()}", clock=clock)
        except* ShoalError:
            pass
        found = [*schedule_alerts(records.found, clock.now)]
        book = apply_conditions(found, alerts, book, clock.now).book
        active = {alert.key for alert in book.active}
        for one in schedules:
            if (packed := records.found.get(STATE + one.name)) is None:
                continue
            state = read_state(one, packed)
            for run in state.runs:
                runs[one.name][run.tick] = run
                kind = AlertKind.SCHEDULE_MISSED if run.why == MISSED else AlertKind.SCHEDULE_FAILED
                failed = run.state is RunState.FAILED or run.why == MISSED
                if failed and (kind, one.name) in active and clock.now >= run.at:
                    told.add((one.name, run.tick))
        most = max(most, len(disk.files))

    end = START + DAYS * 86_400
    while clock.now < end:
        disk.is_full = (clock.now - START) % (5 * 86_400) > 4.8 * 86_400  # five hours in five days
        await step()
        down = chance.random() < 0.004  # no scheduler for some hours
        clock.now += chance.uniform(7200, 36_000) if down else chance.uniform(60, 900)
    machines.dying = disk.is_full = False
    for _ in range(20):
        clock.now += 600
        await step()

    counted: dict[str, int] = defaultdict(int)
    for one in schedules:
        for tick in (tick for tick in expected_ticks(one, end) if tick <= clock.now):
            run = runs[one.name][tick]
            counted[run.why if run.state is RunState.SKIPPED else run.state.value] += 1
            if run.state is RunState.FAILED or run.why == MISSED:
                assert (one.name, tick) in told, run
            else:
                assert run.state is RunState.DONE or run.why in ("overlap", "another tick is queued"), run
        state = read_state(one, records.found[STATE + one.name])
        assert removable(one, state) == []
        kept = [tick for name, tick in disk.files if name == one.name]
        assert len(kept) <= 2 * one.keep + 1
    assert min(counted[what] for what in ("done", "failed", MISSED)) > 0
    # What could not be removed at once, with schedulers that were down and a disk that was full, is bounded as well.
    assert most <= sum(2 * one.keep + 1 for one in schedules) + 200
    print(f"{NUMBER} schedules, {DAYS} days, {dict(counted)}; {most} runs on disk at most")


def any_schedule(chance: random.Random, number: int) -> Schedule:
    options = {
        "missed": list(Missed)[number % 3],
        "overlap": chance.choice([Overlap.SKIP, Overlap.QUEUE]),
        "keep": chance.choice([1, 3, 7]),
        "again": chance.random() < 0.5,
    }
    if number % 2:
        return schedule(f"s{number}", every_s=float(chance.choice([1800, 3600, 21_600])), **options)
    return schedule(f"s{number}", cron=chance.choice(["30 2 * * *", "0 * * * *", "15 */6 * * *"]), **options)


def records_of(state: RunState, *, tick: float, at: float, why: str = "") -> dict[str, bytes]:
    one = schedule("a", every_s=3600.0)
    run = {"tick": tick, "state": state.value, "crawl": "a", "why": why, "at": at}
    packed = msgspec.msgpack.encode({"cursor": tick, "runs": [run]})
    return {"s/a": msgspec.msgpack.encode(one), "t/a": packed}


def alert_of(records: dict[str, bytes], now: float) -> list[tuple[str, str]]:
    found: list[Alert] = [*schedule_alerts(records, now)]
    return [(alert.kind.value, alert.cause) for alert in found]


def test_a_run_that_cannot_start_for_long_is_reported_with_the_reason() -> None:
    records = records_of(RunState.STARTING, tick=START + 3600, at=START + 3610, why="shoal: d is in use")
    assert alert_of(records, START + 3700) == []
    [(kind, cause)] = alert_of(records, START + 3610 + 600)
    assert (kind, cause) == (
        "schedule_failed",
        "the run of a at 20261019T010000Z has tried to start for 10m 00s: d is in use",
    )


def test_a_record_that_cannot_be_used_is_reported() -> None:
    [(kind, cause)] = alert_of({"s/a": b"\xc1"}, START)
    assert (kind, cause.partition(":")[0]) == (
        "schedule_failed",
        "the schedule a cannot be used, and starts no crawl",
    )
