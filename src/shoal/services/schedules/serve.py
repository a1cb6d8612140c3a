"""Open the schedules of a store, and what a scheduler with some settings allows to them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from shoal.engine.crawl_options import sandbox_rules
from shoal.model.errors import Misconfigured
from shoal.model.sandbox import SandboxMode
from shoal.model.settings import Settings
from shoal.services.child_command import operator_options
from shoal.services.schedules.check import check_crawl
from shoal.services.schedules.launch import LaunchRules
from shoal.services.schedules.manage import add_schedule
from shoal.stores.contract.schedules import Schedule, StoredSchedules
from shoal.stores.contract.store import Store
from shoal.stores.open import open_store, store_exists


@asynccontextmanager
async def open_schedules(dsn: str) -> AsyncIterator[StoredSchedules]:
    """Open the schedules of a store; raise `Misconfigured` for one that does not outlive the process."""
    async with durable_store(dsn) as store:
        yield store.schedules


async def add_checked(dsn: str, schedule: Schedule, settings: Settings, *, config: str | None = None) -> None:
    """Store a new schedule; raise `Misconfigured` if it cannot work, as far as that can be known now."""
    async with durable_store(dsn) as store:
        await check_crawl(store, schedule, operator_options(settings, config))
        await add_schedule(store.schedules, schedule)


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
async def durable_store(dsn: str) -> AsyncIterator[Store]:
    async with open_store(dsn, create=not store_exists(dsn)) as store:
        if not store.capabilities.durable:
            raise Misconfigured(f"store: schedules need a store that lasts, and {store.address} does not")
        yield store
