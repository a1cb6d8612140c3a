"""Running a planned crawl until it ends, on the store that its settings name."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from shoal.engine.plan import CrawlPlan, SeedList, Stop
from shoal.engine.runs.decide import Decision, RunAction
from shoal.engine.runs.outcome import Decided, NothingToDo
from shoal.engine.snapshot import RESUMED, Ending, HostSnapshot, Opening, Snapshot, Summary, WorkerStats
from shoal.frontier.results import Counts, DeadLetter
from shoal.model.errors import Misconfigured
from shoal.model.yields.counts import YieldDrop
from shoal.services.inspect.status_json import patterns_json
from shoal.sinks.drafts import name_beside, place_of

if TYPE_CHECKING:
    from shoal.engine.crawl import Crawl
    from shoal.model.settings import Settings
    from shoal.stores.contract.store import Store

__all__ = [
    "RESUMED",
    "CrawlPlan",
    "CrawlResult",
    "Decision",
    "Ending",
    "HostSnapshot",
    "NothingToDo",
    "Opening",
    "RunAction",
    "SeedList",
    "Snapshot",
    "Stop",
    "Summary",
    "run_crawl",
    "summary_json",
]


@dataclass(frozen=True, slots=True)
class CrawlResult:
    summary: Summary
    dead_letter: DeadLetter | None = None  # of a crawl without a page: why
    decision: Decision | None = None  # of a crawl that did not run: why


async def run_crawl(
    plan: CrawlPlan,
    *,
    stop: Stop,
    opened: Callable[[Opening], None] | None = None,
    watch: Callable[[Snapshot], None] | None = None,
    is_behind: Callable[[], bool] | None = None,
    decided: Decided | None = None,
    metrics: str | None = None,
) -> CrawlResult:
    """Run a crawl until it is finished or `stop` is set; the same call resumes it.

    Calls `decided` once with what the command does to the crawl, `opened` once, before the first request, and
    `watch` four times per second. This process takes no further request while `is_behind` returns true. On a
    shared store, the crawl is submitted and this process works on it; other workers may join at any time, and
    continue when it stops. With `metrics` (HOST:PORT), figures for Prometheus are served there while it runs.
    """
    # Imported late: the types above are also needed where nothing runs.
    from shoal.engine.embedded_run.run import crawl
    from shoal.stores.open import open_store, store_exists

    if plan.dry_run and not store_exists(plan.settings.store):
        await check_plan(plan)
        decision = Decision(action=RunAction.BEGIN, reason=f"crawl {plan.name or 'of this command'} is new")
        complete = NothingToDo(plan.name, decision, Counts())
        return CrawlResult(complete_summary(complete, ""), decision=decision)
    async with open_store(plan.settings.store, create=True) as store:
        serve = partial(_serve, plan.settings, metrics, store, stop)
        run = partial(crawl, plan, store, stop=stop, watch=watch, is_behind=is_behind, serve=serve)
        try:
            if store.capabilities.shared:
                shared = partial(_run_shared, plan, store, stop, opened, watch=watch, is_behind=is_behind)
                summary = with_kept(await shared(decided=decided, metrics=metrics))
                summary = await with_yield(store, summary)
                return CrawlResult(summary, await _explain(store, summary))
            if store.capabilities.durable:
                summary = await run(opened=opened, decided=decided)
                return CrawlResult(summary, await _explain(store, summary))
        except NothingToDo as complete:
            summary = complete_summary(complete, store.address)
            if store.capabilities.shared and complete.crawl in await store.crawls.names():
                summary = await with_yield(store, summary)
            return CrawlResult(summary, decision=complete.decision)
        if not plan.outputs:
            raise Misconfigured(f"store: {store.address} keeps no items: name an output with --out")
        summary = await run(opened=_without_paths(opened))
        summary = replace(summary, archive="", rejects="", durable=False)
        return CrawlResult(summary, await _explain(store, summary))


async def check_plan(plan: CrawlPlan) -> None:
    """Load the spider of a new crawl and look at its outputs; raise `Misconfigured` for what cannot work."""
    from shoal.engine.crawl_options import sandbox_rules
    from shoal.engine.seeding import start_requests
    from shoal.parse.pool import ParsePool
    from shoal.sinks.drafts import refuse_foreign
    from shoal.sinks.files import check_place
    from shoal.sinks.registry import resolve

    async with ParsePool.open(
        plan.source, procs=1, limits=plan.settings.parse, sandbox=sandbox_rules(plan.settings)
    ) as parser:
        start_requests(plan, parser.description)
    for output in plan.outputs:
        if resolve(output).capabilities.is_file:
            check_place(output)
    refuse_foreign(plan.outputs, own=(), confirmed=plan.confirmed)


async def with_yield(store: "Store", summary: Summary) -> Summary:
    """Return the summary with what workers have found out of range in a generation that has ended."""
    if summary.ending in RESUMED:
        return summary
    totals = await store.crawls.totals(summary.snapshot.crawl)
    return replace(summary, dropped=totals.dropped, no_data=totals.no_data)


@asynccontextmanager
async def _serve(
    settings: "Settings", metrics: str | None, store: "Store", stop: Stop, running: "Crawl"
) -> AsyncIterator[None]:
    """Evaluate alerts of a crawl that this process runs alone, and serve its figures."""
    from shoal.services.alerts.watch import AlertWatch, watching
    from shoal.services.alerts.webhooks import open_webhooks

    def stats() -> WorkerStats:
        return WorkerStats(
            slots=running.slots,
            busy=running.in_flight,
            draining=stop.drain.is_set(),
            done={running.name: running.done},
            parsing=running.parsing,
            committing_s=running.committing_s,
            oldest_lease_s=running.oldest_lease_s,
        )

    async with AsyncExitStack() as stack:
        if settings.alerts.enabled:
            watch = AlertWatch(
                store,
                settings.alerts,
                worker=running.holder,
                stats=stats,
                hosts=running.hosts,
                notifier=await stack.enter_async_context(open_webhooks(settings)),
                is_finished=lambda: not stop.drain.is_set(),
            )
            await stack.enter_async_context(watching(watch))
        if metrics is not None:
            from shoal.services.inspect.status import read_status
            from shoal.worker.http_endpoint import Endpoint

            endpoint = Endpoint.listening(metrics, stats, partial(read_status, store))
            await stack.enter_async_context(endpoint)
        yield
        if settings.alerts.enabled and (await store.crawls.totals(running.name)).dropped:
            await watch.look()  # the last round may have been before the crawl ended


def _without_paths(opened: Callable[[Opening], None] | None) -> Callable[[Opening], None] | None:
    """Report the address of a temporary store as its archive: its folder is deleted at the end."""
    if opened is None:
        return None
    return lambda opening: opened(replace(opening, archive=opening.store))


async def _run_shared(
    plan: CrawlPlan,
    store: "Store",
    stop: Stop,
    opened: Callable[[Opening], None] | None,
    *,
    watch: Callable[[Snapshot], None] | None,
    is_behind: Callable[[], bool] | None,
    decided: Decided | None,
    metrics: str | None,
) -> Summary:
    from shoal.engine.crawl_options import parse_processes, sandbox_rules
    from shoal.engine.fetchers import Pools, check_seed_pools, check_waiting_pools, exits_in_words
    from shoal.engine.seeding import start_requests
    from shoal.fetch.registry import usable_pools
    from shoal.parse.pool import ParsePool
    from shoal.services.alerts.worker import alerting_worker
    from shoal.services.submit import own_places, submit_known
    from shoal.stores.contract.crawl_record import LOCAL_FOLDER
    from shoal.stores.contract.heartbeat import served_pools
    from shoal.worker.rules import WorkerRules
    from shoal.worker.worker import Worker, WorkerPlan

    settings = plan.settings
    usable, elsewhere = usable_pools(settings.browser), frozenset(served_pools(await store.workers.all()))
    pools = Pools(usable, exclusive=True, elsewhere=elsewhere, browser=settings.browser.path)
    procs, sandbox = parse_processes(settings.crawl), sandbox_rules(settings)
    async with ParsePool.open(plan.source, procs=procs, limits=settings.parse, sandbox=sandbox) as parser:
        spider = parser.description
        check_seed_pools(pools, spider.name, start_requests(plan, spider))
        submitted = await submit_known(store, plan, spider, stop, parser=parser, decided=decided)
        waiting = await store.frontier.waiting_by_pool(submitted.crawl)
        check_waiting_pools(pools, submitted.crawl, waiting)
        if opened is not None:
            counts = await store.frontier.counts(submitted.crawl)
            opened(
                Opening(
                    submitted.crawl,
                    submitted.resumed,
                    counts.by_state(),
                    submitted.outputs,
                    f"{LOCAL_FOLDER}/archive",
                    store.address,
                    parser.sandbox_warning,
                    exits_in_words(settings.proxies),
                )
            )
        worker_plan = WorkerPlan(
            concurrency=settings.crawl.concurrency,
            pools=pools.names,
            pools_elsewhere=elsewhere,
            until_done=True,
            only=submitted.crawl,
            rules=WorkerRules.of(settings, own=own_places(plan, submitted.crawl)),
            sandbox=sandbox,
        )
        worker = Worker(store.fleet, worker_plan, stop, watch, parser, is_behind=is_behind)
        async with AsyncExitStack() as stack:
            if metrics is not None:
                from shoal.services.inspect.status import read_status
                from shoal.worker.http_endpoint import Endpoint

                endpoint = Endpoint.listening(metrics, worker.stats, partial(read_status, store))
                await stack.enter_async_context(endpoint)
            await stack.enter_async_context(alerting_worker(store, settings, worker))
            await worker.run()
        return worker.summary(submitted.crawl)


async def _explain(store: "Store", summary: Summary) -> DeadLetter | None:
    """Return the latest dead letter of a crawl that has no page."""
    from shoal.services.control.dead_letters import DeadLetterFilter, read_dead_letters
    from shoal.stores.contract.store import StoreBusy

    if summary.snapshot.counts.get("done"):
        return None
    wanted = DeadLetterFilter(summary.snapshot.crawl, limit=1)
    if store.capabilities.shared:
        return next(iter(await read_dead_letters(store, wanted)), None)
    with suppress(StoreBusy):
        async with store.work():
            return next(iter(await read_dead_letters(store, wanted)), None)
    return None


def with_kept(summary: Summary) -> Summary:
    """Return the summary with the outputs on this machine that a generation of a fleet has not replaced."""
    if summary.ending in RESUMED:
        return summary
    kept = tuple(output for output in summary.outputs if place_of(output) != output)
    shown = [name for output in kept if Path(name := name_beside(output)).is_symlink()]
    return replace(summary, kept=kept, new_data=shown)


def complete_summary(complete: NothingToDo, store: str) -> Summary:
    """Return the summary of a command that had nothing to do."""
    snapshot = Snapshot(
        crawl=complete.crawl,
        elapsed=0.0,
        pages=0,
        items=0,
        bytes=0,
        rate=0.0,
        counts=complete.counts.by_state(),
        failures={},
        filtered={},
        in_flight=0,
        parse_backlog=0,
    )
    dead = dict(complete.counts.dead_by_class)
    return Summary(Ending.COMPLETE, snapshot, resumed=True, store=store, dead_by_class=dead)


def drop_json(drop: YieldDrop) -> dict[str, object]:
    """Return a figure that is out of range for --json."""
    return {**msgspec.structs.asdict(drop), "urls": list(drop.urls), "text": drop.text}


def decision_json(decision: Decision) -> dict[str, object]:
    return {
        "action": decision.action.value,
        "reason": decision.reason,
        "ways": list(decision.ways),
        "notes": list(decision.notes),
    }


def summary_json(summary: Summary, *, code: int, decision: Decision | None = None) -> dict[str, object]:
    """Return the summary for --json; times in seconds."""
    now = summary.snapshot
    return {
        "crawl": now.crawl,
        "ending": summary.ending.value,
        "exit_code": int(code),
        "resumed": summary.resumed,
        "elapsed_s": round(now.elapsed, 3),
        "pages": now.pages,
        "items": now.items,
        "rejected": now.rejected,
        "withheld": now.withheld,
        "lenient": now.lenient,
        "unchanged": now.unchanged,
        "partial": now.partial,
        "hook_faults": now.hook_faults,
        "duplicates": now.duplicates,
        "retries": now.retries,
        "dropped_items": dict(now.discarded),
        "bytes": now.bytes,
        "pages_per_s": round(now.pages / now.elapsed, 2) if now.elapsed > 0 else 0.0,
        "counts": dict(now.counts),
        "failures": dict(now.failures),
        "filtered": dict(now.filtered),
        "dead_by_class": dict(summary.dead_by_class),
        "large_patterns": patterns_json(summary.large),
        "closed_patterns": patterns_json(summary.closed),
        "outputs": list(summary.outputs),
        "kept": list(summary.kept),
        "new_data": list(summary.new_data),
        "dropped": [drop_json(drop) for drop in summary.dropped],
        "no_data": summary.no_data,
        "rejects": summary.rejects,
        "archive": summary.archive,
        "store": summary.store,
        "sandbox_warning": summary.sandbox_warning,
        "decision": None if decision is None else decision_json(decision),
    }
