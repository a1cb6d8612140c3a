"""New rows of the fetch logs of a store: each is read once, and a bounded number per pass."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field

from shoal.archive.fetch_log import LoggedAttempt, TailPosition
from shoal.archive.names import SegmentName
from shoal.model.errors import ShoalError
from shoal.stores.contract.pages import CrawlPages
from shoal.stores.contract.store import Store

MAX_ROWS = 20_000  # of one crawl and pass
FIRST_ROWS = 50_000  # of one crawl, when it is seen for the first time
MAX_CRAWLS = 20  # per pass


@dataclass(slots=True)
class _Log:
    pages: CrawlPages
    positions: dict[SegmentName, TailPosition] = field(default_factory=dict)
    opened: bool = False


class LogTail:
    """Follows the fetch logs of a store's crawls, as far as this machine reaches them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._logs: dict[str, _Log] = {}
        self.problem = ""  # why rows may be missing

    async def past_rows(self, crawl: str) -> list[LoggedAttempt]:
        """Return the newest rows of a crawl that was not followed before; empty: it was."""
        known = self._logs.get(crawl)
        return await self._read(crawl) if known is None or not known.opened else []

    async def new_rows(self, crawls: Collection[str]) -> list[LoggedAttempt]:
        """Return what was logged since the last call, of the first of these crawls."""
        rows: list[LoggedAttempt] = []
        for crawl in list(crawls)[:MAX_CRAWLS]:
            rows += await self._read(crawl)
        return rows

    async def _read(self, crawl: str) -> list[LoggedAttempt]:
        try:
            if (log := self._logs.get(crawl)) is None:
                log = self._logs[crawl] = _Log(await self._store.archive_of(crawl))
            limit = MAX_ROWS if log.opened else FIRST_ROWS
            rows = await asyncio.to_thread(log.pages.fetch_log.new_rows, log.positions, limit=limit)
            log.opened = True
            if not log.pages.is_shared and not log.positions:
                self.problem = (
                    "the fetch log is on the machines of the workers, so latency and failures are not shown:"
                    " archive.location names one place for all"
                )
            elif rows:
                self.problem = ""
        except ShoalError as error:
            self.problem = str(error)
            return []
        return rows

    def forget(self, kept: Collection[str]) -> None:
        """Drop what is known of crawls that were deleted."""
        for crawl in [crawl for crawl in self._logs if crawl not in kept]:
            del self._logs[crawl]
