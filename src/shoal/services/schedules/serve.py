"""Open the schedules of a store, and serve them."""

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from shoal.engine.plan import Stop
from shoal.model.errors import DataFault, Misconfigured, ShoalError
from shoal.services.schedules.launch import CommandLauncher
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


async def serve_schedules(
    dsn: str,
    stop: Stop,
    *,
    once: bool = False,
    spiders: Path | None = None,
    own: Sequence[str] = (),
) -> int:
    """Start crawls when they are due, until `stop`; with `once`, what is due now. Return how many, then."""
    async with _durable_store(dsn) as store:
        holder = f"{os.uname().nodename}-{os.getpid()}-{secrets.token_hex(2)}"
        scheduler = CrawlScheduler(
            store.schedules, CommandLauncher(store, dsn, spiders=spiders, own=own), holder=holder
        )
        if once:
            return await scheduler.run_once()
        await scheduler.run(stop.drain)
        return 0


async def keep_scheduling(
    dsn: str, stop: Stop | None = None, *, spiders: Path | None = None, own: Sequence[str] = ()
) -> None:
    """Serve the schedules of a store until `stop`, if any; a store that does not answer is asked again.

    `spiders`: a folder whose files they may name. `own`: arguments of every command that is started.
    """
    stop = stop or Stop()
    while not stop.drain.is_set():
        try:
            await serve_schedules(dsn, stop, spiders=spiders, own=own)
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
