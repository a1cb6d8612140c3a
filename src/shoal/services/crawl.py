"""Run a planned crawl to its end, on whichever kind of store its settings name."""

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

    Calls `opened` once, before the first request, and `watch` four times a second.
    """
    # Imported here, because the types above are also needed where nothing is run.
    if is_redis(plan.settings.store):
        from shoal.services.crawl_on_redis import crawl_on_fleet

        return await crawl_on_fleet(plan, stop=stop, opened=opened, watch=watch)
    from shoal.engine.embedded import crawl

    return await crawl(plan, stop=stop, opened=opened, watch=watch)
