"""What the store knows of pages from earlier generations, read for all leases of a grant at once.

One query for thirty pages takes little more than one for a single page, in a folder and on Redis alike.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from shoal.model.outcome import Lease

MAX_RECORDS = 10_000  # that were read and not used: their leases were given back


class EarlierFrontier(Protocol):
    """The part of a frontier that these records come from."""

    async def earlier_pages(
        self, crawl: str, fingerprints: Sequence[int], *, host: str = ""
    ) -> Mapping[int, bytes]: ...


class EarlierRecords:
    def __init__(self, frontier: EarlierFrontier, crawl: str) -> None:
        self._frontier = frontier
        self._crawl = crawl
        self._records: dict[int, bytes | None] = {}  # by fingerprint; None: it has no record

    async def load(self, leases: Sequence[Lease]) -> None:
        """Read the records of the pages that are about to be fetched."""
        if len(self._records) > MAX_RECORDS:
            self._records.clear()
        by_host: dict[str, list[int]] = {}
        for lease in leases:
            by_host.setdefault(lease.host, []).append(lease.fingerprint)
        # The requests to a store with several shards leave at the same time.
        await asyncio.gather(*(self._load(host, fps) for host, fps in by_host.items()))

    async def _load(self, host: str, fps: Sequence[int]) -> None:
        found = await self._frontier.earlier_pages(self._crawl, fps, host=host)
        self._records.update((fp, found.get(fp)) for fp in fps)

    async def take(self, lease: Lease) -> bytes | None:
        """Return the record of a page, once; None: no earlier generation has fetched it."""
        fp = lease.fingerprint
        if fp not in self._records:
            await self._load(lease.host, [fp])
        return self._records.pop(fp)
