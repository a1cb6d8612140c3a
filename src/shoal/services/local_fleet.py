"""A fleet on this machine: a store, a number of workers beside it, and one crawl that they do together.

The workers are the same processes that `shoal worker` runs. They end by themselves when nothing is left to
do; asked to stop, they finish what is in hand; one that dies is replaced (`crew.py`); and none of them
outlives this process.
"""

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from pathlib import Path

from shoal.child_process import ChildProcess, run_child
from shoal.engine.plan import CrawlPlan, Stop
from shoal.engine.snapshot import Ending, Opening, Snapshot, Summary
from shoal.model.errors import Misconfigured, Unavailable
from shoal.services.inspect.monitor import Overview, StoreMonitor
from shoal.services.inspect.status import CrawlStatus, read_crawl
from shoal.services.submit import submit
from shoal.stores.contract.crawl_record import LOCAL_FOLDER
from shoal.stores.open import open_shared_store
from shoal.worker.supervisor import Supervisor, WorkerEnd

LOOK_EVERY = 1.0


async def run_fleet(
    plan: CrawlPlan,
    *,
    workers: int,
    stop: Stop,
    opened: Callable[[Opening], None],
    watch: Callable[[Overview], None],
    say: Callable[[str], None],
) -> Summary:
    """Crawl with several workers until nothing is left, or until `stop` asks them to end earlier."""
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        opened_store = await stack.enter_async_context(open_shared_store(plan.settings.store))
        fleet = opened_store.fleet
        submitted = await submit(fleet.client, plan, stop)
        before = await read_crawl(opened_store, submitted.crawl)
        items = await fleet.frontier.reader.items(submitted.crawl)
        outputs, archive = submitted.outputs, f"{LOCAL_FOLDER}/archive"
        opened(
            Opening(submitted.crawl, submitted.resumed, before.counts, outputs, archive, opened_store.address)
        )
        crew = Supervisor(partial(_worker, plan, fleet.dsn), stop, say)
        overseer = StoreMonitor.of(opened_store)
        ends = await _run_and_show(crew, workers, overseer, watch)
        after = await read_crawl(opened_store, submitted.crawl)
        items = await fleet.frontier.reader.items(submitted.crawl) - items
        unwritten = await fleet.unwritten_pages(submitted.crawl)
    elapsed = time.monotonic() - began
    pages = after.counts["done"] - before.counts["done"]
    most = plan.settings.crawl.max_dead
    return Summary(
        ending=_ending(plan, stop, after, unwritten, ends),
        snapshot=Snapshot(
            crawl=submitted.crawl,
            elapsed=elapsed,
            pages=pages,
            items=items,
            bytes=0,  # workers do not tell
            rate=pages / elapsed,
            counts=after.counts,
            failures={},
            filtered=_filtered(after) - _filtered(before),
            in_flight=0,
            parse_backlog=0,
            rejected=after.rejected - before.rejected,
            withheld=after.withheld - before.withheld,
            hook_faults=after.hook_faults - before.hook_faults,
        ),
        resumed=submitted.resumed,
        outputs=outputs,
        rejects=f"{LOCAL_FOLDER}/items",
        archive=archive,
        store=opened_store.address,
        dead_by_class=after.dead_by_class,
        max_dead_exceeded=most is not None and after.counts["dead"] > most,
        quarantined=after.quarantined,
        lookalikes=after.lookalikes,
    )


def _worker(plan: CrawlPlan, dsn: str, number: int) -> AbstractAsyncContextManager[ChildProcess]:
    concurrency = str(plan.settings.crawl.concurrency)
    command = [sys.executable, "-m", "shoal", "worker", "--until-done", "--concurrency", concurrency]
    logs = Path(LOCAL_FOLDER) / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    # By the environment: a DSN may carry a password, and everybody can read arguments.
    return run_child(command, log=logs / f"worker-{number + 1}.log", env={**os.environ, "SHOAL_STORE": dsn})


async def _run_and_show(
    crew: Supervisor, workers: int, overseer: StoreMonitor, watch: Callable[[Overview], None]
) -> list[WorkerEnd]:
    async with asyncio.TaskGroup() as group:
        show = group.create_task(_show(overseer, watch), name="fleet.watch")
        ends = await crew.run(workers)
        show.cancel()
    return ends


async def _show(overseer: StoreMonitor, watch: Callable[[Overview], None]) -> None:
    while True:
        watch(await overseer.look())
        await asyncio.sleep(LOOK_EVERY)


def _filtered(crawl: CrawlStatus) -> Counter[str]:
    return Counter(crawl.filtered_by_rule) + Counter(crawl.links_filtered_by_rule)


def _ending(
    plan: CrawlPlan, stop: Stop, after: CrawlStatus, unwritten: int, ends: Sequence[WorkerEnd]
) -> Ending:
    if stop.drain.is_set():
        return Ending.INTERRUPTED
    left = sum(after.counts[state] for state in ("waiting", "delayed", "leased", "parsing"))
    if not left and not unwritten:
        return Ending.FINISHED
    most = plan.settings.crawl.max_pages
    if most and after.counts["done"] >= most and not unwritten:
        return Ending.LIMITED
    worst = max(ends, key=lambda end: (end.given_up, abs(end.code)))
    what = "workers die again and again" if worst.given_up else "every worker has ended"
    lacks = f"{left} requests are left" if left else f"items of {unwritten} pages are in no output"
    # Where a person has to change something, a worker has said so with that code.
    family = Misconfigured if worst.code == 1 else Unavailable
    raise family(f"{what}, and {lacks}: {worst.log} says why")
