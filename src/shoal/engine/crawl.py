"""A crawl and the loops that run it, from its first lease to its last commit."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from shoal.engine.attempts import Attempts
from shoal.engine.commit import Committer
from shoal.engine.counters import Counters
from shoal.engine.lease_feed import LeaseFeed
from shoal.engine.leases import Leases
from shoal.engine.maintenance import Maintenance
from shoal.engine.parsing import Parsing
from shoal.engine.plan import Stop
from shoal.engine.progress import Progress
from shoal.engine.slots import Slots
from shoal.engine.snapshot import Ending, Opening, Snapshot, Summary
from shoal.engine.stations import Stations
from shoal.engine.traps.traps import Traps
from shoal.engine.worker_stats import CrawlStats
from shoal.frontier.finished import is_finished


class Crawl:
    """`part`: how many requests it may have in hand, where several crawls share a worker."""

    def __init__(self, stations: Stations, part: Callable[[], int] | None = None) -> None:
        self._stations = stations
        self._settings = stations.settings.crawl
        self._wake = asyncio.Event()  # something happened that may free work
        self._tally = Counters()
        self._committer = Committer(
            stations.frontier,
            stations.outlet,
            on_commit=self._wake.set,
            on_stale=stations.border.renew,
            on_acknowledged=stations.on_acknowledged,
        )
        self._leases = Leases(
            stations.frontier,
            self._committer,
            stations.ownership,
            crawl=stations.crawl,
            holder=stations.holder,
            ttl=self._settings.lease,
            on_lost=stations.border.renew,
        )
        self._parsing = Parsing(
            stations.crawl,
            stations.parser,
            stations.pages,
            self._leases,
            self._tally,
            traps=Traps(stations.settings.links, stations.totals, stations.border),
            hooks=stations.parser.description.hooks,
            elsewhere=not stations.parses,
            max_crashes=self._settings.max_crashes,
            version=stations.version,
        )
        attempts = Attempts(stations, self._leases, self._parsing, self._tally)
        self._slots = Slots(self._settings.concurrency, attempts.make, self._wake)
        self._feed = LeaseFeed(stations, self._leases, self._slots, self._wake, part)
        self._upkeep = Maintenance(stations, self._leases, self._parsing)
        self._picture = Progress(stations, self._slots, self._tally)

    async def run(self, stop: Stop, watch: Callable[[Snapshot], None] | None) -> Ending:
        """Crawl until nothing is left or `stop` is set; what is in hand then is finished or given back."""
        await self._picture.begin()
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as deadline, asyncio.TaskGroup() as group:
                chores = [
                    group.create_task(self._committer.run(), name="commit"),
                    group.create_task(self._stations.parser.watch(), name="parser"),
                    group.create_task(self._upkeep.run(), name="upkeep"),
                    group.create_task(self._enforce(stop, deadline), name="deadline"),
                ]
                if watch is not None:
                    chores.append(group.create_task(self._picture.show(watch, stop), name="show"))
                await self._work(stop)
                for chore in chores:
                    chore.cancel()
        await self._wind_up()
        return await self._ending()

    async def _work(self, stop: Stop) -> None:
        async with asyncio.TaskGroup() as group:
            taking_up = group.create_task(self._take_up(), name="take-up")
            if self._stations.fetches:
                self._slots.open(group)
                await self._feed.run(stop)
            else:
                await self._feed.attend(stop)
            taking_up.cancel()
        await self._parsing.until_empty()

    async def _take_up(self) -> None:
        if self._stations.unparsed is not None:
            await self._parsing.take_up(self._stations.unparsed)

    async def _enforce(self, stop: Stop, deadline: asyncio.Timeout) -> None:
        """Give what is in hand its grace after the first request to stop, and none after the second."""
        loop = asyncio.get_running_loop()
        await stop.drain.wait()
        self._wake.set()
        deadline.reschedule(loop.time() + self._settings.grace)
        await stop.now.wait()
        deadline.reschedule(loop.time())

    async def _wind_up(self) -> None:
        """Keep or hand back whatever the deadline cut off, so that it costs nobody an attempt or a crash."""
        self._parsing.settle_slow(patience=self._stations.ownership.last_patience)
        for lease in self._leases:
            self._leases.give_back(lease)
        await self._committer.flush()
        await self._upkeep.save()
        await self._stations.frontier.commit(checkpoints=self._stations.outlet.finish().checkpoints)
        if self._stations.allowance is not None:
            await self._stations.allowance.leave()

    async def _ending(self) -> Ending:
        frontier, crawl = self._stations.frontier, self._stations.crawl
        if await is_finished(frontier.reader, crawl):
            return Ending.FINISHED
        counts = await frontier.reader.counts(crawl)
        if self._settings.max_pages and counts.done >= self._settings.max_pages:
            return Ending.LIMITED
        return Ending.INTERRUPTED

    # --- what it tells of itself -----------------------------------------------------------------

    async def opening(self) -> Opening:
        """Say what the crawl starts from."""
        return await self._picture.opening()

    async def summary(self, ending: Ending) -> Summary:
        """Say what has become of the crawl."""
        return await self._picture.summary(ending)

    @property
    def in_flight(self) -> int:
        return self._slots.active

    @property
    def fetches(self) -> bool:
        """Whether it asks for pages itself; if not, it takes them from a bus."""
        return self._stations.fetches

    @property
    def parsing(self) -> int:
        """Pages that are with the parse processes."""
        return self._stations.parser.backlog.pages

    @property
    def pages(self) -> int:
        return self._tally.pages

    @property
    def done(self) -> CrawlStats:
        """What this run has done so far."""
        tally = self._tally
        done = tally.pages - tally.handed_on
        return CrawlStats(done, tally.items, tally.bytes, dict(tally.failures), handed_on=tally.handed_on)

    @property
    def rate(self) -> float:
        """Pages per second, lately."""
        return self._tally.rate()
