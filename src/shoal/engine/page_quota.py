"""`--max-pages`: how many requests may be in hand without the crawl getting more pages than it should.

A request that ends as no page gives its place back, so the limit is met exactly, and not before.
"""

from typing import Protocol

from shoal.frontier import Counts


class PageQuota(Protocol):
    async def take(self, held: int, wanted: int) -> int:
        """Say how many of the `wanted` leases may be taken, where `held` are in hand."""

    async def leave(self) -> None:
        """Hear that nothing more will be taken."""


class PageCounter(Protocol):
    async def counts(self, crawl: str) -> Counts: ...


class EmbeddedPageQuota:
    """The limit of a crawl that one process runs; others share it out (`shoal.stores.redis.page_quota`)."""

    def __init__(self, reader: PageCounter, crawl: str, limit: int) -> None:
        self._reader = reader
        self._crawl = crawl
        self._limit = limit

    async def take(self, held: int, wanted: int) -> int:
        counts = await self._reader.counts(self._crawl)
        return min(wanted, self._limit - counts.done - counts.parsing - counts.leased)

    async def leave(self) -> None:
        pass  # there is nobody else
