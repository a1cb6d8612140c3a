"""Add, list, pause and remove schedules."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import TypeVar

import msgspec

from shoal.model.configuration.crawl_definition import parse_command
from shoal.model.errors import Misconfigured
from shoal.services.schedules.rules import check_new, check_schedule, delay_of, stamp_of, ticks_after
from shoal.stores.contract.schedules import Missed, Overlap, Schedule, ScheduleState, StoredSchedules

__all__ = [
    "KnownSchedule",
    "Missed",
    "Overlap",
    "Schedule",
    "StoredSchedules",
    "add_schedule",
    "list_schedules",
    "pause_schedule",
    "read_schedules",
    "read_state",
    "remove_schedule",
]

SCHEDULE, STATE = "s/", "t/"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KnownSchedule:
    schedule: Schedule
    state: ScheduleState
    next_at: float | None  # when the next crawl starts; None: it is paused, or never


def read_schedules(records: Mapping[str, bytes]) -> tuple[dict[str, Schedule], dict[str, str]]:
    """Return the schedules of a store by name, and by name why others cannot be used."""
    found: dict[str, Schedule] = {}
    refused: dict[str, str] = {}
    for key, packed in sorted(records.items()):
        if key.startswith(SCHEDULE):
            name = key.removeprefix(SCHEDULE)
            try:
                schedule = _read_schedule(packed)
                if schedule.name != name:
                    raise Misconfigured("it is stored under another name")
                found[name] = schedule
            except (msgspec.MsgspecError, Misconfigured, ValueError, OverflowError) as error:
                refused[name] = str(error)  # the last two: numbers that are not a time
    return found, refused


@lru_cache(maxsize=4096)  # a scheduler reads all of them every second
def _read_schedule(packed: bytes) -> Schedule:
    schedule = msgspec.msgpack.decode(packed, type=Schedule)
    if schedule.arguments:
        crawl = parse_command(schedule.arguments)
        schedule = msgspec.structs.replace(schedule, crawl=crawl, arguments=())
    check_schedule(schedule)
    return schedule


def read_state(schedule: Schedule, packed: bytes | None) -> ScheduleState:
    """Return what has become of the ticks of a schedule; raise `Misconfigured` if it cannot be read."""
    if packed is None:
        return ScheduleState(cursor=schedule.created_at)
    try:
        return _read_state(packed)
    except (msgspec.MsgspecError, ValueError, OverflowError, OSError) as error:  # the last three: not a time
        raise Misconfigured(f"its state cannot be read: {error}") from None


@lru_cache(maxsize=1024)  # about 10 kB each
def _read_state(packed: bytes) -> ScheduleState:
    state = msgspec.msgpack.decode(packed, type=ScheduleState)
    for tick in (state.cursor, *(run.tick for run in state.runs)):
        stamp_of(tick)
    return state


async def add_schedule(records: StoredSchedules, schedule: Schedule) -> None:
    """Store a new schedule; raise `Misconfigured` if it cannot work, or if the name is taken."""
    check_new(schedule)
    if not await records.swap(SCHEDULE + schedule.name, None, msgspec.msgpack.encode(schedule)):
        raise Misconfigured(
            f"there is a schedule {schedule.name!r} already: shoal schedule remove {schedule.name} removes it"
        )


async def list_schedules(records: StoredSchedules, now: float) -> list[KnownSchedule]:
    """Return the schedules by name, with what has become of their latest ticks."""
    stored = await records.all()
    listed = []
    for name, schedule in read_schedules(stored)[0].items():
        try:
            state = read_state(schedule, stored.get(STATE + name))
        except Misconfigured:  # schedulers log it, and start no crawl
            listed.append(KnownSchedule(schedule, ScheduleState(cursor=schedule.created_at), None))
            continue
        upcoming = (tick + delay_of(schedule, tick) for tick in ticks_after(schedule, max(now, state.cursor)))
        listed.append(KnownSchedule(schedule, state, None if schedule.paused else next(upcoming, None)))
    return listed


async def pause_schedule(records: StoredSchedules, name: str, *, paused: bool, now: float) -> None:
    """Pause or resume a schedule. Ticks of the pause count as missed when it is resumed, without an alert."""
    while True:
        stored = await records.all()
        schedule = _find(read_schedules(stored)[0], name)
        resumed_at = now if schedule.paused and not paused else schedule.resumed_at
        after = msgspec.msgpack.encode(
            msgspec.structs.replace(schedule, paused=paused, resumed_at=resumed_at)
        )
        if await records.swap(SCHEDULE + name, stored[SCHEDULE + name], after):
            return


async def remove_schedule(records: StoredSchedules, name: str) -> None:
    """Remove a schedule and its history; crawls that it has started stay."""
    stored = await records.all()
    if SCHEDULE + name not in stored:
        _find(read_schedules(stored)[0], name)
    for key in (SCHEDULE + name, STATE + name):
        while (before := (await records.all()).get(key)) is not None:
            if await records.swap(key, before, None):
                break


def _find(known: Mapping[str, T], name: str) -> T:
    if name not in known:
        close = get_close_matches(name, list(known), n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise Misconfigured(f"no schedule is called {name!r}{hint}")
    return known[name]
