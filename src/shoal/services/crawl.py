"""Running a planned crawl until it ends, on the store that its settings name."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shoal.engine.plan import CrawlPlan, SeedList, Stop
from shoal.engine.snapshot import Ending, HostSnapshot, Opening, Snapshot, Summary
from shoal.frontier.results import DeadLetter
from shoal.model.errors import Misconfigured
from shoal.services.inspect.status_json import patterns_json

if TYPE_CHECKING:
    from shoal.stores.contract.store import Store

__all__ = [
    "CrawlPlan",
    "CrawlResult",
    "Ending",
    "HostSnapshot",
    "Opening",
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


async def run_crawl(
    plan: CrawlPlan,
    *,
    stop: Stop,
    opened: Callable[[Opening], None] | None = None,
    watch: Callable[[Snapshot], None] | None = None,
) -> CrawlResult:
    """Run a crawl until it is finished or `stop` is set; the same call resumes it.

    Calls `opened` once, before the first request, and `watch` four times per second. On a shared store, the
    crawl is submitted and this process works on it; other workers may join at any time, and continue when it
    stops.
    """
    # Imported late: the types above are also needed where nothing runs.
    from shoal.engine.embedded import crawl
    from shoal.stores.open import open_store

    async with open_store(plan.settings.store, create=True) as store:
        if store.capabilities.shared:
            return CrawlResult(await _run_shared(plan, store, stop, opened, watch))
        if store.capabilities.durable:
            summary = await crawl(plan, store, stop=stop, opened=opened, watch=watch)
            return CrawlResult(summary, await _explain(store, summary))
        if not plan.outputs:
            raise Misconfigured(f"store: {store.address} keeps no items: name an output with --out")
        summary = await crawl(plan, store, stop=stop, opened=_without_paths(opened), watch=watch)
        summary = replace(summary, archive="", rejects="", durable=False)
        return CrawlResult(summary, await _explain(store, summary))


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
    watch: Callable[[Snapshot], None] | None,
) -> Summary:
    from shoal.engine.crawl_options import parse_processes, sandbox_rules
    from shoal.engine.fetchers import Pools, check_seed_pools, check_waiting_pools
    from shoal.engine.seeding import start_requests
    from shoal.fetch.registry import fetcher_factories
    from shoal.parse.pool import ParsePool
    from shoal.services.submit import own_places, submit_known
    from shoal.stores.contract.crawl_record import LOCAL_FOLDER
    from shoal.stores.contract.heartbeat import served_pools
    from shoal.worker.rules import WorkerRules
    from shoal.worker.worker import Worker, WorkerPlan

    settings = plan.settings
    factories, elsewhere = tuple(fetcher_factories()), frozenset(served_pools(await store.workers.all()))
    pools = Pools(factories, exclusive=True, elsewhere=elsewhere)
    procs, sandbox = parse_processes(settings.crawl), sandbox_rules(settings)
    async with ParsePool.open(plan.source, procs=procs, limits=settings.parse, sandbox=sandbox) as parser:
        spider = parser.description
        check_seed_pools(pools, spider.name, start_requests(plan, spider))
        submitted = await submit_known(store.fleet, plan, spider, stop)
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
        worker = Worker(store.fleet, worker_plan, stop, watch, parser)
        await worker.run()
        return worker.summary(submitted.crawl)


async def _explain(store: "Store", summary: Summary) -> DeadLetter | None:
    """Return the latest dead letter of a crawl that has no page."""
    from shoal.services.control.dead_letters import DeadLetterFilter, read_dead_letters
    from shoal.stores.contract.store import StoreBusy

    if summary.snapshot.counts.get("done"):
        return None
    with suppress(StoreBusy):
        async with store.own():
            found = await read_dead_letters(store, DeadLetterFilter(summary.snapshot.crawl, limit=1))
            return next(iter(found), None)
    return None


def summary_json(summary: Summary, *, code: int) -> dict[str, object]:
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
        "partial": now.partial,
        "hook_faults": now.hook_faults,
        "bytes": now.bytes,
        "pages_per_s": round(now.pages / now.elapsed, 2) if now.elapsed > 0 else 0.0,
        "counts": dict(now.counts),
        "failures": dict(now.failures),
        "filtered": dict(now.filtered),
        "dead_by_class": dict(summary.dead_by_class),
        "quarantined": patterns_json(summary.quarantined),
        "near_duplicates": patterns_json(summary.near_duplicates),
        "identical_pages": patterns_json(summary.identical),
        "outputs": list(summary.outputs),
        "rejects": summary.rejects,
        "archive": summary.archive,
        "store": summary.store,
        "sandbox_warning": summary.sandbox_warning,
    }
