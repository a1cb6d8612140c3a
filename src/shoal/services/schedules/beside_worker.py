"""A worker with the role `schedule`: it starts crawls when they are due, beside its other work."""

import asyncio
from collections.abc import Collection

from shoal.engine.plan import Stop
from shoal.services.schedules.launch import LaunchRules
from shoal.services.schedules.serve import keep_scheduling
from shoal.worker.crawl_session import SCHEDULE
from shoal.worker.worker import Worker


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
        group.create_task(keep_scheduling(store, rules, ended), name="worker.schedule")
        try:
            await worker.run()
        finally:
            ended.drain.set()
            forwarding.cancel()
