"""Open one worker of a fleet, with its metrics endpoint."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from functools import partial

from shoal.engine.plan import Stop
from shoal.engine.snapshot import CrawlStats
from shoal.redis_client import RedisClient, parse
from shoal.services.inspect.fleet_status import look_at
from shoal.worker.http_endpoint import Endpoint
from shoal.worker.worker import ROLES, Worker, WorkerPlan

__all__ = ["ROLES", "CrawlStats", "Stop", "Worker", "WorkerPlan", "open_worker"]


@asynccontextmanager
async def open_worker(
    store: str, plan: WorkerPlan, stop: Stop, *, metrics: str | None = None
) -> AsyncIterator[Worker]:
    """Connect to a fleet's store and listen on `metrics` (HOST:PORT); the caller runs the worker."""
    async with RedisClient.open(parse(store)) as client:
        worker = Worker(client, plan, stop)
        endpoint = (
            nullcontext()
            if metrics is None
            else Endpoint.listening(metrics, worker.stats, partial(look_at, client))
        )
        async with endpoint:
            yield worker
