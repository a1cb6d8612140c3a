"""The picture that people get of a crawl: as it begins, four times a second, and at its end."""

import asyncio
import time
from collections.abc import Callable

from shoal.engine.counters import Counters
from shoal.engine.plan import Stop
from shoal.engine.slots import Slots
from shoal.engine.snapshot import Ending, HostSnapshot, Opening, Snapshot, Summary
from shoal.engine.stations import Stations
from shoal.frontier import results as answers

WATCH_EVERY = 0.25


class Progress:
    def __init__(self, stations: Stations, slots: Slots, tally: Counters) -> None:
        self._stations = stations
        self._slots = slots
        self._tally = tally
        self._over_budget = 0  # links that hosts had brought in vain before this run

    async def begin(self) -> None:
        """Note what earlier runs have done, so that it is not taken for this one's."""
        self._over_budget = (await self._counts()).over_budget

    async def show(self, watch: Callable[[Snapshot], None], stop: Stop) -> None:
        """Tell `watch` how it goes, until cancelled."""
        while True:
            began = time.monotonic()
            watch(await self.snapshot(draining=stop.drain.is_set()))
            # Looking takes time with many hosts; never more than a twentieth of all there is.
            await asyncio.sleep(max(WATCH_EVERY, 19 * (time.monotonic() - began)))

    async def snapshot(self, *, draining: bool) -> Snapshot:
        """Look at the crawl as it is now."""
        stations = self._stations
        counts = await self._counts()
        now = time.time()
        return self._tally.snapshot(
            crawl=stations.crawl,
            counts=counts.by_state(),
            over_budget=counts.over_budget - self._over_budget,
            hosts=[view_of(host, now) for host in await stations.frontier.hosts.all()],
            in_flight=self._slots.active,
            parse_backlog=stations.parser.backlog.pages,
            draining=draining,
        )

    async def opening(self) -> Opening:
        """Say what the crawl starts from."""
        stations = self._stations
        return Opening(
            crawl=stations.crawl,
            resumed=stations.resumed,
            counts=(await self._counts()).by_state(),
            outputs=stations.outputs,
            archive=str(stations.archive),
            store=stations.store,
        )

    async def summary(self, ending: Ending) -> Summary:
        """Say what has become of the crawl."""
        stations = self._stations
        counts = await self._counts()
        limit = stations.settings.crawl.max_dead
        return Summary(
            ending=ending,
            snapshot=await self.snapshot(draining=False),
            resumed=stations.resumed,
            outputs=stations.outputs,
            rejects=str(stations.rejects) if stations.totals.rejected else "",
            archive=str(stations.archive),
            store=stations.store,
            dead_by_class=dict(counts.dead_by_class),
            max_dead_exceeded=limit is not None and counts.dead > limit,
            quarantined=stations.totals.quarantined,
            lookalikes=stations.totals.lookalikes,
        )

    async def _counts(self) -> answers.Counts:
        return await self._stations.frontier.reader.counts(self._stations.crawl)


def view_of(host: answers.HostView, now: float) -> HostSnapshot:
    """Say of a host what a person watching wants to know."""
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
