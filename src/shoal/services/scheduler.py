"""Open a scheduler: alone, beside a worker, or beside a server; alone and beside a server with its alerts."""

import asyncio
import logging
import os
import secrets
from collections.abc import Collection
from contextlib import AsyncExitStack, suppress

from shoal.engine.plan import Stop
from shoal.model.errors import DataFault, ShoalError
from shoal.model.settings import AlertSettings
from shoal.services.alerts.background import in_background
from shoal.services.alerts.watch import AlertWatch, Notifier, watching
from shoal.services.alerts.webhooks import open_webhooks
from shoal.services.schedules.launch import CommandLauncher, LaunchRules
from shoal.services.schedules.scheduler import RETRY_S, CrawlScheduler
from shoal.services.schedules.serve import durable_store
from shoal.stores.contract.store import Store
from shoal.stores.open import store_exists
from shoal.worker.crawl_session import SCHEDULE
from shoal.worker.worker import Worker

log = logging.getLogger(__name__)


async def serve_schedules(
    dsn: str, stop: Stop, rules: LaunchRules, *, once: bool = False, alerts: bool = True
) -> int:
    """Start crawls when they are due, until `stop`; with `once`, what is due now. Return how many, then.

    With `alerts`, this process takes part in evaluating the alerts of the store. No other process does while
    no crawl of a folder runs, and a tick that fails there has to be reported as well.
    """
    holder = f"{os.uname().nodename}-{os.getpid()}-{secrets.token_hex(2)}"
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(durable_store(dsn))
        scheduler = CrawlScheduler(store.schedules, CommandLauncher(store, dsn, rules), holder=holder)
        watch = None
        if alerts and rules.settings.alerts.enabled:
            webhooks = await stack.enter_async_context(open_webhooks(rules.settings))
            watch = SchedulerAlerts(dsn, rules.settings.alerts, f"scheduler-{holder}", webhooks)
        if once:
            started = await scheduler.run_once()
            if watch is not None:
                await watch.evaluate()
            return started
        if watch is not None:
            await stack.enter_async_context(in_background([watch.run()]))
        await scheduler.run(stop.drain)
        return 0


class SchedulerAlerts:
    """Evaluates the alerts of a store beside a scheduler."""

    def __init__(self, dsn: str, rules: AlertSettings, name: str, notifier: Notifier | None) -> None:
        self._dsn = dsn
        self._rules = rules
        self._name = name
        self._notifier = notifier

    async def evaluate(self) -> None:
        """Evaluate once."""
        async with durable_store(self._dsn) as store:
            watch = self._watch(store)
            await watch.evaluate()
            await watch.close()

    async def run(self) -> None:
        """Evaluate until cancelled; open the store again when its first crawl has made the database."""
        while True:
            exists = store_exists(self._dsn)
            async with durable_store(self._dsn) as store, watching(self._watch(store)):
                while exists or not store_exists(self._dsn):  # noqa: ASYNC110 (another process makes it)
                    await asyncio.sleep(self._rules.every)

    def _watch(self, store: Store) -> AlertWatch:
        return AlertWatch(
            store,
            self._rules,
            worker=self._name,
            stats=None,
            notifier=self._notifier,
            is_finished=lambda: False,  # what failed did not end with this process
        )


async def keep_scheduling(
    dsn: str, rules: LaunchRules, stop: Stop | None = None, *, alerts: bool = True
) -> None:
    """Serve the schedules of a store until `stop`, if any; a store that does not answer is asked again."""
    stop = stop or Stop()
    while not stop.drain.is_set():
        try:
            await serve_schedules(dsn, stop, rules, alerts=alerts)
        except (ShoalError, DataFault) as error:
            log.warning("schedules.waiting", extra={"why": str(error)})
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S):
                    await stop.drain.wait()


async def run_worker(
    worker: Worker, store: str, stop: Stop, roles: Collection[str], rules: LaunchRules
) -> None:
    """Run a worker to its end; with the role `schedule`, start crawls when they are due beside it."""
    if SCHEDULE not in roles:
        await worker.run()
        return
    ended = Stop()

    async def forward() -> None:
        await stop.drain.wait()
        ended.drain.set()

    async with asyncio.TaskGroup() as group:
        forwarding = group.create_task(forward(), name="worker.stop")
        # The worker evaluates alerts itself.
        group.create_task(keep_scheduling(store, rules, ended, alerts=False), name="worker.schedule")
        try:
            await worker.run()
        finally:
            ended.drain.set()
            forwarding.cancel()
