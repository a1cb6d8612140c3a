"""What people see of a crawl: at its start, four times per second, and at its end."""

import asyncio
import time
from collections.abc import Callable

from shoal.engine.attempts import Slots
from shoal.engine.counters import Counters
from shoal.engine.plan import Stop
from shoal.engine.snapshot import Ending, HostSnapshot, Opening, Snapshot, Summary
from shoal.engine.stations import Stations
from shoal.frontier.results import Counts, HostView

WATCH_EVERY_S = 0.25


class Progress:
    def __init__(self, stations: Stations, slots: Slots, counters: Counters) -> None:
        self._stations = stations
        self._slots = slots
        self._counters = counters

    async def begin(self) -> None:
        """Read what earlier runs have counted, so that it is not attributed to this one."""
        if self._counters.before is None:
            self._counters.before = await self._counts()

    async def show(self, watch: Callable[[Snapshot], None], stop: Stop) -> None:
        """Call `watch` with a snapshot, until cancelled."""
        while True:
            began = time.monotonic()
            watch(await self.snapshot(draining=stop.drain.is_set()))
            # A snapshot of many hosts takes time: never more than a twentieth of it all.
            await asyncio.sleep(max(WATCH_EVERY_S, 19 * (time.monotonic() - began)))

    async def snapshot(self, *, draining: bool) -> Snapshot:
        stations = self._stations
        counts, before = await self._counts(), self._counters.before or Counts()
        now = time.time()
        return self._counters.snapshot(
            crawl=stations.crawl,
            counts=counts.by_state(),
            over_budget=counts.over_budget - before.over_budget,
            duplicates=counts.duplicate - before.duplicate,
            retries=counts.retries - before.retries,
            max_pages=stations.settings.crawl.max_pages,
            hosts=[view_of(host, now) for host in await stations.frontier.hosts.all()],
            in_flight=self._slots.active,
            slots=self._stations.settings.crawl.concurrency,
            parse_backlog=stations.parser.backlog.pages,
            draining=draining,
        )

    async def opening(self) -> Opening:
        stations = self._stations
        return Opening(
            crawl=stations.crawl,
            resumed=stations.resumed,
            counts=(await self._counts()).by_state(),
            outputs=stations.locations.outputs,
            archive=stations.locations.archive,
            store=stations.locations.store,
            sandbox_warning=stations.parser.sandbox_warning,
            exits=stations.exits_used,
        )

    async def summary(self, ending: Ending, *, no_exit: str) -> Summary:
        stations = self._stations
        counts = await self._counts()
        limit = stations.settings.crawl.max_dead
        return Summary(
            ending=ending,
            snapshot=await self.snapshot(draining=False),
            resumed=stations.resumed,
            outputs=stations.locations.outputs,
            rejects=str(stations.locations.rejects) if stations.totals.rejected else "",
            archive=stations.locations.archive,
            store=stations.locations.store,
            dead_by_class=dict(counts.dead_by_class),
            max_dead_exceeded=limit is not None and counts.dead > limit,
            large=stations.totals.large,
            closed=stations.totals.closed,
            sandbox_warning=stations.parser.sandbox_warning,
            no_exit=no_exit if ending is Ending.NO_EXIT else "",
        )

    async def _counts(self) -> Counts:
        return await self._stations.frontier.reader.counts(self._stations.crawl)


def view_of(host: HostView, now: float) -> HostSnapshot:
    return HostSnapshot(
        host=host.host,
        waiting=host.waiting,
        in_flight=host.inflight,
        interval=host.interval,
        slow=host.slow,
        next_turn=max(host.next_turn - now, 0.0),
        failures=host.failures,
        paused=host.paused,
    )
