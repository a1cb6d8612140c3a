"""A fleet on this machine: a store, several workers, and one crawl that they run together.

The workers are the processes that `shoal worker` runs. They end when nothing is left to do. Asked to stop,
they finish what is in progress. One that dies is restarted (`worker.supervisor`), and none of them outlives
this process.
"""

import asyncio
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from shoal.child_process import ChildProcess, run_child
from shoal.engine.crawl_options import sandbox_rules
from shoal.engine.fetchers import exits_in_words
from shoal.engine.plan import CrawlPlan, Stop
from shoal.engine.runs.outcome import Decided, NothingToDo
from shoal.engine.snapshot import RESUMED, Ending, Opening, Snapshot, Summary
from shoal.fetch.exits.ledger import STOP
from shoal.fetch.registry import usable_pools
from shoal.model.configuration.configure import VARIABLES
from shoal.model.errors import Misconfigured, ShoalError, Unavailable
from shoal.model.exits.spending import Budget
from shoal.model.failure import FailureClass
from shoal.model.format import plural
from shoal.services.autoscale.observe import Observer
from shoal.services.autoscale.rules import Limit, Recent, ScaleRules, combined, stabilize, wanted_workers
from shoal.services.crawl import complete_summary, with_kept, with_yield
from shoal.services.inspect.monitor import Overview, StoreMonitor
from shoal.services.inspect.status import CrawlStatus, read_crawl
from shoal.services.log_following import follow_logs
from shoal.services.submit import own_places, submit
from shoal.stores.contract.crawl_record import LOCAL_FOLDER
from shoal.stores.contract.places import pattern_for
from shoal.stores.open import open_shared_store
from shoal.worker.supervisor import LOST, NO_EXIT, Supervisor, WorkerEnd
from shoal.worker.worker import lost_error

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
SCALE_EVERY_S = 2.0


async def run_fleet(
    plan: CrawlPlan,
    *,
    workers: int,
    stop: Stop,
    opened: Callable[[Opening], None],
    watch: Callable[[Overview], None],
    say: Callable[[str], None],
    scale: ScaleRules | None = None,
    worker_flags: Sequence[str] = (),
    follow: Callable[[str], None] | None = None,
    decided: Decided | None = None,
) -> Summary:
    """Crawl with several workers until nothing is left, or until `stop` asks them to end earlier.

    With `scale`, their number follows the load, from `workers` on. `worker_flags` are added to the command of
    each worker; `follow` is called with each line that they log. Raises `NothingToDo` for a complete crawl
    whose data is not worse than before.
    """
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_shared_store(plan.settings.store))
        fleet = store.fleet
        try:
            submitted = await submit(store, plan, stop, decided=decided)
        except NothingToDo as complete:
            if complete.crawl not in await store.crawls.names():
                raise
            summary = await with_yield(store, complete_summary(complete, store.address))
            if not summary.dropped and not summary.no_data:
                raise
            return summary
        before = await read_crawl(store, submitted.crawl)
        items = await fleet.frontier.reader.items(submitted.crawl)
        outputs, archive = submitted.outputs, f"{LOCAL_FOLDER}/archive"
        opened(
            Opening(
                submitted.crawl,
                submitted.resumed,
                before.counts,
                outputs,
                archive,
                store.address,
                exits=exits_in_words(plan.settings.proxies),
            )
        )
        environment = worker_environment(plan, submitted.crawl, fleet.dsn)
        logs = [_log_of(number) for number in range(scale.max if scale else workers)]
        supervisor = Supervisor(partial(_worker, plan, environment, worker_flags), stop, say)
        monitor = StoreMonitor.of(store)
        async with follow_logs(logs, follow):
            follow_load = None if scale is None else partial(_scale, Observer(store), supervisor, scale, say)
            ends = await _run_and_show(supervisor, workers, monitor, watch, follow_load)
        if any(end.code == LOST for end in ends) or submitted.crawl not in await store.crawls.names():
            raise lost_error([submitted.crawl], store.address)
        after = await read_crawl(store, submitted.crawl)
        items = await fleet.frontier.reader.items(submitted.crawl) - items
        unwritten = await fleet.unwritten_pages(submitted.crawl)
    elapsed = time.monotonic() - began
    pages = after.counts["done"] - before.counts["done"]
    max_dead = plan.settings.crawl.max_dead
    summary = Summary(
        ending=_ending(plan, stop, after, unwritten, ends),
        snapshot=Snapshot(
            crawl=submitted.crawl,
            elapsed=elapsed,
            pages=pages,
            items=items,
            bytes=0,  # workers do not report it
            rate=pages / elapsed,
            counts=after.counts,
            failures={},
            filtered=_filtered(after) - _filtered(before),
            in_flight=0,
            parse_backlog=0,
            rejected=after.rejected - before.rejected,
            withheld=after.withheld - before.withheld,
            partial=after.partial - before.partial,
            hook_faults=after.hook_faults - before.hook_faults,
            duplicates=after.duplicates - before.duplicates,
            retries=after.retries - before.retries,
            discarded=Counter(after.discarded) - Counter(before.discarded),
        ),
        resumed=submitted.resumed,
        outputs=outputs,
        rejects=f"{LOCAL_FOLDER}/items",
        archive=archive,
        store=store.address,
        dead_by_class=after.dead_by_class,
        max_dead_exceeded=max_dead is not None and after.counts["dead"] > max_dead,
        large=after.large,
        closed=after.closed,
    )
    if summary.ending in RESUMED:
        return summary
    return replace(with_kept(summary), dropped=tuple(after.yield_dropped), no_data=after.no_data)


def worker_environment(plan: CrawlPlan, crawl: str, dsn: str) -> dict[str, str]:
    """Return the environment of the workers: the rules of this command, which were set for its own crawl.

    In the environment, because a DSN may contain a password, and every user can read arguments.
    """
    settings = plan.settings
    patterns = settings.worker.allow_outputs or (os.getcwd(),)
    values = {
        "store": dsn,
        "crawl.allow_private": str(settings.crawl.allow_private),
        "crawl.ca_file": settings.crawl.ca_file,
        "crawl.nameservers": settings.crawl.nameservers,
        "fetch.allow_ranges": ",".join(settings.fetch.allow_ranges),
        "worker.allow_outputs": "\n".join((*patterns, *map(pattern_for, own_places(plan, crawl)))),
        "worker.record_key_file": settings.worker.record_key_file,
        "proxies.list": "\n".join(settings.proxies.list),
    }
    return {**os.environ, **{VARIABLES[key]: value or "" for key, value in values.items()}}


def _log_of(number: int) -> Path:
    """Return the log of a worker; create its folder."""
    logs = Path(LOCAL_FOLDER) / "logs"
    logs.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    logs.mkdir(exist_ok=True)
    return logs / f"worker-{number + 1}.log"


def _worker(
    plan: CrawlPlan, environment: Mapping[str, str], flags: Sequence[str], number: int
) -> AbstractAsyncContextManager[ChildProcess]:
    concurrency = str(plan.settings.crawl.concurrency)
    pools = ",".join(usable_pools(plan.settings.browser))
    command = [sys.executable, "-m", "shoal", "worker", "--until-done", "--concurrency", concurrency]
    command += ["--pools", pools, *flags]
    # The workers of this command are as strict as `shoal crawl`.
    env = {**environment, "SHOAL_PARSE_SANDBOX": sandbox_rules(plan.settings).mode.value}
    return run_child(command, log=_log_of(number), env=env)


async def _run_and_show(
    supervisor: Supervisor,
    workers: int,
    monitor: StoreMonitor,
    watch: Callable[[Overview], None],
    follow_load: Callable[[int], Coroutine[None, None, None]] | None,
) -> list[WorkerEnd]:
    async with asyncio.TaskGroup() as group:
        beside = [group.create_task(_show(monitor, watch), name="fleet.watch")]
        if follow_load is not None:
            beside.append(group.create_task(follow_load(workers), name="fleet.scale"))
        ends = await supervisor.run(workers)
        for task in beside:
            task.cancel()
    return ends


async def _scale(
    observer: Observer, supervisor: Supervisor, rules: ScaleRules, say: Callable[[str], None], workers: int
) -> None:
    """Run as many workers as the load needs; say each change with its reason, and once what limits them."""
    recent, told = Recent(), ""
    while True:
        await asyncio.sleep(SCALE_EVERY_S)
        try:
            loads = await observer.look()
        except ShoalError as error:
            log.warning("scale.unavailable", extra={"why": str(error)})
            continue
        wanted = combined([wanted_workers(load, rules) for load in loads], rules)
        recent, target = stabilize(recent, wanted.workers, time.time(), rules)
        if target != workers:
            say(f"{plural(target, 'worker')} instead of {workers}: {wanted.why}")
            workers = target
            supervisor.resize(target)
        elif wanted.limit is Limit.POLITENESS and told != Limit.POLITENESS:
            say(f"{plural(target, 'worker')}: {wanted.why}")
        told = wanted.limit


async def _show(monitor: StoreMonitor, watch: Callable[[Overview], None]) -> None:
    while True:
        with suppress(Misconfigured):  # the crawl vanished while it was looked at: its workers end with that
            watch(await monitor.look())
        await asyncio.sleep(LOOK_EVERY_S)


def _filtered(crawl: CrawlStatus) -> Counter[str]:
    return Counter(crawl.filtered_by_rule) + Counter(crawl.links_filtered_by_rule)


def _ending(
    plan: CrawlPlan, stop: Stop, after: CrawlStatus, unwritten: int, ends: Sequence[WorkerEnd]
) -> Ending:
    if stop.drain.is_set():
        return Ending.INTERRUPTED
    if any(end.code == NO_EXIT for end in ends):
        return Ending.NO_EXIT
    left = sum(after.counts[state] for state in ("waiting", "delayed", "leased", "parsing"))
    if not left and not unwritten:
        return Ending.FINISHED
    max_pages = plan.settings.crawl.max_pages
    pages = after.counts["done"] + after.dead_by_class.get(FailureClass.PARSE_ERROR.value, 0)
    if max_pages and pages >= max_pages and not unwritten:
        return Ending.LIMITED
    crawl = plan.settings.crawl
    budget = Budget(crawl.budget, crawl.budget_gb)
    if after.spending and crawl.over_budget == STOP and budget.share(after.spending) >= 1 and not unwritten:
        return Ending.OVER_BUDGET
    worst = max(ends, key=lambda end: (end.given_up, abs(end.code)))
    what = "a worker died too often" if worst.given_up else "every worker has ended"
    lacks = f"{left} requests are left" if left else f"items of {unwritten} pages are in no output"
    # Exit code 1: a person has to change something.
    family = Misconfigured if worst.code == 1 else Unavailable
    raise family(f"{what}, and {lacks}: see {worst.log}")
