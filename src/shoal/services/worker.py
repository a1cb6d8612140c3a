"""Open one worker of a fleet, with its metrics endpoint."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from shoal.engine.plan import Stop
from shoal.engine.snapshot import WorkStats
from shoal.services.inspect.status import read_status
from shoal.stores.open import open_store
from shoal.worker.http_endpoint import Endpoint
from shoal.worker.rules import WorkerRules
from shoal.worker.worker import ROLES, Worker, WorkerPlan

__all__ = [
    "ROLES",
    "Stop",
    "WorkStats",
    "Worker",
    "WorkerPlan",
    "WorkerRules",
    "crawl_stats_json",
    "open_worker",
]


@asynccontextmanager
async def open_worker(
    store: str, plan: WorkerPlan, stop: Stop, *, metrics: str | None = None
) -> AsyncIterator[Worker]:
    """Connect to a fleet's store and listen on `metrics` (HOST:PORT); the caller runs the worker."""
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(open_store(store, create=True))
        worker = Worker(opened.fleet, plan, stop)
        if metrics is not None:
            endpoint = Endpoint.listening(metrics, worker.stats, partial(read_status, opened))
            await stack.enter_async_context(endpoint)
        yield worker


def crawl_stats_json(done: WorkStats) -> dict[str, object]:
    return {
        "pages": done.pages,
        "handed_on": done.handed_on,
        "items": done.items,
        "bytes": done.bytes,
        "failures": dict(done.failures),
    }
