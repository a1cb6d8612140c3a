"""Open the schedules of a store, and serve them."""

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from shoal.engine.crawl_options import sandbox_rules
from shoal.engine.plan import Stop
from shoal.model.errors import DataFault, Misconfigured, ShoalError
from shoal.model.sandbox import SandboxMode
from shoal.model.settings import Settings
from shoal.services.child_command import operator_options
from shoal.services.schedules.launch import CommandLauncher, LaunchRules
from shoal.services.schedules.scheduler import RETRY_S, CrawlScheduler
from shoal.stores.contract.schedules import StoredSchedules
from shoal.stores.contract.store import Store
from shoal.stores.open import open_store

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_schedules(dsn: str) -> AsyncIterator[StoredSchedules]:
    """Open the schedules of a store; raise `Misconfigured` for one that does not outlive the process."""
    async with _durable_store(dsn) as store:
        yield store.schedules


async def serve_schedules(dsn: str, stop: Stop, rules: LaunchRules, *, once: bool = False) -> int:
    """Start crawls when they are due, until `stop`; with `once`, what is due now. Return how many, then."""
    async with _durable_store(dsn) as store:
        holder = f"{os.uname().nodename}-{os.getpid()}-{secrets.token_hex(2)}"
        scheduler = CrawlScheduler(store.schedules, CommandLauncher(store, dsn, rules), holder=holder)
        if once:
            return await scheduler.run_once()
        await scheduler.run(stop.drain)
        return 0


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
    )


async def keep_scheduling(dsn: str, rules: LaunchRules, stop: Stop | None = None) -> None:
    """Serve the schedules of a store until `stop`, if any; a store that does not answer is asked again."""
    stop = stop or Stop()
    while not stop.drain.is_set():
        try:
            await serve_schedules(dsn, stop, rules)
        except (ShoalError, DataFault) as error:
            log.warning("schedules.waiting", extra={"why": str(error)})
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S):
                    await stop.drain.wait()


@asynccontextmanager
async def _durable_store(dsn: str) -> AsyncIterator[Store]:
    async with open_store(dsn, create=True) as store:
        if not store.capabilities.durable:
            raise Misconfigured(f"store: schedules need a store that lasts, and {store.address} does not")
        yield store
