"""One crawl at one worker: its loop while there is work, and its outputs until they have every item."""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from shoal.engine import Crawl
from shoal.engine.plan import Stop
from shoal.engine.snapshot import Ending, Snapshot, Summary
from shoal.engine.worker_stats import CrawlStats
from shoal.frontier.finished import is_finished
from shoal.frontier.redis import RedisFrontier
from shoal.frontier.results import Counts
from shoal.model.errors import Misconfigured, ShoalError, Unavailable
from shoal.parse.pool import ParsePool
from shoal.redis_client import RedisClient
from shoal.stores.contract.crawl_record import LOCAL_FOLDER, CrawlRecord
from shoal.stores.contract.heartbeat import CrawlActivity, OutputActivity
from shoal.stores.redis.backlog import MOST_UNPARSED, MOST_UNWRITTEN, on_their_way
from shoal.worker.activity import CrawlWork
from shoal.worker.deliveries import Deliveries
from shoal.worker.open_session import join_crawl
from shoal.worker.output_tasks import OutputTasks, are_finished

log = logging.getLogger(__name__)

ROLES = ("fetch", "parse", "sink")
LOOK_AGAIN = 600.0  # seconds after which a crawl that had nothing to do is asked again without any news


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    roles: frozenset[str] = frozenset(ROLES)
    concurrency: int = 64  # requests at once, over all crawls
    deadline: float = 60.0  # seconds of silence after which others parse what this worker took from the bus
    until_done: bool = False
    only: str = ""  # the one crawl to serve; empty: all
    folder: Path = Path(LOCAL_FOLDER)  # where this worker's files go


@dataclass(slots=True)
class WorkerContext:
    """What the crawls of a worker share."""

    worker: str
    store: RedisClient
    plan: WorkerPlan
    part: Callable[[], int]  # how many requests each may have in hand
    watch: Callable[[Snapshot], None] | None = None  # told four times a second how a crawl goes
    parser: ParsePool | None = None  # where only one is served, and its spider is loaded already
    deliveries: Deliveries | None = None  # pages to parse, once the bus was joined
    wake: asyncio.Event = field(default_factory=asyncio.Event)  # one of them has come to its end


class CrawlSession:
    def __init__(self, office: WorkerContext, record: CrawlRecord) -> None:
        self.record = record
        self.stop = Stop()
        self.running = False
        self.summary: Summary | None = None  # of its latest run, where one crawl was asked for
        self.refused = ""  # why it cannot be served here
        self.forgotten = False  # nobody wants it any more
        self._office = office
        self._outputs = OutputTasks(office.store, worker=office.worker)
        self._crawl: Crawl | None = None  # while it runs
        self._before = CrawlStats()  # what its earlier runs have done
        self._asked_at = -math.inf  # monotonic: when it last turned out that there is nothing to do
        self._written = False  # and all its items were in their outputs
        # Of the whole fleet, a few seconds ago; until then, as if there were something to do.
        self._counts = Counts(waiting=1)
        self._paused = False  # likewise
        self._crowded = False  # the stages after fetching have enough to do

    def update(self, record: CrawlRecord) -> None:
        """Take note of what was submitted; a crawl that is to run otherwise from now on is begun again."""
        if self.record.revision != record.revision:
            self.stop.ask()
        self.record, self.refused = record, ""
        self._asked_at, self._written = -math.inf, False

    def look_again(self) -> None:
        """Ask the store soon whether there is something to do."""
        if not self.running:
            self._asked_at = -math.inf
            self._office.wake.set()

    # --- serving it ------------------------------------------------------------------------------

    async def tend(self, group: asyncio.TaskGroup, stop: Stop) -> None:
        """Begin with what there is to do; `stop`: how the worker is asked to end."""
        try:
            await self._tend(group, stop)
        except Misconfigured:  # it was dropped, and whoever begins it afresh will say so
            self._asked_at, self._written = time.monotonic(), True

    async def _tend(self, group: asyncio.TaskGroup, stop: Stop) -> None:
        roles, only = self._office.plan.roles, self._office.plan.only
        if only and self._outputs.refused:
            # Whoever wants one crawl wants its items: nothing more is fetched that cannot be written.
            self.stop.drain.set()
            return
        if not self.running and not self.refused and time.monotonic() - self._asked_at > LOOK_AGAIN:
            # Whoever wants one crawl wants to hear of it, even if nothing is left to do.
            owed = bool(only) and self.summary is None
            if await is_finished(RedisFrontier(self._office.store).reader, self.record.name) and not owed:
                self._asked_at = time.monotonic()
            elif roles & {"fetch", "parse"} and (owed or not stop.drain.is_set()):
                self.running, self.stop = True, Stop()
                if stop.drain.is_set():
                    self.stop.ask()
                group.create_task(self._run(), name=f"crawl.{self.record.name}")
        if "sink" in roles and not self._written:
            await self._attend(group)

    async def _attend(self, group: asyncio.TaskGroup) -> None:
        """See to the outputs, until all of them have every item and are finished."""
        if self._ended and not await on_their_way(self._office.store, self.record.name):
            await self._outputs.leave()
            # Whoever wrote one may have been killed before it was finished, or be about to finish it.
            self._written = await are_finished(self._office.store, self.record)
        if not self._written and not self._outputs.attends(self.record):
            await self._outputs.attend(group, self.record)

    async def _run(self) -> None:
        """Run the crawl's loop to its end, whichever that is."""
        about = {"crawl": self.record.name, "version": self.record.version}
        log.info("worker.serves", extra=about)
        try:
            ending = await self._serve()
            if ending is Ending.LIMITED:  # more is waiting, and is not wanted
                self._asked_at = time.monotonic()
            log.info("worker.served", extra={**about, "ending": ending.value})
        except* Misconfigured as several:
            if self.record.name not in await RedisFrontier(self._office.store).reader.crawls():
                log.info("worker.served", extra={**about, "ending": "dropped"})
            else:
                # Other workers may have what this one lacks, and other crawls may lack nothing.
                self.refused = str(_first(several))
                log.error("worker.cannot_serve", extra={**about, "why": self.refused})
        except* Unavailable as several:
            # Whoever waits for a store as long as it takes does so for an archive; it is tried again soon.
            if math.isfinite(self._office.store.patience):
                raise
            log.warning("archive.waits", extra={"why": str(_first(several))})
        finally:
            self._before = self.done
            self.running, self._crawl = False, None
            self._office.wake.set()

    async def _serve(self) -> Ending:
        office, plan = self._office, self._office.plan
        async with join_crawl(
            self.record,
            office.store,
            worker=office.worker,
            folder=plan.folder,
            concurrency=plan.concurrency,
            parser=office.parser,
        ) as stations:
            stations.fetches = "fetch" in plan.roles
            stations.parses = "parse" in plan.roles
            stations.crowded = lambda: self._crowded
            if office.deliveries is not None:
                stations.unparsed = office.deliveries.of(self.record.name)
                stations.on_acknowledged = office.deliveries.done
            self._crawl = Crawl(stations, office.part)
            ending = await self._crawl.run(self.stop, office.watch)
            if plan.only:
                self.summary = await self._crawl.summary(ending)
        return ending

    async def leave(self) -> None:
        """Complete what this worker writes, and let others go on."""
        await self._outputs.leave()

    # --- how it stands ---------------------------------------------------------------------------

    async def measure(self) -> None:
        """Look how much lies before the stages after fetching: beyond a bound, nothing more is fetched."""
        frontier = RedisFrontier(self._office.store)
        self._counts = await frontier.reader.counts(self.record.name)
        self._paused = await frontier.reader.paused(self.record.name)
        items = await on_their_way(self._office.store, self.record.name)
        self._crowded = self._counts.parsing > MOST_UNPARSED or items > MOST_UNWRITTEN

    @property
    def hindrance(self) -> str:
        """Why this worker cannot bring the crawl to its end; others may be able to."""
        if self.refused or self.running or self._written:
            return self.refused
        return self._outputs.refused

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do here."""
        return self._ended and (self._written or "sink" not in self._office.plan.roles)

    @property
    def _ended(self) -> bool:
        return not self.running and self._asked_at > -math.inf

    @property
    def done(self) -> CrawlStats:
        return self._before if self._crawl is None else self._before + self._crawl.done

    @property
    def in_flight(self) -> int:
        return 0 if self._crawl is None else self._crawl.in_flight

    @property
    def at_work(self) -> CrawlWork | None:
        """What can keep the crawl from going on here; None: it does not run."""
        if (crawl := self._crawl) is None:
            return None
        return CrawlWork(
            in_hand=crawl.in_flight + crawl.parsing,
            rate=crawl.rate,
            fetches=crawl.fetches,
            waiting=self._counts.waiting,
            delayed=self._counts.delayed,
            crowded=self._crowded,
            paused=self._paused,
        )

    @property
    def crawl_at(self) -> CrawlActivity | None:
        """What this worker tells others of the crawl, while it runs."""
        if (crawl := self._crawl) is None:
            return None
        return CrawlActivity(
            self.record.name, self.record.version, crawl.in_flight, crawl.pages, crawl.rate, crawl.parsing
        )

    @property
    def outputs_at(self) -> list[OutputActivity]:
        """What this worker is to each output."""
        return self._outputs.at(self.record.name)


def _first(errors: BaseExceptionGroup[ShoalError]) -> BaseException:
    """Find the error that task groups have wrapped up, the first of several."""
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
