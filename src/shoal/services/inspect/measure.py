"""A crawl's own numbers, for planning: its latest pages, and what is left by host."""

from shoal.frontier.results import CrawlStats
from shoal.model.errors import Misconfigured
from shoal.services.inspect.capacity import HostLoad, host_rate
from shoal.stores.access import chosen, open_reader
from shoal.stores.address import shown_store
from shoal.stores.reach import is_store

__all__ = ["CrawlStats", "host_loads", "measure"]


async def measure(store: str, crawl: str | None) -> tuple[str, CrawlStats]:
    """Measure a crawl of a store, the only one if none is named; returns its name as well."""
    if not is_store(store):
        raise Misconfigured(f"there is no store at {store}; give --pages to plan from numbers alone")
    async with open_reader(store) as reader:
        names = await chosen(reader, crawl)
        if len(names) != 1:
            known = ", ".join(names) or "none"
            where = shown_store(store)
            raise Misconfigured(f"{where} holds several crawls or none; choose with --crawl: {known}")
        return names[0], await reader.stats(names[0])


def host_loads(measured: CrawlStats, latency: float) -> list[HostLoad]:
    """Say of every host what is queued there and how often it can be asked; of paused ones, never."""
    return [
        HostLoad(
            queue.host,
            queue.queued,
            0.0 if queue.paused else host_rate(queue.interval, queue.concurrency, latency),
        )
        for queue in measured.hosts
    ]
