"""A crawl and the loops that run it, from its first lease to its last commit."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from shoal.engine.attempts import Attempts, Slots
from shoal.engine.commit import Committer
from shoal.engine.counters import Counters
from shoal.engine.fetch_log.meter import AttemptMeter
from shoal.engine.lease_feed import LeaseFeed
from shoal.engine.leases import Leases
from shoal.engine.logs.request_log import open_request_log
from shoal.engine.logs.tracing import Tracer
from shoal.engine.parsing import Parsing
from shoal.engine.plan import Stop
from shoal.engine.progress import Progress
from shoal.engine.snapshot import Ending, Opening, Snapshot, Summary, WorkStats
from shoal.engine.stations import Stations
from shoal.engine.traps.counts import share_traps
from shoal.engine.traps.traps import Traps
from shoal.frontier.contract import FrontierHosts
from shoal.frontier.finished import is_finished
from shoal.model.configuration.block_rules import block_rules
from shoal.model.errors import Interrupted

LOOK_EVERY_S = 2.0  # whether a trap was closed, which other workers and alerts have to know soon
CLOSE_S = 5.0  # to write what is left, after the second request to stop


class Crawl:
    def __init__(self, stations: Stations, counters: Counters | None = None) -> None:
        """`counters`: those of the run, if earlier sessions of it have counted."""
        self._stations = stations
        self._settings = stations.settings.crawl
        self._wake = asyncio.Event()  # set when something happened that may free work
        self._counters = Counters() if counters is None else counters
        self._meter = AttemptMeter()
        share, scope, spider = stations.share, stations.scope, stations.parser.description
        self._committer = Committer(
            stations.frontier,
            stations.outputs,
            wake=self._wake,
            sent_links=scope,
            bus=share.bus,
            logs=[log for log in (self._meter, stations.fetch_log) if log is not None],
            keeps_history=stations.identity is not None,
        )
        self._tracer: Tracer | None = None
        if stations.settings.tracing.endpoint:
            self._tracer = Tracer(
                stations.settings.tracing, worker=stations.holder, times=lambda: self._committer.times
            )
            self._committer.logs.append(self._tracer)
        self._leases = Leases(
            stations.frontier,
            self._committer,
            stations.ownership,
            crawl=stations.crawl,
            holder=stations.holder,
            ttl=self._settings.lease,
            pools=share.pools,
            sent_links=scope,
        )
        request_log = open_request_log(stations.crawl)
        traps = Traps(stations.settings.links, stations.totals, scope, stations.trap_counters)
        self._parsing = Parsing(
            stations.crawl,
            stations.parser,
            stations.pages,
            self._leases,
            self._counters,
            scope=scope,
            traps=traps,
            pools=share.pools,
            spider=spider.name,
            hooks=spider.hooks,
            archive_only=not share.parses,
            max_crashes=self._settings.max_crashes,
            version=stations.version,
            request_log=request_log,
            blocked_if=block_rules(stations.settings),
            retry=stations.settings.retry,
            identity=stations.identity,
            add_example=stations.totals.add_example,
        )
        attempts = Attempts(
            stations, self._leases, self._parsing, self._counters, traps, request_log=request_log
        )
        self._slots = Slots(self._settings.concurrency, attempts.make, self._wake, share.permits)
        self._feed = LeaseFeed(stations, self._leases, self._slots, self._wake, attempts.prepare)
        self._maintenance = Maintenance(stations, self._leases, self._parsing)
        self._progress = Progress(stations, self._slots, self._counters)

    async def run(self, stop: Stop, watch: Callable[[Snapshot], None] | None) -> Ending:
        """Crawl until nothing is left or `stop` is set; then finish or release what is in progress."""
        await self._progress.begin()
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as deadline, asyncio.TaskGroup() as group:
                chores = [
                    group.create_task(self._committer.run(), name="commit"),
                    group.create_task(self._stations.parser.watch(), name="parser"),
                    group.create_task(self._maintenance.run(), name="maintenance"),
                    group.create_task(self._enforce(stop, deadline), name="deadline"),
                ]
                if self._stations.fetch_log is not None:
                    chores.append(group.create_task(self._stations.fetch_log.run(), name="fetch_log"))
                if watch is not None:
                    chores.append(group.create_task(self._progress.show(watch, stop), name="show"))
                await self._work(stop)
                for chore in chores:
                    chore.cancel()
        await self._close_in_time(stop)
        if self._tracer is not None:
            await asyncio.to_thread(self._tracer.flush)
        return await self._ending()

    async def _work(self, stop: Stop) -> None:
        async with asyncio.TaskGroup() as group:
            archived = group.create_task(self._take_archived(), name="parsing.archived")
            if self._stations.share.fetches:
                self._slots.open(group)
                await self._feed.run(stop)
            else:
                await self._feed.wait_until_finished(stop)
            archived.cancel()
        await self._parsing.wait_until_empty()

    async def _take_archived(self) -> None:
        if self._stations.unparsed is not None:
            await self._parsing.take_archived(self._stations.unparsed)

    async def _enforce(self, stop: Stop, deadline: asyncio.Timeout) -> None:
        """Allow `grace` seconds after the first request to stop, and none after the second."""
        loop = asyncio.get_running_loop()
        await stop.drain.wait()
        self._wake.set()
        deadline.reschedule(loop.time() + self._settings.grace)
        await stop.now.wait()
        deadline.reschedule(loop.time())

    async def _close_in_time(self, stop: Stop) -> None:
        """Close; after the second request to stop, give up after `CLOSE_S` seconds."""
        try:
            async with asyncio.timeout(None) as deadline, asyncio.TaskGroup() as group:
                hurry = group.create_task(_expire_after(stop, deadline), name="close.deadline")
                await self._close()
                hurry.cancel()
        except TimeoutError:
            raise Interrupted(
                "an output or the archive did not respond: stopped without its last pages, which are"
                " fetched again; run the same command to resume"
            ) from None

    async def _close(self) -> None:
        """Settle or release what the deadline cut off, so that it counts as no attempt and no crash."""
        stations = self._stations
        self._parsing.settle_slow(after=stations.ownership.settle_after_stop)
        for lease in self._leases:
            self._leases.give_back(lease)
        await self._committer.flush()
        await self._maintenance.save()
        durable = await stations.outputs.finish()
        await stations.frontier.commit(checkpoints=durable.checkpoints, crawl_state=durable.crawl_state)
        if stations.quota is not None:
            await stations.quota.leave()

    async def _ending(self) -> Ending:
        frontier, crawl = self._stations.frontier, self._stations.crawl
        if await is_finished(frontier.reader, crawl):
            return Ending.FINISHED
        if self._stations.ledger is not None and self._stations.ledger.must_stop:
            return Ending.OVER_BUDGET
        if self._stations.no_exit is not None and self._stations.no_exit():
            return Ending.NO_EXIT
        counts = await frontier.reader.counts(crawl)
        if self._settings.max_pages and counts.pages >= self._settings.max_pages:
            return Ending.LIMITED
        return Ending.INTERRUPTED

    # --- what it reports -------------------------------------------------------------------------

    async def opening(self) -> Opening:
        return await self._progress.opening()

    async def summary(self, ending: Ending) -> Summary:
        return await self._progress.summary(ending)

    @property
    def name(self) -> str:
        return self._stations.crawl

    @property
    def slots(self) -> int:
        """Requests that may be in flight at once; 0: it does not fetch."""
        return self._settings.concurrency if self.fetches else 0

    @property
    def in_flight(self) -> int:
        return self._slots.active

    @property
    def fetches(self) -> bool:
        """Whether it fetches pages; if not, a bus delivers them."""
        return self._stations.share.fetches

    @property
    def parsing(self) -> int:
        """Pages in the parse processes."""
        return self._stations.parser.backlog.pages

    @property
    def committing_s(self) -> float:
        """Seconds that the commit in progress has taken so far."""
        return self._committer.committing_s

    @property
    def oldest_lease_s(self) -> float:
        """Seconds since the oldest lease was granted that has no outcome yet; 0: none is held."""
        return self._leases.oldest_s

    @property
    def hosts(self) -> FrontierHosts:
        """The pace of hosts."""
        return self._stations.frontier.hosts

    @property
    def holder(self) -> str:
        """The name of this process in the store."""
        return self._stations.holder

    @property
    def pages(self) -> int:
        return self._counters.pages

    @property
    def done(self) -> WorkStats:
        """What this run has done so far."""
        counters = self._counters
        return WorkStats(
            counters.pages - counters.handed_on,
            counters.items,
            counters.bytes,
            dict(counters.failures),
            handed_on=counters.handed_on,
            lost_turns=0 if self._stations.gate is None else self._stations.gate.lost,
            meter=self._meter,
            unlogged=0 if self._stations.fetch_log is None else self._stations.fetch_log.dropped,
        )

    @property
    def store_delay(self) -> float:
        """Seconds that the store takes to grant a turn, lately; 0: it was not asked."""
        return 0.0 if self._stations.gate is None else self._stations.gate.delay.typical

    @property
    def rate(self) -> float:
        """Pages per second over the last seconds."""
        return self._counters.rate()


async def _expire_after(stop: Stop, deadline: asyncio.Timeout) -> None:
    await stop.now.wait()
    deadline.reschedule(asyncio.get_running_loop().time() + CLOSE_S)


class Maintenance:
    """What happens periodically while a crawl runs."""

    def __init__(self, stations: Stations, leases: Leases, parsing: Parsing) -> None:
        self._crawl = stations.crawl
        self._frontier = stations.frontier
        self._ownership = stations.ownership
        self._every = min(stations.settings.crawl.lease / 4, stations.ownership.settle_after / 2)
        self._leases = leases
        self._parsing = parsing
        self._saved: Mapping[str, bytes] = {}
        self._limits = stations.settings.links
        self._totals, self._counters = stations.totals, stations.trap_counters
        self._other_workers, self._scope = stations.other_workers, stations.scope
        self._site_budget = stations.site_budget

    async def run(self) -> None:
        """Extend leases, settle pages whose parse takes long, save the crawl's state and read that of others,
        until cancelled.
        """
        while True:
            await self._pause()
            await self._leases.extend()
            self._parsing.settle_slow(after=self._ownership.settle_after)
            await self.save()
            await self._share_traps()

    async def _pause(self) -> None:
        """Wait for one period, or until a trap was closed."""
        loop = asyncio.get_running_loop()
        until, known = loop.time() + self._every, self._totals.known
        # Polled: traps are closed in many places, and an event would have to reach all of them.
        while (left := until - loop.time()) > 0 and self._totals.known == known:  # noqa: ASYNC110
            await asyncio.sleep(min(left, LOOK_EVERY_S))

    async def save(self) -> None:
        """Save what else a resumed crawl should find, if it has changed."""
        state = {**self._ownership.state(), self._counters.key: self._counters.dump()}
        if self._site_budget is not None and (changes := self._site_budget.changes()):
            await self._frontier.commit(crawl_state={self._crawl: changes})
        if state != self._saved:
            await self._frontier.commit(crawl_state={self._crawl: state})
            self._saved = state

    async def _share_traps(self) -> None:
        """Take in the traps that other workers of the crawl have found, and what they have counted."""
        if self._other_workers is None:
            return
        if share_traps(await self._other_workers(), self._limits, self._totals, self._counters):
            self._scope.forget_sent_links()
