"""Deleting a crawl: its store keeps nothing of it. Its outputs and archived pages stay.

A crawl that is being worked on is not deleted: `StoreBusy` or `Unavailable` is raised. A paused crawl of a
shared store without pages in progress may be deleted; its workers leave it as soon as its record is gone.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from shoal.stores.contract.footprint import CrawlFootprint
from shoal.stores.contract.store import Store
from shoal.stores.open import open_store

__all__ = ["CrawlDeletion", "CrawlFootprint", "delete_json", "open_deletion"]


@dataclass(frozen=True, slots=True)
class CrawlDeletion:
    """A crawl that may be deleted."""

    store: Store
    footprint: CrawlFootprint

    async def delete(self) -> None:
        """Delete the crawl. Raise if a process has started to work on it."""
        await self.store.crawls.delete(self.footprint.crawl)


@asynccontextmanager
async def open_deletion(dsn: str, crawl: str) -> AsyncIterator[CrawlDeletion]:
    """Look up a crawl that may be deleted. Raise if it does not exist or is being worked on."""
    async with open_store(dsn) as store:
        yield CrawlDeletion(store, await store.crawls.footprint(crawl))


def delete_json(store: str, deleted: CrawlFootprint) -> dict[str, object]:
    return {
        "store": store,
        "forgotten": deleted.crawl,
        "accepted": deleted.accepted,
        "open": deleted.open,
        "dead": deleted.dead,
        "unwritten": deleted.unwritten,
        "outputs": list(deleted.outputs),
        "archive": deleted.archive,
    }
