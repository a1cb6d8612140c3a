"""Schedules over simulated weeks: each tick once, or recorded as skipped by policy.

`make schedules` runs 500 of them; `make test` a few.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from shoal.model.configuration.crawl_definition import CrawlDefinition
from shoal.model.errors import Misconfigured
from shoal.services.schedules.manage import (
    STATE,
    add_schedule,
    list_schedules,
    pause_schedule,
    read_state,
    remove_schedule,
)
from shoal.services.schedules.rules import (
    CLAIM_S,
    KEPT_RUNS,
    check_new,
    check_schedule,
    crawl_of,
    decide,
    delay_of,
    ended,
    removable,
    ticks_after,
    with_removed,
)
from shoal.services.schedules.scheduler import CrawlScheduler, Started
from shoal.stores.contract.schedules import Missed, Overlap, RunState, Schedule, ScheduledRun, ScheduleState

NUMBER = int(os.environ.get("SCHEDULES", "12"))
KILL_CHANCE = 0.6 / NUMBER  # per start: with more schedules, a scheduler lives for as many more starts
WEEKS = int(os.environ.get("SCHEDULE_WEEKS", "2"))
START = datetime(2026, 10, 19, tzinfo=UTC).timestamp()
# Weeks in which clocks change: back in Europe and in New York; forward in Europe, half an hour back on Lord Howe.
FIXED = CrawlDefinition(spider="a.py", outputs=("a.csv",))
AUTUMN, SPRING = START, datetime(2027, 3, 22, tzinfo=UTC).timestamp()


def schedule(name: str = "a", **options: object) -> Schedule:
    values = {"crawl": CrawlDefinition(spider="a.py"), "folder": "/", "created_at": START, **options}
    return msgspec.convert({"name": name, **values}, Schedule)


class Records:
    """Records in memory that are swapped as the stores do."""

    def __init__(self) -> None:
        self.found: dict[str, bytes] = {}

    async def all(self) -> Mapping[str, bytes]:
        return dict(self.found)

    async def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        await asyncio.sleep(0)
        if self.found.get(key) != before:
            return False
        if after is None:
            del self.found[key]
        else:
            self.found[key] = after
        return True


class Killed(BaseException):
    """The process of a scheduler ends here."""


class Crawls:
    """Crawls of a fleet: started ones take a while. Some schedulers are killed before or after a start."""

    def __init__(self, clock: "Clock", seed: int) -> None:
        self.clock = clock
        self.random = random.Random(seed)
        self.kills = True
        self.killed = 0  # schedulers
        self.starts: Counter[str] = Counter()
        self.until: dict[str, float] = {}

    async def start(self, schedule: Schedule, run: ScheduledRun) -> Started:
        self._die()
        await asyncio.sleep(0)
        self.starts[run.crawl] += 1
        self.until.setdefault(run.crawl, self.clock.now + self.random.uniform(0, 600))
        self._die()
        return Started(RunState.RUNNING)

    async def is_finished(self, crawl: str) -> bool:
        return self.clock.now >= self.until.get(crawl, 0.0)

    async def cancel(self, schedule: Schedule, crawl: str) -> None:
        self.until[crawl] = 0.0

    async def failure(self, crawl: str) -> str:
        return ""

    async def remove(self, schedule: Schedule, run: ScheduledRun) -> None:
        pass

    def _die(self) -> None:
        if self.kills and self.random.random() < KILL_CHANCE:
            raise Killed


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("start", [AUTUMN, SPRING], ids=["autumn", "spring"])
async def test_every_tick_happens_once_or_is_recorded_as_skipped(start: float) -> None:
    seed = 1
    chance, clock, records = random.Random(seed), Clock(start), Records()
    crawls = Crawls(clock, seed)
    schedules = [any_schedule(chance, number, start) for number in range(NUMBER)]
    for one in schedules:
        await add_schedule(records, one)
    schedulers = [CrawlScheduler(records, crawls, holder=f"s{n}", clock=clock) for n in range(3)]
    decided: dict[str, dict[float, str]] = {one.name: {} for one in schedules}
    noted: dict[str, bytes] = {}  # states of which `decided` has every run
    end = start + timedelta(weeks=WEEKS).total_seconds()

    async def work(number: int) -> None:
        try:
            for one, run in await schedulers[number].claim_due():
                await schedulers[number].launch(one, run)
        except* Killed:
            crawls.killed += 1
            schedulers[number] = CrawlScheduler(
                records, crawls, holder=f"s{number}-{chance.random()}", clock=clock
            )

    async def round_of_all() -> None:
        await asyncio.gather(*(work(number) for number in range(3)))
        for one in schedules:
            state = records.found.get(STATE + one.name, b"")
            if state and noted.get(one.name) != state:
                noted[one.name] = state
                for run in read_state(one, state).runs:
                    decided[one.name][run.tick] = run.state.value

    while clock.now < end:
        await round_of_all()
        if chance.random() < 0.02:
            clock.now -= chance.uniform(0, 7200)  # the clock is set back
        clock.now += chance.uniform(60, 900) if chance.random() < 0.97 else chance.uniform(3600, 20_000)
    crawls.kills = False
    for _ in range(10):  # what was claimed by schedulers that are dead, and what was queued behind it
        clock.now += 900
        await round_of_all()

    for one in schedules:
        ticks = expected_ticks(one, end)
        assert [tick for tick in sorted(decided[one.name]) if tick <= end] == ticks, one
        started = {tick for tick in ticks if crawls.starts[crawl_of(one, tick)]}
        skipped = {tick for tick in ticks if decided[one.name][tick] == "skipped"}
        # A later tick may replace one whose scheduler was killed before it had started the crawl.
        replaced = {tick for tick in ticks if decided[one.name][tick] == "replaced"}
        assert started | skipped | replaced == set(ticks)
        assert not started & skipped
    assert crawls.killed
    ticks_of_all = sum(map(len, decided.values()))
    print(
        f"{NUMBER} schedules, {ticks_of_all:,} ticks, {sum(crawls.starts.values()):,} starts, {crawls.killed} kills"
    )


def any_schedule(chance: random.Random, number: int, start: float) -> Schedule:
    """Return one of many kinds; some in zones whose clocks change during the test."""
    options: dict[str, object] = {
        "overlap": chance.choice(list(Overlap)),
        "missed": chance.choice(list(Missed)),
        "jitter_s": chance.choice([0.0, 300.0]),
        "created_at": start,
    }
    if chance.random() < 0.4:
        return schedule(f"s{number}", every_s=float(chance.choice([1800, 3600, 7000])), **options)
    cron = chance.choice(["30 2 * * *", "0 * * * *", "15 1,2,3 * * *", "*/30 * * * *", "0 3 * * 0"])
    zone = chance.choice(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
    return schedule(f"s{number}", cron=cron, timezone=zone, **options)


def expected_ticks(one: Schedule, end: float) -> list[float]:
    ticks: list[float] = []
    for tick in ticks_after(one, one.created_at):
        if tick > end:
            return ticks
        ticks.append(tick)
    return ticks


@pytest.mark.parametrize(
    ("day", "cron", "expected"),
    [
        # The hour from 2 to 3 does not exist: what falls into it happens right after.
        ((2026, 3, 29), "30 2 * * *", ["03:00+0200"]),
        # It exists twice: a daily tick happens once.
        ((2026, 10, 25), "30 2 * * *", ["02:30+0200"]),
        ((2026, 10, 25), "0 1,4 * * *", ["01:00+0200", "04:00+0100"]),
    ],
)
def test_daylight_saving_neither_loses_nor_doubles_a_daily_tick(
    day: tuple[int, int, int], cron: str, expected: list[str]
) -> None:
    zone = ZoneInfo("Europe/Berlin")
    midnight = datetime(*day, tzinfo=zone)
    one = schedule(cron=cron, timezone="Europe/Berlin")
    found = []
    for tick in ticks_after(one, midnight.timestamp()):
        moment = datetime.fromtimestamp(tick, zone)
        if moment.date() != midnight.date():
            break
        found.append(f"{moment:%H:%M%z}")
    assert found == expected


def states(one: Schedule, now: float, *, finished: bool = False) -> list[tuple[str, str]]:
    decision = decide(one, None, now, holder="h", is_finished=lambda _: finished)
    return [(run.state.value, run.why) for run in decision.state.runs]


def test_missed_ticks_follow_the_policy() -> None:
    late = START + 3 * 3600 + 1800
    hourly = {"cron": "0 * * * *", "overlap": "queue"}

    assert states(schedule(missed="one", **hourly), late) == [
        ("skipped", "missed"),
        ("skipped", "missed"),
        ("starting", ""),
    ]
    assert states(schedule(missed="skip", **hourly), late) == [("skipped", "missed")] * 3
    assert states(schedule(missed="all", **hourly), late) == [
        ("starting", ""),
        ("queued", ""),
        ("skipped", "another tick is queued"),
    ]


def test_an_overlap_follows_the_policy() -> None:
    for overlap, before, after in (
        ("skip", "running", "skipped"),
        ("queue", "running", "queued"),
        ("replace", "replaced", "starting"),
    ):
        one = schedule(cron="0 * * * *", overlap=overlap)
        first = decide(one, None, START + 3600, holder="h", is_finished=lambda _: False)
        run = msgspec.structs.replace(first.state.runs[0], state=RunState.RUNNING)
        state = msgspec.structs.replace(first.state, runs=(run,))
        second = decide(one, state, START + 7200, holder="h", is_finished=lambda _: False)
        assert [run.state.value for run in second.state.runs] == [before, after]
        assert second.cancel == ((run.crawl,) if overlap == "replace" else ())


def test_only_the_latest_runs_that_have_ended_are_kept() -> None:
    one, state = schedule(cron="0 * * * *"), None
    for hour in range(1, KEPT_RUNS + 10):
        state = decide(one, state, START + hour * 3600, holder="h", is_finished=lambda _: False).state
        state = ended(one, state, state.runs[-1].tick, to=RunState.DONE, now=START)

    assert state is not None
    assert [run.tick for run in state.runs] == [START + hour * 3600 for hour in range(10, KEPT_RUNS + 10)]


def test_a_claim_that_expired_is_started_again_and_one_that_holds_is_not() -> None:
    one = schedule(cron="0 * * * *")
    first = decide(one, None, START + 3600, holder="dead", is_finished=lambda _: False)
    soon = decide(one, first.state, START + 3610, holder="other", is_finished=lambda _: False)
    later = decide(one, first.state, START + 3600 + CLAIM_S, holder="other", is_finished=lambda _: False)

    assert (soon.start, soon.state) == ((), first.state)
    assert [(run.crawl, run.holder) for run in later.start] == [(first.start[0].crawl, "other")]


def test_jitter_is_the_same_for_every_scheduler_and_within_its_bounds() -> None:
    one = schedule(cron="0 * * * *", jitter_s=600.0)
    delays = [delay_of(one, START + 3600 * n) for n in range(200)]

    assert delays == [delay_of(one, START + 3600 * n) for n in range(200)]
    assert 0 <= min(delays) < 60
    assert 540 < max(delays) < 600


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "either --cron or --every"),
        ({"cron": "* * * * *", "every_s": 5.0}, "either --cron or --every"),
        ({"cron": "61 * * * *"}, "--cron '61 \\* \\* \\* \\*': Bad minute"),
        ({"cron": "* * * * *", "timezone": "Mars/Base"}, "not a time zone"),
        ({"every_s": 0.1}, "at least one second"),
        ({"cron": "0 0 3 * * *"}, "has 6 fields, and a schedule has five: minute hour day month weekday"),
        ({"every_s": 5.0, "keep": -1}, "--keep: from 0"),
        ({"every_s": 5.0, "again": True, "crawl": FIXED}, ""),
        (
            {"every_s": 5.0, "crawl": FIXED},
            "the second would find the file of the first: name it a-{tick}.csv",
        ),
    ],
)
def test_a_schedule_that_cannot_work_is_refused(options: dict[str, Any], text: str) -> None:
    if not text:
        check_new(schedule(**options))
        return
    with pytest.raises(Misconfigured, match=text):
        check_new(schedule(**options))


def test_a_stored_schedule_with_seconds_still_runs() -> None:
    check_schedule(schedule(cron="0 0 3 * * *"))


def test_the_ticks_of_a_pause_are_skipped_as_such() -> None:
    one = schedule(cron="0 * * * *", missed="skip", resumed_at=START + 2.5 * 3600)
    assert states(one, START + 3.5 * 3600) == [
        ("skipped", "paused"),
        ("skipped", "paused"),
        ("skipped", "missed"),
    ]


def test_old_runs_are_removed_and_no_number_of_failures_removes_the_last_good_ones() -> None:
    one = schedule(cron="0 * * * *", keep=2)
    ends = [RunState.DONE] * 4 + [RunState.FAILED] * 60 + [RunState.SKIPPED] * 60
    runs = [ScheduledRun(tick=float(tick), state=state) for tick, state in enumerate(ends)]
    state = ScheduleState(cursor=0.0, runs=tuple(runs))
    old = [run.tick for run in removable(one, state)]
    assert old == [0.0, 1.0, *map(float, range(4, 62))]
    for tick in old:
        state = with_removed(state, tick)
    assert removable(one, state) == []
    later = decide(one, state, START + 3600, holder="h", is_finished=lambda _: False).state
    assert {run.tick for run in later.runs} >= {2.0, 3.0, 62.0, 63.0}
    assert len(later.runs) < KEPT_RUNS + 10
    assert removable(schedule(cron="0 * * * *"), state) == []


async def test_schedules_are_added_once_paused_and_removed() -> None:
    records = Records()
    await add_schedule(records, schedule("news", cron="0 * * * *"))
    with pytest.raises(Misconfigured, match="there is a schedule 'news' already"):
        await add_schedule(records, schedule("news", cron="0 * * * *"))
    [listed] = await list_schedules(records, START)
    assert listed.next_at == START + 3600
    await pause_schedule(records, "news", paused=True, now=START)
    [listed] = await list_schedules(records, START)
    assert (listed.schedule.paused, listed.next_at) == (True, None)
    with pytest.raises(Misconfigured, match="no schedule is called 'newz'; did you mean news"):
        await remove_schedule(records, "newz")
    await remove_schedule(records, "news")
    assert records.found == {}


@pytest.mark.parametrize(
    "record",
    [
        b"\xc1",
        msgspec.msgpack.encode({"name": "bad", "arguments": [], "folder": "", "every_s": float("nan")}),
        msgspec.msgpack.encode({"name": "bad", "arguments": [], "folder": "", "cron": "* * * * *", "created_at": 1e300}),
        msgspec.msgpack.encode({"name": "bad", "arguments": ["a\0b"], "folder": "", "every_s": 60.0}),
    ],
    ids=["no record", "not a number", "not a time", "no argument"],
)  # fmt: skip
async def test_a_schedule_that_cannot_be_used_stops_no_other(record: bytes) -> None:
    records = Records()
    await add_schedule(records, schedule("good", every_s=60.0))
    records.found["s/bad"] = record
    records.found["s/old"] = msgspec.msgpack.encode(schedule("old", every_s=60.0))
    records.found[STATE + "old"] = b"\xc1"
    scheduler = CrawlScheduler(records, Recorder(), holder="a", clock=lambda: START + 61.0)
    assert [run.crawl.partition("-")[0] for _, run in await scheduler.claim_due()] == ["good"]
    assert {one.schedule.name for one in await list_schedules(records, START)} >= {"good"}


class Recorder:
    async def start(self, schedule: Schedule, run: ScheduledRun) -> Started:
        return Started(RunState.DONE)

    async def is_finished(self, crawl: str) -> bool:
        return True

    async def cancel(self, schedule: Schedule, crawl: str) -> None:
        raise AssertionError

    async def failure(self, crawl: str) -> str:
        return ""

    async def remove(self, schedule: Schedule, run: ScheduledRun) -> None:
        pass


@pytest.mark.parametrize("url", ["https://a\0b", "https://a.test/" + "x" * 300_000])
def test_a_command_that_cannot_be_started_is_refused_as_a_schedule(url: str) -> None:
    with pytest.raises(Misconfigured):
        check_schedule(schedule(every_s=60.0, crawl=CrawlDefinition(urls=(url,))))
