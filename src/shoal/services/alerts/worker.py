"""Alerts of a worker: a chore that runs as long as it does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shoal.model.settings import Settings
from shoal.services.alerts.watch import AlertWatch
from shoal.services.alerts.webhooks import open_webhooks
from shoal.stores.contract.store import Store
from shoal.worker.worker import Worker


@asynccontextmanager
async def alerting_worker(store: Store, settings: Settings, worker: Worker) -> AsyncIterator[None]:
    """Have a worker that is run inside the block publish figures and take part in evaluating alerts."""
    if not settings.alerts.enabled:
        yield
        return
    async with open_webhooks(settings) as webhooks:
        watch = AlertWatch(store, settings.alerts, worker=worker.id, stats=worker.stats, notifier=webhooks)
        worker.chores["alerts"] = watch.run
        try:
            yield
            if worker.found_drops:
                await watch.look()  # the last round may have been before that
        finally:
            await watch.close()
