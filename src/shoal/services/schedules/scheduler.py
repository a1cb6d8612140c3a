"""The loop of a scheduler. Any number may run on a store: each tick is claimed by one of them."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol

import msgspec

from shoal.model.errors import DataFault, Misconfigured, ShoalError
from shoal.services.schedules.manage import STATE, read_schedules, read_state
from shoal.services.schedules.rules import (
    CLAIM_S,
    decide,
    delayed,
    ended,
    removable,
    renewed,
    with_removed,
)
from shoal.stores.contract.schedules import RunState, Schedule, ScheduledRun, ScheduleState, StoredSchedules

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
RETRY_S = 5.0  # before a store that did not answer is asked again
REMOVE_EVERY_S = 10.0  # a folder that a crawl owns gives up nothing until the crawl has ended


class Started(NamedTuple):
    """What starting a crawl has led to; `state` None: try again when the claim expires."""

    state: RunState | None
    why: str = ""


class Launcher(Protocol):
    async def start(self, schedule: Schedule, run: ScheduledRun) -> Started:
        """Start the crawl of a tick; harmless if it was started before."""

    async def is_finished(self, crawl: str) -> bool: ...

    async def failure(self, crawl: str) -> str:
        """Return why a crawl that has finished counts as failed; empty: it does not."""

    async def cancel(self, schedule: Schedule, crawl: str) -> None: ...

    async def remove(self, schedule: Schedule, run: ScheduledRun) -> None:
        """Remove what a run has left; harmless if it was removed before."""


class CrawlScheduler:
    def __init__(
        self,
        records: StoredSchedules,
        launcher: Launcher,
        *,
        holder: str,
        claim_s: float = CLAIM_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`claim_s`: after which another scheduler starts a run again whose scheduler was killed."""
        self._records = records
        self._launcher = launcher
        self._holder = holder
        self._claim_s = claim_s
        self._clock = clock
        self._refused: dict[str, str] = {}
        self._not_removed: dict[tuple[str, float], str] = {}  # why, by schedule and tick

    async def run(self, stop: asyncio.Event) -> None:
        """Serve the schedules until `stop` is set; crawls of a folder that still run are stopped.

        A store that does not answer for a while ends neither this loop nor the crawls that it has started.
        """
        async with asyncio.TaskGroup() as group:
            tasks = {group.create_task(self._keep_removing(), name="schedule.remove")}
            while not stop.is_set():
                try:
                    claimed, pause = await self.claim_due(), LOOK_EVERY_S
                except (ShoalError, DataFault) as error:
                    log.warning("schedules.waiting", extra={"why": str(error)})
                    claimed, pause = [], RETRY_S
                for schedule, run in claimed:
                    task = group.create_task(self._attend(schedule, run), name=f"schedule.{run.crawl}")
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await stop.wait()
            for task in tasks:
                task.cancel()

    async def run_once(self) -> int:
        """Run what is due now, to its end; return the number of crawls that were started."""
        claimed = await self.claim_due()
        async with asyncio.TaskGroup() as group:
            for schedule, run in claimed:
                group.create_task(self.launch(schedule, run), name=f"schedule.{run.crawl}")
        await self.remove_old()
        return len(claimed)

    async def _keep_removing(self) -> None:
        while True:
            await asyncio.sleep(REMOVE_EVERY_S)
            try:
                await self.remove_old()
            except (ShoalError, DataFault) as error:
                log.warning("schedules.waiting", extra={"why": str(error)})

    async def remove_old(self) -> None:
        """Remove the runs that are older than those to keep; what cannot be removed now is tried again."""
        stored, not_removed = await self._records.all(), self._not_removed
        self._not_removed = {}
        for name, schedule in read_schedules(stored)[0].items():
            with suppress(Misconfigured):  # its state cannot be read: `claim_due` logs it
                for run in removable(schedule, read_state(schedule, stored.get(STATE + name))):
                    try:
                        await self._launcher.remove(schedule, run)
                    except (ShoalError, DataFault, OSError) as error:
                        why = self._not_removed[name, run.tick] = str(error)
                        if not_removed.get((name, run.tick)) != why:
                            log.warning("schedule.not_removed", extra={"crawl": run.crawl, "why": why})
                        continue
                    await self._update(schedule, partial(with_removed, tick=run.tick))
                    log.info(
                        "schedule.removed", extra={"schedule": name, "crawl": run.crawl, "tick": run.tick}
                    )

    async def claim_due(self) -> list[tuple[Schedule, ScheduledRun]]:
        """Decide about every tick that is due; return the runs that this scheduler has to start."""
        stored = await self._records.all()
        schedules, refused = read_schedules(stored)
        states = {}
        for name, schedule in schedules.items():
            try:
                states[name] = read_state(schedule, stored.get(STATE + name))
            except Misconfigured as error:
                refused[name] = str(error)
        for name, why in refused.items():
            if self._refused.get(name) != why:
                log.error("schedule.refused", extra={"schedule": name, "why": why})
        self._refused = refused
        claimed = []
        for name, state in states.items():
            schedule, before = schedules[name], stored.get(STATE + name)
            running = [run.crawl for run in state.runs if run.state is RunState.RUNNING]
            finished = [crawl for crawl in running if await self._launcher.is_finished(crawl)]
            decision = decide(
                schedule,
                state,
                self._clock(),
                holder=self._holder,
                is_finished=finished.__contains__,
                failures={crawl: await self._launcher.failure(crawl) for crawl in finished},
                claim_s=self._claim_s,
            )
            if decision.state == state:
                continue
            # Before the state: after a kill in between, the next scheduler decides the same.
            for crawl in decision.cancel:
                await self._launcher.cancel(schedule, crawl)
            if await self._records.swap(STATE + name, before, msgspec.msgpack.encode(decision.state)):
                known = {run.tick for run in state.runs}
                for run in decision.state.runs:
                    if run.state is RunState.SKIPPED and run.tick not in known:
                        log.info("schedule.skipped", extra={"crawl": run.crawl, "why": run.why})
                claimed += [(schedule, run) for run in decision.start]
        return claimed

    async def _attend(self, schedule: Schedule, run: ScheduledRun) -> None:
        """Start a claimed run. If the store fails, the claim expires, and the run is repeated."""
        try:
            await self.launch(schedule, run)
        except (ShoalError, DataFault) as error:
            log.warning("schedule.delayed", extra={"crawl": run.crawl, "why": str(error)})

    async def launch(self, schedule: Schedule, run: ScheduledRun) -> None:
        """Start a claimed run and record what came of it; the claim is extended while that takes."""
        log.info("schedule.started", extra={"schedule": schedule.name, "crawl": run.crawl})
        async with asyncio.TaskGroup() as group:
            extending = group.create_task(self._extend(schedule, run), name="schedule.extend")
            started = await self._launcher.start(schedule, run)
            extending.cancel()
        now = self._clock()
        if started.state is None:
            log.warning("schedule.delayed", extra={"crawl": run.crawl, "why": started.why})
            await self._update(schedule, partial(delayed, tick=run.tick, why=started.why, now=now))
            return
        if started.state is RunState.FAILED:
            log.error("schedule.failed", extra={"crawl": run.crawl, "why": started.why})
        to, why = started.state, started.why
        await self._update(schedule, lambda state: ended(schedule, state, run.tick, to=to, now=now, why=why))

    async def _extend(self, schedule: Schedule, run: ScheduledRun) -> None:
        while True:
            await asyncio.sleep(self._claim_s / 3)
            until = self._clock() + self._claim_s
            try:
                await self._update(
                    schedule, partial(renewed, tick=run.tick, holder=self._holder, until=until)
                )
            except (ShoalError, DataFault) as error:
                # The crawl continues, and another scheduler may start it as well.
                log.warning("schedules.waiting", extra={"why": str(error)})

    async def _update(self, schedule: Schedule, change: Callable[[ScheduleState], ScheduleState]) -> None:
        while (before := (await self._records.all()).get(STATE + schedule.name)) is not None:
            after = msgspec.msgpack.encode(change(read_state(schedule, before)))
            if after == before or await self._records.swap(STATE + schedule.name, before, after):
                return
