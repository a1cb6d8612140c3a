"""`shoal crawl` on a folder: one process that owns the store runs a crawl from its seeds to its outputs."""

from collections.abc import Callable

from shoal.engine import Crawl
from shoal.engine.plan import CrawlPlan, Stop
from shoal.engine.session import open_stations
from shoal.engine.snapshot import Opening, Snapshot, Summary
from shoal.stores.contract.store import Store


async def crawl(
    plan: CrawlPlan,
    store: Store,
    *,
    stop: Stop,
    opened: Callable[[Opening], None] | None = None,
    watch: Callable[[Snapshot], None] | None = None,
) -> Summary:
    """Run a crawl to its end, or until `stop` asks it to end earlier; the same call goes on from there.

    `opened` is told once what the crawl starts from, `watch` four times a second how it goes.
    """
    async with open_stations(plan, store, stop) as stations:
        running = Crawl(stations)
        if opened is not None:
            opened(await running.opening())
        return await running.summary(await running.run(stop, watch))
