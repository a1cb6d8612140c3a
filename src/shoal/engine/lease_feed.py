"""The feed: keeps the slots supplied with leases while there is room, and notices when nothing is left.

It is the only part of a crawl that waits for others, and they wake it: a commit that may have freed work, a
slot that has few leases left before it, a request to stop.
"""

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress

from shoal.engine.commit import MOST
from shoal.engine.leases import Leases
from shoal.engine.plan import Stop
from shoal.engine.slots import Slots
from shoal.engine.stations import Stations
from shoal.frontier.finished import is_finished

LEASE_BATCH = 32
PARSE_BACKLOG = 512  # pages in the parse stage at which fetching pauses
PARSE_BACKLOG_BYTES = 64 << 20
IDLE = 1.0  # longest sleep between two looks at the frontier


class LeaseFeed:
    """`part`: how many requests the crawl may have in hand, where several share a worker."""

    def __init__(
        self,
        stations: Stations,
        leases: Leases,
        slots: Slots,
        wake: asyncio.Event,
        part: Callable[[], int] | None = None,
    ) -> None:
        self._stations = stations
        self._settings = stations.settings.crawl
        self._leases = leases
        self._slots = slots
        self._wake = wake
        self._part = part

    async def run(self, stop: Stop) -> None:
        """Supply the slots until nothing is left or `stop` is set, then send them home."""
        while not stop.drain.is_set():
            wait = IDLE
            room = await self._room()
            if room > 0:
                grant = await self._leases.take(room)
                for lease in grant.leases:
                    self._slots.put(lease)
                if grant.leases:
                    continue
                wait = grant.wait
            if await self._finished(wait):
                break
            await self._sleep(wait, stop)
        for unbegun in self._slots.close():
            self._leases.give_back(unbegun)

    async def attend(self, stop: Stop) -> None:
        """Let pages come that others have fetched, until the crawl has come to its end."""
        while not stop.drain.is_set() and not await self._finished(math.inf):
            await self._sleep(IDLE, stop)

    async def _room(self) -> int:
        """Say how many more leases may be taken now, in one go."""
        held = self._leases.owed
        room = max(0, min(self._space(held), LEASE_BATCH))
        if self._stations.allowance is None:
            return room
        return await self._stations.allowance.take(held, room)

    def _space(self, held: int) -> int:
        if self._stations.crowded is not None and self._stations.crowded():
            return 0
        backlog = self._stations.parser.backlog
        if backlog.pages >= PARSE_BACKLOG or backlog.bytes >= PARSE_BACKLOG_BYTES:
            return 0
        # A store that takes its time must not let more pile up than a kill may cost.
        part = self._settings.concurrency if self._part is None else self._part()
        return min(self._settings.concurrency + MOST - held, part + MOST - held, self._slots.room)

    async def _finished(self, wait: float) -> bool:
        if self._leases:
            return False
        frontier, crawl, limit = self._stations.frontier, self._stations.crawl, self._settings.max_pages
        if limit and (await frontier.reader.counts(crawl)).done >= limit:
            return True
        return self._stations.ownership.may_be_finished(wait) and await is_finished(frontier.reader, crawl)

    async def _sleep(self, seconds: float, stop: Stop) -> None:
        """Sleep until something happened that may free work, at most `seconds`."""
        self._wake.clear()
        if stop.drain.is_set():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(min(max(seconds, 0.001), IDLE)):
                await self._wake.wait()
