"""`shoal crawl` on a fleet's store: submit a crawl, and work on it here until it is done.

Other workers may join in at any time, and go on when this one is stopped.
"""

from collections.abc import Callable

from shoal.engine.plan import CrawlPlan, Stop
from shoal.engine.session import procs_of
from shoal.engine.snapshot import Opening, Snapshot, Summary
from shoal.parse.pool import ParsePool
from shoal.services.submit import submit_known
from shoal.stores.contract.crawl_record import LOCAL_FOLDER
from shoal.stores.contract.fleet import Fleet
from shoal.worker.worker import Worker, WorkerPlan


async def crawl_on_fleet(
    plan: CrawlPlan,
    fleet: Fleet,
    *,
    stop: Stop,
    opened: Callable[[Opening], None] | None = None,
    watch: Callable[[Snapshot], None] | None = None,
) -> Summary:
    """Run a crawl to its end, or until `stop` asks it to end earlier; like `crawl`, on a shared store."""
    settings = plan.settings
    store = fleet.client
    async with ParsePool.open(plan.source, procs=procs_of(settings.crawl), limits=settings.parse) as parser:
        submitted = await submit_known(store, plan, parser.description, stop)
        frontier = fleet.frontier
        if opened is not None:
            counts = await frontier.reader.counts(submitted.crawl)
            opened(
                Opening(
                    submitted.crawl,
                    submitted.resumed,
                    counts.by_state(),
                    submitted.outputs,
                    f"{LOCAL_FOLDER}/archive",
                    str(store.dsn),
                )
            )
        wanted = WorkerPlan(
            concurrency=plan.settings.crawl.concurrency, until_done=True, only=submitted.crawl
        )
        worker = Worker(store, wanted, stop, watch, parser)
        await worker.run()
        return worker.summary(submitted.crawl)
