"""Workers, exits and schedules as lists of bounded length."""

import time
from collections import Counter

import msgspec

from shoal.model.api.crawls import WorkerInfo
from shoal.model.api.hosts import HostInfo
from shoal.model.api.live import (
    CrawlCost,
    ExitLines,
    HostDetails,
    ScheduledTick,
    ScheduleLine,
    ScheduleLines,
    WorkerLines,
)
from shoal.model.settings import Settings
from shoal.services.control.hosts import host_json
from shoal.services.inspect.status import FleetStatus, StoreStatus
from shoal.services.inspect.status_json import workers_json
from shoal.services.live.lines import exit_line
from shoal.services.live.sampler import LiveStore
from shoal.services.proxies import list_exits
from shoal.services.schedules.manage import KnownSchedule, list_schedules
from shoal.services.schedules.schedule_json import shown_arguments
from shoal.stores.open import open_store, store_exists

MAX_EXITS = 500
MAX_COSTS = 100
MAX_SCHEDULES = 500
MAX_TICKS = 8


async def host_details(live: LiveStore, host: str) -> HostDetails:
    """Return one host.

    A folder that no process owns is not asked: counting the queue of one host there takes a scan, and the
    sampler has counted it.
    """
    line, queue = live.host(host)
    now = None
    if store_exists(live.dsn):
        async with open_store(live.dsn) as store:
            if store.capabilities.shared or store.workers.owner() is not None:
                now = await store.host(host)
    return HostDetails(
        line=line,
        now=None if now is None else msgspec.convert(host_json(now), HostInfo),
        crawl_delay_s=queue.crawl_delay,
        slow=queue.slow,
        rest_until=queue.rest_until,
    )


def worker_lines(status: StoreStatus | None, *, search: str, limit: int) -> WorkerLines:
    """Return the workers whose name, machine or doing contains `search`, by name."""
    workers = [] if status is None or status.fleet is None else list(status.fleet.workers)
    by_role = Counter(role for worker in workers for role in worker.roles)
    chosen = sorted(
        (one for one in workers if search in one.worker or search in one.host or search in one.doing),
        key=lambda one: one.worker,
    )
    found = workers_json(FleetStatus(chosen[:limit], {}, {}))
    return WorkerLines(
        workers=msgspec.convert(found, list[WorkerInfo]), total=len(chosen), by_role=dict(by_role)
    )


async def schedule_lines(dsn: str) -> ScheduleLines:
    """Return the schedules of a store, those that run next first."""
    if not store_exists(dsn):
        return ScheduleLines(schedules=[], total=0)
    async with open_store(dsn) as store:
        known = await list_schedules(store.schedules, time.time())
    known.sort(key=lambda one: (one.next_at is None, one.next_at or 0.0, one.schedule.name))
    return ScheduleLines(schedules=[_schedule_line(one) for one in known[:MAX_SCHEDULES]], total=len(known))


def _schedule_line(known: KnownSchedule) -> ScheduleLine:
    schedule = known.schedule
    return ScheduleLine(
        name=schedule.name,
        arguments=shown_arguments(schedule),
        cron=schedule.cron,
        every_s=schedule.every_s,
        timezone=schedule.timezone,
        overlap=schedule.overlap.value,
        paused=schedule.paused,
        next_at=known.next_at,
        runs=[
            ScheduledTick(tick=run.tick, state=run.state.value, crawl=run.crawl, why=run.why)
            for run in known.state.runs[-MAX_TICKS:]
        ],
    )


async def exit_lines(settings: Settings, status: StoreStatus | None) -> ExitLines:
    """Return the exits of the settings and of the store, resting ones first, and the cost of each crawl."""
    now = time.time()
    crawls = () if status is None else status.crawls
    carried: Counter[str] = Counter()
    by_kind: Counter[str] = Counter()
    costs = []
    for crawl in crawls:
        if (spending := crawl.spending) is not None:
            carried.update(spending.exits)
            by_kind.update(spending.kinds)
            costs.append(
                CrawlCost(
                    crawl=crawl.name, bytes=spending.bytes, cost=spending.cost, budget_share=spending.share
                )
            )
    exits = [exit_line(exit, carried, now) for exit in await list_exits(settings)]
    exits.sort(key=lambda one: (one.state != "rests", -one.bytes, one.name))
    return ExitLines(
        exits=exits[:MAX_EXITS],
        exits_total=len(exits),
        crawls=sorted(costs, key=lambda one: -one.bytes)[:MAX_COSTS],
        by_kind=dict(by_kind),
        bytes=sum(by_kind.values()),
        cost=sum(one.cost for one in costs),
    )
