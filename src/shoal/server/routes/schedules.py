"""Schedules: crawls that start by themselves."""

import os
import time

import msgspec

from shoal.model.api.crawls import Nothing
from shoal.model.api.schedules import ChangedSchedule, NewSchedule, OneSchedule, ScheduleInfo, ScheduleList
from shoal.server.access.gate import Caller
from shoal.server.state.context import ApiServer
from shoal.services.schedules.manage import (
    Missed,
    Overlap,
    Schedule,
    list_schedules,
    pause_schedule,
    remove_schedule,
)
from shoal.services.schedules.schedule_json import schedule_json
from shoal.services.schedules.serve import add_checked, open_schedules


async def list_all_schedules(server: ApiServer, params: Nothing) -> ScheduleList:
    """List the schedules: when they run next, and what has become of their latest ticks."""
    async with open_schedules(server.dsn) as records:
        found = await list_schedules(records, time.time())
    return ScheduleList(schedules=msgspec.convert([*map(schedule_json, found)], list[ScheduleInfo]))


async def create_schedule(
    server: ApiServer, params: Nothing, body: NewSchedule, caller: Caller
) -> ChangedSchedule:
    """Add a schedule. A scheduler of the store starts its crawls: `shoal schedule run`."""
    added = Schedule(
        name=body.name,
        folder=os.getcwd(),
        crawl=server.crawls.definition(body.crawl, caller.holder.role),
        cron=body.cron,
        every_s=body.every_s,
        timezone=body.timezone,
        jitter_s=body.jitter_s,
        overlap=Overlap(body.overlap),
        missed=Missed(body.missed),
        created_at=float(int(time.time())),
        again=body.again,
        adaptive=body.adaptive,
        budget=float(body.budget),
        keep=body.keep,
    )
    await add_checked(server.dsn, added, server.settings, config=server.crawls.config)
    return ChangedSchedule(name=body.name)


async def pause_one_schedule(server: ApiServer, params: OneSchedule) -> ChangedSchedule:
    """Start no more crawls of a schedule until it is resumed."""
    return await _set_paused(server, params.schedule, paused=True)


async def resume_one_schedule(server: ApiServer, params: OneSchedule) -> ChangedSchedule:
    """Start crawls of a schedule again; ticks of the pause count as missed."""
    return await _set_paused(server, params.schedule, paused=False)


async def _set_paused(server: ApiServer, name: str, *, paused: bool) -> ChangedSchedule:
    async with open_schedules(server.dsn) as records:
        await pause_schedule(records, name, paused=paused, now=time.time())
    return ChangedSchedule(name=name, paused=paused)


async def delete_schedule(server: ApiServer, params: OneSchedule) -> ChangedSchedule:
    """Remove a schedule; the crawls that it has started stay."""
    async with open_schedules(server.dsn) as records:
        await remove_schedule(records, params.schedule)
    return ChangedSchedule(name=params.schedule, removed=True)
