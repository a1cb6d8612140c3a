"""Pausing and resuming crawls, while they run or not."""

from shoal.stores.contract.store import select_crawls
from shoal.stores.open import open_store


async def pause_crawls(dsn: str, crawl: str | None, *, paused: bool) -> list[str]:
    """Pause or resume one crawl of a store, or all; return their names."""
    async with open_store(dsn) as store:
        names = await select_crawls(store, crawl)
        async with store.change() as changes:
            for name in names:
                await (changes.pause(name) if paused else changes.resume(name))
    return names
