"""What handlers share: the store's address, the settings, and the parts of the server that live as long."""

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from shoal.model.errors import ShoalError
from shoal.model.settings import Settings
from shoal.server.access.gate import AccessGate
from shoal.server.state.events import SnapshotFeed
from shoal.services.idempotency import IdempotentRequests, open_requests
from shoal.services.inspect.snapshots import store_answers
from shoal.services.live.past import PastFigures
from shoal.services.live.sampler import LiveStore
from shoal.services.live.searches import TraceSearches
from shoal.services.remote.downloads import AT_ONCE
from shoal.services.remote.processes import CrawlProcesses
from shoal.services.scraping.scrape import Scraper

READY_TTL_S = 2.0  # for which the store is not asked again
READY_TIMEOUT_S = 5.0


@dataclass(slots=True)
class Readiness:
    """Whether the store answers; asked at most every few seconds, however often a probe asks."""

    asked_at: float = -READY_TTL_S
    ready: bool = False
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True)
class ApiServer:
    settings: Settings
    gate: AccessGate
    events: SnapshotFeed
    openapi: bytes
    crawls: CrawlProcesses
    scraper: Scraper
    live: LiveStore
    past: PastFigures
    searches: TraceSearches
    readiness: Readiness = field(default_factory=Readiness)
    exports: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    @property
    def dsn(self) -> str:
        """The address of the store; it may contain a password."""
        return self.settings.store

    def open_idempotency(self) -> AbstractAsyncContextManager[IdempotentRequests]:
        return open_requests(self.dsn)

    async def is_ready(self) -> bool:
        known = self.readiness
        async with known.asking:
            if time.monotonic() - known.asked_at >= READY_TTL_S:
                try:
                    async with asyncio.timeout(READY_TIMEOUT_S):
                        known.ready = await store_answers(self.dsn)
                except (ShoalError, TimeoutError):
                    known.ready = False
                known.asked_at = time.monotonic()
            return known.ready
