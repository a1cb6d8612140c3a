"""How many pages a crawl may have rendered because hosts were escalated: over all workers, and per host."""

import heapq
import logging
import time
from collections import Counter
from collections.abc import Callable

import msgspec

from shoal.fetch.escalation.learned_levels import CRAWL, SWAPS, SYNC_S, LevelRecords
from shoal.model.errors import Unavailable

log = logging.getLogger(__name__)

MAX_HOSTS = 1_000  # that are counted by name

_encode = msgspec.msgpack.Encoder().encode


class SpentPages(msgspec.Struct, frozen=True, omit_defaults=True):
    """What all processes of a crawl have spent, as it is stored."""

    pages: int = 0
    hosts: dict[str, int] = {}

    def plus(self, counted: Counter[str]) -> "SpentPages":
        hosts = Counter(self.hosts) + counted
        kept = dict(heapq.nlargest(MAX_HOSTS, hosts.items(), key=lambda pair: pair[1]))
        return SpentPages(self.pages + counted.total(), kept)


_read = msgspec.msgpack.Decoder(SpentPages).decode


def read_spent(packed: bytes | None) -> SpentPages:
    """Return a stored record; one that cannot be read counts as nothing spent, and the log says so."""
    try:
        return SpentPages() if packed is None else _read(packed)
    except msgspec.DecodeError as error:
        log.error("level.record_unreadable", extra={"entry": "pages", "why": str(error)})
        return SpentPages()


async def delete_spent(records: LevelRecords, crawl: str) -> None:
    """Delete what a crawl has spent: it was deleted, or starts again."""
    key = f"{CRAWL}{crawl}"
    if (packed := await records.get(key)) is not None:
        await records.swap(key, packed, None)


class BrowserBudget:
    """`per_crawl`, `per_host`: pages; 0: no limit."""

    def __init__(
        self,
        crawl: str,
        records: LevelRecords | None,
        *,
        per_crawl: int = 0,
        per_host: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._crawl = crawl
        self._records = records
        self._per_crawl = per_crawl
        self._per_host = per_host
        self._clock = clock
        self._stored = SpentPages()
        self._counted: Counter[str] = Counter()
        self._synced_at = -SYNC_S
        self._syncing = False
        self._warned: set[str] = set()

    def count(self, host: str) -> None:
        self._counted[host] += 1

    def spent(self, host: str) -> str:
        """Return the setting that allows no more pages of a host; empty: there is room."""
        if self._per_crawl and self._stored.pages + self._counted.total() >= self._per_crawl:
            return self._note("crawl.browser_pages", self._per_crawl, "")
        pages = self._stored.hosts.get(host, 0) + self._counted[host]
        if self._per_host and pages >= self._per_host:
            return self._note("crawl.browser_pages_per_host", self._per_host, host)
        return ""

    def _note(self, setting: str, limit: int, host: str) -> str:
        if host not in self._warned and len(self._warned) < MAX_HOSTS:
            self._warned.add(host)
            about = {"crawl": self._crawl, **({"host": host} if host else {}), "limit": limit}
            log.warning("level.budget_spent", extra={**about, "change_with": setting})
        return setting

    async def sync(self, *, force: bool = False) -> None:
        """Add what was counted here to the record of the crawl, if that is due."""
        now = self._clock()
        if self._records is None or self._syncing or (now - self._synced_at < SYNC_S and not force):
            return
        if force and not self._counted:
            return
        self._syncing, self._synced_at = True, now
        try:
            await self._add(self._records)
        except Unavailable as error:
            log.warning("level.store_unavailable", extra={"why": str(error)})
        finally:
            self._syncing = False

    async def _add(self, records: LevelRecords) -> None:
        key = f"{CRAWL}{self._crawl}"
        counted = Counter(self._counted)
        for _ in range(SWAPS):
            before = await records.get(key)
            found = read_spent(before)
            after = found.plus(counted)
            if not counted or await records.swap(key, before, _encode(after)):
                self._stored = after
                self._counted -= counted
                return
