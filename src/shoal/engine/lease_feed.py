"""The lease feed: supplies the slots with leases while there is capacity, and notices when nothing is left.

It is the only part of a crawl that waits. `wake` ends the wait: a commit that may have freed work, a slot
with few leases queued, a request to stop.

Requests whose worker died twice are tried again alone, so that the next death is their own (`isolate`). The
death of a worker is weak evidence against each of the many requests that it had in progress. A request that
was there twice is given up only after further deaths at which nothing else of its crawl was in progress at
that worker.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from shoal.engine.attempts import Slots
from shoal.engine.commit import COMMIT_BATCH
from shoal.engine.leases import Leases
from shoal.engine.plan import Stop
from shoal.engine.stations import Stations
from shoal.frontier.finished import is_finished
from shoal.model.outcome import Lease

LEASE_BATCH = 32
PARSE_BACKLOG = 512  # pages in the parse stage at which fetching pauses
PARSE_BACKLOG_BYTES = 64 << 20
LINK_BYTES = 64 << 20  # of found links that are not in the store yet, at which fetching pauses
LEASES_PER_REQUEST = 8  # that wait for their commit, of a crawl that may send few at a time
IDLE_S = 1.0  # longest sleep between two calls to the frontier


ALONE_AFTER = 2  # deaths with other requests in progress
COME_BACK_S = 1.0  # a request that has to be alone and cannot be yet is offered again after that


class Isolated(NamedTuple):
    """What becomes of the leases of one grant."""

    run: Sequence[Lease]
    give_back: Sequence[Lease] = ()  # at once
    later: Sequence[Lease] = ()  # when nothing else is in progress
    alone: bool = False  # the one that runs must stay alone


def isolate(leases: Sequence[Lease], *, in_progress: int) -> Isolated:
    """Decide which of the granted leases run now; `in_progress`: those that were held before."""
    suspects = [lease for lease in leases if lease.crashes >= ALONE_AFTER]
    if not suspects:
        return Isolated(leases)
    first = suspects[0]
    others = [lease for lease in leases if lease is not first]
    if in_progress:
        return Isolated([lease for lease in leases if lease not in suspects], later=suspects)
    return Isolated([first], give_back=others, alone=True)


class LeaseFeed:
    def __init__(
        self,
        stations: Stations,
        leases: Leases,
        slots: Slots,
        wake: asyncio.Event,
        prepare: Callable[[Sequence[Lease]], Awaitable[None]] | None = None,
    ) -> None:
        """`prepare`: called with all leases of a grant before they are put into slots."""
        self._stations = stations
        self._settings = stations.settings.crawl
        self._leases = leases
        self._slots = slots
        self._wake = wake
        self._prepare = prepare
        self.no_exit = ""  # why it ended while requests wait: no exit works
        self._drain = False  # lease nothing until nothing is in progress: a request has to run alone

    async def run(self, stop: Stop) -> None:
        """Supply the slots until nothing is left or `stop` is set; then close them, and return unused
        leases.
        """
        ledger = self._stations.ledger
        while not stop.drain.is_set():
            if ledger is not None:
                await ledger.sync()
                if ledger.must_stop:
                    break
            if self._stations.no_exit is not None and (why := self._stations.no_exit()):
                self.no_exit = why  # an answer that comes now does not change why it ended
                break
            wait = IDLE_S
            self._drain = self._drain and self._leases.at_risk > 0
            room = 0 if self._drain else await self._room()
            if room > 0:
                in_progress = self._leases.at_risk
                grant = await self._leases.take(room)
                granted = self._isolate(grant.leases, in_progress)
                if self._prepare is not None and granted:
                    await self._prepare(granted)
                for lease in granted:
                    self._slots.put(lease)
                if grant.leases and not self._drain:
                    continue
                wait = grant.wait
            if await self._finished(wait):
                break
            await self._sleep(wait, stop)
        for unused in self._slots.close():
            self._leases.give_back(unused)

    def _isolate(self, leases: Sequence[Lease], in_progress: int) -> Sequence[Lease]:
        """Return the leases that run now, and give back those that would share a suspect's fate."""
        isolated = isolate(leases, in_progress=in_progress)
        for lease in isolated.give_back:
            self._leases.give_back(lease)
        for lease in isolated.later:
            self._leases.give_back(lease, delay=COME_BACK_S)
        self._drain = isolated.alone or bool(isolated.later)
        return isolated.run

    async def wait_until_finished(self, stop: Stop) -> None:
        """Lease nothing, and return when the crawl is finished: this worker parses what others fetch."""
        while not stop.drain.is_set() and not await self._finished(math.inf):
            await self._sleep(IDLE_S, stop)

    async def _room(self) -> int:
        """Return how many more leases may be taken now, in one call."""
        held = self._leases.at_risk
        room = max(0, min(self._capacity(held), LEASE_BATCH))
        if self._stations.quota is None:
            return room
        return await self._stations.quota.take(held, room)

    def _capacity(self, held: int) -> int:
        capacity = self._stations.share.capacity
        if capacity is not None and capacity.later_stages_full:
            return 0
        backlog = self._stations.parser.backlog
        if backlog.pages >= PARSE_BACKLOG or backlog.bytes >= PARSE_BACKLOG_BYTES:
            return 0
        if self._leases.link_bytes >= LINK_BYTES:
            return 0
        # A slow store must not let more pile up than a kill may cost.
        concurrency = self._settings.concurrency
        if capacity is None or capacity.max_requests >= concurrency:
            return min(concurrency + COMMIT_BATCH - held, self._slots.room(concurrency))
        share = capacity.max_requests
        return min(share + min(COMMIT_BATCH, LEASES_PER_REQUEST * share) - held, self._slots.room(share))

    async def _finished(self, wait: float) -> bool:
        if self._leases:
            return False
        frontier, crawl, limit = self._stations.frontier, self._stations.crawl, self._settings.max_pages
        if limit and (await frontier.reader.counts(crawl)).pages >= limit:
            return True
        return self._stations.ownership.may_be_finished(wait) and await is_finished(frontier.reader, crawl)

    async def _sleep(self, seconds: float, stop: Stop) -> None:
        """Sleep until `wake` is set, at most `seconds`."""
        self._wake.clear()
        if stop.drain.is_set():
            return
        capacity = self._stations.share.capacity
        longest = IDLE_S if capacity is None else capacity.longest_sleep_s
        with suppress(TimeoutError):
            async with asyncio.timeout(min(max(seconds, 0.001), longest)):
                await self._wake.wait()
