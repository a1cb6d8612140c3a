"""Alerts of a scheduler: while no crawl of a folder runs, no other process reports a tick that has failed."""

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from shoal.model.errors import DataFault, ShoalError
from shoal.model.settings import AlertSettings, Settings
from shoal.services.alerts.watch import AlertWatch, Notifier, watching
from shoal.services.alerts.webhooks import open_webhooks
from shoal.stores.contract.store import Store
from shoal.stores.open import open_store, store_exists

log = logging.getLogger(__name__)


class SchedulerAlerts:
    """See `ScheduleWatch`."""

    def __init__(self, dsn: str, rules: AlertSettings, notifier: Notifier | None) -> None:
        self._dsn = dsn
        self._rules = rules
        self._notifier = notifier
        self._name = f"scheduler-{os.uname().nodename}-{os.getpid()}-{secrets.token_hex(2)}"

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings) -> AsyncIterator["SchedulerAlerts | None"]:
        """Open the webhooks of the settings; None: alerts are switched off."""
        if not settings.alerts.enabled:
            yield None
            return
        async with open_webhooks(settings) as webhooks:
            yield cls(settings.store, settings.alerts, webhooks)

    async def evaluate(self) -> None:
        """Evaluate once, if the store can be read."""
        with suppress(ShoalError, DataFault):
            async with open_store(self._dsn, create=not store_exists(self._dsn)) as store:
                watch = self._watch(store)
                await watch.evaluate()
                await watch.close()

    async def run(self) -> None:
        """Evaluate until cancelled; open the store again when its first crawl has made the database."""
        while True:
            try:
                await self._run_until_made(exists=store_exists(self._dsn))
            except (ShoalError, DataFault) as error:  # it is being made, or does not answer
                log.info("alerts.waiting", extra={"why": str(error)})
                await asyncio.sleep(self._rules.every)

    async def _run_until_made(self, *, exists: bool) -> None:
        async with open_store(self._dsn, create=not exists) as store, watching(self._watch(store)):
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
