"""Run a planned crawl to its end, on the store that its settings name."""

from collections.abc import Callable

from shoal.engine.plan import CrawlPlan, SeedList, Stop
from shoal.engine.snapshot import Ending, HostSnapshot, Opening, Snapshot, Summary
from shoal.stores.address import is_redis

__all__ = [
    "CrawlPlan",
    "Ending",
    "HostSnapshot",
    "Opening",
    "SeedList",
    "Snapshot",
    "Stop",
    "Summary",
    "run_crawl",
]


async def run_crawl(
    plan: CrawlPlan,
    *,
    stop: Stop,
    opened: Callable[[Opening], None] | None = None,
    watch: Callable[[Snapshot], None] | None = None,
) -> Summary:
    """Run a crawl until it is finished or `stop` is set; the same call resumes it.

    Calls `opened` once, before the first request, and `watch` four times per second. On a store that others
    share, the crawl is submitted and this process works on it; other workers may join at any time, and
    continue when this one stops.
    """
    # Imported late: the types above are also needed where nothing runs.
    if is_redis(plan.settings.store):
        return await _run_shared(plan, stop, opened, watch)
    from shoal.engine.embedded import crawl

    return await crawl(plan, stop=stop, opened=opened, watch=watch)


async def _run_shared(
    plan: CrawlPlan,
    stop: Stop,
    opened: Callable[[Opening], None] | None,
    watch: Callable[[Snapshot], None] | None,
) -> Summary:
    from shoal.engine.crawl_options import parse_processes
    from shoal.fetch.registry import fetcher_factories
    from shoal.frontier.redis import RedisFrontier
    from shoal.parse.pool import ParsePool
    from shoal.redis_client import RedisClient
    from shoal.services.submit import submit_known
    from shoal.stores.redis.submitted import FOLDER
    from shoal.worker.worker import Worker, WorkerPlan

    settings = plan.settings
    async with (
        RedisClient.open(settings.store) as store,
        ParsePool.open(plan.source, procs=parse_processes(settings.crawl), limits=settings.parse) as parser,
    ):
        submitted = await submit_known(store, plan, parser.description, stop)
        if opened is not None:
            counts = await RedisFrontier(store).reader.counts(submitted.crawl)
            opened(
                Opening(
                    submitted.crawl,
                    submitted.resumed,
                    counts.by_state(),
                    submitted.outputs,
                    f"{FOLDER}/archive",
                    str(store.dsn),
                )
            )
        worker_plan = WorkerPlan(
            concurrency=settings.crawl.concurrency,
            pools=tuple(fetcher_factories()),
            until_done=True,
            only=submitted.crawl,
        )
        worker = Worker(store, worker_plan, stop, watch, parser)
        await worker.run()
        return worker.summary(submitted.crawl)
