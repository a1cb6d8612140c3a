"""Open one worker of a fleet, with its metrics endpoint."""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from shoal.engine.crawl_options import sandbox_rules
from shoal.engine.plan import Stop
from shoal.engine.snapshot import WorkStats
from shoal.model.sandbox import SandboxMode, SandboxRules
from shoal.model.settings import Settings
from shoal.parse.sandbox import guarantees
from shoal.parse.sandbox.probe import probe
from shoal.services.alerts.worker import alerting_worker
from shoal.services.inspect.status import read_status
from shoal.stores.open import open_store
from shoal.worker.crawl_session import SCHEDULE
from shoal.worker.rules import WorkerRules
from shoal.worker.worker import ROLES, Worker, WorkerPlan

__all__ = [
    "ROLES",
    "SCHEDULE",
    "Stop",
    "WorkStats",
    "Worker",
    "WorkerPlan",
    "WorkerRules",
    "crawl_stats_json",
    "open_worker",
    "worker_sandbox",
]

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_worker(
    store: str,
    plan: WorkerPlan,
    stop: Stop,
    *,
    metrics: str | None = None,
    settings: Settings | None = None,
) -> AsyncIterator[Worker]:
    """Connect to a fleet's store and listen on `metrics` (HOST:PORT); the caller runs the worker.

    With `settings`, the worker takes part in evaluating alerts.

    Raises `Misconfigured` before that if the sandbox of spiders must be complete and is not.
    """
    listening = None
    if metrics is not None:
        from shoal.worker.http_endpoint import Endpoint  # needs an extra

        listening = partial(Endpoint.listening, metrics)
    sandbox = await _check_sandbox(plan)
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(open_store(store, create=True))
        worker = Worker(opened.fleet, plan, stop, sandbox=sandbox)
        if listening is not None:
            endpoint = listening(worker.stats, partial(read_status, opened))
            await stack.enter_async_context(endpoint)
        if settings is not None:
            await stack.enter_async_context(alerting_worker(opened, settings, worker))
        yield worker


def worker_sandbox(settings: Settings) -> SandboxRules:
    """Return how a worker sandboxes the spiders of all crawls: by its own settings, strictly by default."""
    return sandbox_rules(settings, otherwise=SandboxMode.REQUIRE)


async def _check_sandbox(plan: WorkerPlan) -> str:
    """Return the state of the sandbox in words; raise `Misconfigured` if spiders may not run in it."""
    if not plan.roles & {"fetch", "parse"}:
        return ""
    mode, held = plan.sandbox.mode, await probe(plan.sandbox)
    if why := guarantees.warning(held, mode):
        event = "sandbox.off" if mode is SandboxMode.OFF else "sandbox.incomplete"
        log.warning(event, extra={"why": why, "remedy": guarantees.remedy(held, mode)})
    return guarantees.describe(held, mode)


def crawl_stats_json(done: WorkStats) -> dict[str, object]:
    return {
        "pages": done.pages,
        "handed_on": done.handed_on,
        "items": done.items,
        "bytes": done.bytes,
        "failures": dict(done.failures),
    }
