"""Open the schedules of a store, and serve them."""

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

from shoal.engine.crawl_options import sandbox_rules
from shoal.engine.plan import Stop
from shoal.model.errors import DataFault, Misconfigured, ShoalError
from shoal.model.sandbox import SandboxMode
from shoal.model.settings import Settings
from shoal.services.commands.child_command import operator_options
from shoal.services.schedules.check import check_crawl
from shoal.services.schedules.launch import CommandLauncher, LaunchRules
from shoal.services.schedules.manage import add_schedule
from shoal.services.schedules.scheduler import RETRY_S, CrawlScheduler
from shoal.stores.contract.schedules import Schedule, StoredSchedules
from shoal.stores.contract.store import Store
from shoal.stores.open import open_store, store_exists

log = logging.getLogger(__name__)


class ScheduleWatch(Protocol):
    """Evaluates the alerts of a store beside its scheduler."""

    async def evaluate(self) -> None:
        """Evaluate once."""

    async def run(self) -> None:
        """Evaluate until cancelled."""


@asynccontextmanager
async def open_schedules(dsn: str) -> AsyncIterator[StoredSchedules]:
    """Open the schedules of a store; raise `Misconfigured` for one that does not outlive the process."""
    async with _durable_store(dsn) as store:
        yield store.schedules


async def add_checked(dsn: str, schedule: Schedule, settings: Settings, *, config: str | None = None) -> None:
    """Store a new schedule; raise `Misconfigured` if it cannot work, as far as that can be known now."""
    async with open_store(dsn, create=not store_exists(dsn)) as store:
        await check_crawl(store, schedule, operator_options(settings, config))
    async with open_schedules(dsn) as records:
        await add_schedule(records, schedule)


async def serve_schedules(
    dsn: str, stop: Stop, rules: LaunchRules, *, once: bool = False, watch: ScheduleWatch | None = None
) -> int:
    """Start crawls when they are due, until `stop`; with `once`, what is due now. Return how many, then."""
    async with _durable_store(dsn) as store:
        holder = f"{os.uname().nodename}-{os.getpid()}-{secrets.token_hex(2)}"
        launcher, claim_s = CommandLauncher(store, dsn, rules), rules.settings.worker.schedule_claim
        scheduler = CrawlScheduler(store.schedules, launcher, holder=holder, claim_s=claim_s)
        if once:
            started = await scheduler.run_once()
            if watch is not None:
                await watch.evaluate()
            return started
        async with asyncio.TaskGroup() as group:
            evaluating = None if watch is None else group.create_task(watch.run(), name="schedules.alerts")
            await scheduler.run(stop.drain)
            if evaluating is not None:
                evaluating.cancel()
        return 0


async def keep_scheduling(
    dsn: str, rules: LaunchRules, stop: Stop | None = None, *, watch: ScheduleWatch | None = None
) -> None:
    """Serve the schedules of a store until `stop`, if any; a store that does not answer is asked again."""
    stop = stop or Stop()
    while not stop.drain.is_set():
        try:
            await serve_schedules(dsn, stop, rules, watch=watch)
        except (ShoalError, DataFault) as error:
            await _wait(error, stop)
        except ExceptionGroup as group:
            # Of the scheduler and its alerts, the one or both.
            if (bugs := group.split((ShoalError, DataFault))[1]) is not None:
                raise bugs from None
            await _wait(group.exceptions[0], stop)


async def _wait(error: Exception, stop: Stop) -> None:
    log.warning("schedules.waiting", extra={"why": str(error)})
    with suppress(TimeoutError):
        async with asyncio.timeout(RETRY_S):
            await stop.drain.wait()


def launch_rules(
    settings: Settings, *, config: str | None = None, spiders: Path | None = None
) -> LaunchRules:
    """Return what a scheduler with these settings, read from `config`, allows to schedules.

    `spiders`: a folder whose files they may name, besides those of the current one.
    """
    return LaunchRules(
        options=tuple(operator_options(settings, config)),
        roots=() if spiders is None else (spiders,),
        databases=settings.worker.allow_seeds,
        sandbox=sandbox_rules(settings, otherwise=SandboxMode.REQUIRE).mode,
        settings=settings,
    )


@asynccontextmanager
async def _durable_store(dsn: str) -> AsyncIterator[Store]:
    async with open_store(dsn, create=True) as store:
        if not store.capabilities.durable:
            raise Misconfigured(f"store: schedules need a store that lasts, and {store.address} does not")
        yield store
