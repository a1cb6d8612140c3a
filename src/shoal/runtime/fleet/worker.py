"""A worker of a fleet: serves every crawl of a store, next to any number of others.

Each crawl that has work gets a loop of its own, the same that runs an embedded crawl, and the worker's
concurrency is shared out among them. The loop of a crawl that has come to its end is closed, and opened again
when there is news. Outputs are written by whichever worker was elected.

Nothing here recovers anything. A worker that dies leaves leases that run out, and outputs whose next writer
goes on from the note beside them.

A store that is gone is waited for, as long as it takes: no request leaves meanwhile, and a worker that ended
instead would have to be started again by somebody. Only one that has an end of its own (`until_done`) gives
up when the store's patience has run out, and one that is asked to stop.
"""

import asyncio
import logging
import math
import os
import secrets
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from shoal import __version__
from shoal.fleet.crawls import CrawlRecord, Crawls
from shoal.fleet.workers import EVERY, CrawlAt, Heartbeat, Workers
from shoal.frontier.answers import Counts
from shoal.frontier.redis import RedisFrontier
from shoal.model.errors import Misconfigured, ShoalError, Unavailable
from shoal.parse.pool import ParsePool
from shoal.runtime.crawl import Crawl
from shoal.runtime.figures import Done, WorkerFigures
from shoal.runtime.finished import is_finished
from shoal.runtime.fleet.deliveries import Deliveries
from shoal.runtime.fleet.doing import AtWork, doing
from shoal.runtime.fleet.joining import join_crawl
from shoal.runtime.fleet.lag import MOST_UNPARSED, MOST_UNWRITTEN, on_their_way
from shoal.runtime.fleet.outputs import Outputs, are_finished
from shoal.runtime.fleet.submit import FOLDER
from shoal.runtime.plan import Stop
from shoal.runtime.snapshot import Ending, Snapshot, Summary
from shoal.stores.redis import RedisStore

log = logging.getLogger(__name__)

ROLES = ("fetch", "parse", "sink")
LOOK_EVERY = 2.0  # seconds between two looks at what was submitted
LOOK_AGAIN = 600.0  # seconds after which a crawl that had nothing to do is asked again without any news
MEASURE_EVERY = 5.0
NOTICE = 1.0  # seconds in which others hear that work has begun or ended
ALMOST = 0.3  # seconds between two looks when all that is missing is the end


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    roles: frozenset[str] = frozenset(ROLES)
    concurrency: int = 64  # requests at once, over all crawls
    deadline: float = 60.0  # seconds of silence after which others parse what this worker took from the bus
    until_done: bool = False
    only: str = ""  # the one crawl to serve; empty: all
    folder: Path = Path(FOLDER)  # where this worker's files go


@dataclass(slots=True)
class Desk:
    """One crawl at this worker."""

    record: CrawlRecord
    outputs: Outputs
    stop: Stop = field(default_factory=Stop)
    running: bool = False
    crawl: Crawl | None = None  # while it runs
    asked_at: float = -math.inf  # monotonic: when it last turned out that there is nothing to do
    written: bool = False  # and all its items were in their outputs
    # Of the whole fleet, a few seconds ago; until then, as if there were something to do.
    counts: Counts = field(default_factory=lambda: Counts(waiting=1))
    paused: bool = False  # likewise
    crowded: bool = False  # the stages after fetching have enough to do
    refused: str = ""  # why it cannot be served here
    before: Done = field(default_factory=Done)  # what its earlier runs have done

    def at_work(self, crawl: Crawl) -> AtWork:
        """Tell what can keep this crawl from going on here."""
        return AtWork(
            in_hand=crawl.in_flight + crawl.parsing,
            rate=crawl.rate,
            fetches=crawl.fetches,
            waiting=self.counts.waiting,
            delayed=self.counts.delayed,
            crowded=self.crowded,
            paused=self.paused,
        )

    @property
    def done(self) -> Done:
        return self.before if self.crawl is None else self.before + self.crawl.done


class Worker:
    """`watch` is told four times a second how a crawl goes; `parser` may have its spider loaded already."""

    def __init__(
        self,
        store: RedisStore,
        plan: WorkerPlan,
        stop: Stop,
        watch: Callable[[Snapshot], None] | None = None,
        parser: ParsePool | None = None,
    ) -> None:
        self.summaries: dict[str, Summary] = {}  # of crawls that were run, where one was asked for
        self.id = f"{os.uname().nodename}-{os.getpid()}-{secrets.token_hex(2)}"
        self._store = store
        self._plan = plan
        self._stop = stop
        self._watch = watch
        self._parser = parser
        self._deliveries: Deliveries | None = None
        self._desks: dict[str, Desk] = {}
        self._news = -1
        self._wake = asyncio.Event()
        self._started_at = time.time()
        self._roles = tuple(role for role in ROLES if role in plan.roles)

    async def run(self) -> None:
        """Serve until asked to stop, or, with `until_done`, until no crawl has work left."""
        workers = Workers(self._store)
        if not self._plan.until_done:
            self._store.patience = math.inf
        async with AsyncExitStack() as stack:
            if "parse" in self._plan.roles:
                self._deliveries = await stack.enter_async_context(
                    Deliveries.open(
                        self._store, consumer=self.id, deadline=self._plan.deadline, arrived=self._arrived
                    )
                )
            joined = {"worker": self.id, "store": str(self._store.dsn), "roles": ",".join(self._roles)}
            log.info("worker.joined", extra=joined)
            async with asyncio.TaskGroup() as group:
                chores = [
                    group.create_task(self._beat(workers), name="heartbeat"),
                    group.create_task(self._heed(self._stop), name="stop"),
                    group.create_task(self._measure(), name="lag"),
                ]
                if self._deliveries is not None:
                    chores.append(group.create_task(self._deliveries.run(), name="deliveries"))
                await self._serve(group)
                await self._close()
                for chore in chores:
                    chore.cancel()
        await workers.leave(self.id)

    def _arrived(self, crawl: str) -> None:
        """Begin with a crawl that had nothing to do before this page came."""
        if (desk := self._desks.get(crawl)) is not None and not desk.running:
            desk.asked_at = -math.inf
            self._wake.set()

    # --- crawls ----------------------------------------------------------------------------------

    async def _serve(self, group: asyncio.TaskGroup) -> None:
        crawls = Crawls(self._store)
        while True:
            if (news := await crawls.news()) != self._news:
                self._update(await crawls.all())
                self._news = news
            for desk in self._desks.values():
                try:
                    await self._tend(group, desk)
                except Misconfigured:  # it was dropped, and whoever begins it afresh will say so
                    desk.asked_at, desk.written = time.monotonic(), True
            if self._stop.drain.is_set() or (self._plan.until_done and self._is_done()):
                return
            await self._sleep(ALMOST if self._plan.until_done and not self._busy else LOOK_EVERY)

    def _update(self, records: list[CrawlRecord]) -> None:
        """Take note of what was submitted; a crawl that is to run otherwise from now on is begun again."""
        for record in records:
            if self._plan.only not in ("", record.name):
                continue
            known = self._desks.get(record.name)
            if known is None:
                self._desks[record.name] = Desk(record, Outputs(self._store, worker=self.id))
                continue
            if known.record.revision != record.revision:
                known.stop.ask()
            known.record, known.refused = record, ""
            known.asked_at, known.written = -math.inf, False

    async def _tend(self, group: asyncio.TaskGroup, desk: Desk) -> None:
        if self._plan.only and desk.outputs.refused:
            # Whoever wants one crawl wants its items: nothing more is fetched that cannot be written.
            desk.stop.drain.set()
            return
        if not desk.running and not desk.refused and time.monotonic() - desk.asked_at > LOOK_AGAIN:
            # Whoever wants one crawl wants to hear of it, even if nothing is left to do.
            owed = bool(self._plan.only) and desk.record.name not in self.summaries
            if await is_finished(RedisFrontier(self._store), desk.record.name) and not owed:
                desk.asked_at = time.monotonic()
            elif self._plan.roles & {"fetch", "parse"} and (owed or not self._stop.drain.is_set()):
                desk.running, desk.stop = True, Stop()
                if self._stop.drain.is_set():
                    desk.stop.ask()
                group.create_task(self._run(desk), name=f"crawl.{desk.record.name}")
        if "sink" in self._plan.roles and not desk.written:
            await self._attend(group, desk)

    async def _attend(self, group: asyncio.TaskGroup, desk: Desk) -> None:
        """See to a crawl's outputs, until all of them have every item and are finished."""
        outputs = desk.outputs
        if _ended(desk) and not await on_their_way(self._store, desk.record.name):
            await outputs.leave()
            # Whoever wrote one may have been killed before it was finished, or be about to finish it.
            desk.written = await are_finished(self._store, desk.record)
        if not desk.written and not outputs.attends(desk.record):
            await outputs.attend(group, desk.record)

    async def _run(self, desk: Desk) -> None:
        """Run a crawl's loop to its end, whichever that is."""
        about = {"crawl": desk.record.name, "version": desk.record.version}
        log.info("worker.serves", extra=about)
        plan = self._plan
        try:
            async with join_crawl(
                desk.record,
                self._store,
                worker=self.id,
                folder=plan.folder,
                concurrency=plan.concurrency,
                parser=self._parser,
            ) as stations:
                stations.fetches = "fetch" in plan.roles
                stations.parses = "parse" in plan.roles
                stations.crowded = lambda: desk.crowded
                if self._deliveries is not None:
                    stations.unparsed = self._deliveries.of(desk.record.name)
                    stations.on_acknowledged = self._deliveries.done
                desk.crawl = Crawl(stations, self._part)
                ending = await desk.crawl.run(desk.stop, self._watch)
                if self._plan.only:
                    self.summaries[desk.record.name] = await desk.crawl.summary(ending)
            if ending is Ending.LIMITED:  # more is waiting, and is not wanted
                desk.asked_at = time.monotonic()
            log.info("worker.served", extra={**about, "ending": ending.value})
        except* Misconfigured as several:
            if desk.record.name not in await RedisFrontier(self._store).crawls():
                log.info("worker.served", extra={**about, "ending": "dropped"})
            else:
                # Other workers may have what this one lacks, and other crawls may lack nothing.
                desk.refused = str(_first(several))
                log.error("worker.cannot_serve", extra={**about, "why": desk.refused})
        except* Unavailable as several:
            # Whoever waits for a store as long as it takes does so for an archive; it is tried again soon.
            if math.isfinite(self._store.patience):
                raise
            log.warning("archive.waits", extra={"why": str(_first(several))})
        finally:
            desk.before = desk.done
            desk.running, desk.crawl = False, None
            self._wake.set()

    @property
    def _busy(self) -> int:
        return sum(desk.running for desk in self._desks.values())

    def _part(self) -> int:
        """Say how many requests each crawl may have in hand."""
        return max(1, self._plan.concurrency // max(1, self._busy))

    def _is_done(self) -> bool:
        desks = self._desks.values()
        if refused := [desk.refused for desk in desks if desk.refused]:
            raise Misconfigured(refused[0])
        for desk in desks:
            # Others may be able to write it; this worker has nothing else left to do, and did not do all.
            if desk.outputs.refused and not desk.running and not desk.written:
                raise Misconfigured(desk.outputs.refused)
        return all(_ended(desk) and (desk.written or "sink" not in self._plan.roles) for desk in desks)

    async def _measure(self) -> None:
        """Look how much lies before the stages after fetching: beyond a bound, nothing more is fetched."""
        while True:
            for desk in [desk for desk in self._desks.values() if desk.running]:
                with suppress(Misconfigured):  # it was dropped
                    frontier = RedisFrontier(self._store)
                    desk.counts = await frontier.counts(desk.record.name)
                    desk.paused = await frontier.paused(desk.record.name)
                    items = await on_their_way(self._store, desk.record.name)
                    desk.crowded = desk.counts.parsing > MOST_UNPARSED or items > MOST_UNWRITTEN
            await asyncio.sleep(MEASURE_EVERY)

    # --- ending ----------------------------------------------------------------------------------

    async def _close(self) -> None:
        """Wait for the loops, then complete what this worker writes."""
        while self._busy:
            await self._sleep(LOOK_EVERY)
        for desk in self._desks.values():
            await desk.outputs.leave()

    async def _heed(self, stop: Stop) -> None:
        """Pass requests to stop on to every crawl, those that begin meanwhile included."""
        await stop.drain.wait()
        self._wake.set()
        self._store.patience = self._store.dsn.patience
        for desk in self._desks.values():
            desk.stop.drain.set()
        await stop.now.wait()
        self._store.patience = 0.0
        for desk in self._desks.values():
            desk.stop.now.set()

    async def _sleep(self, seconds: float) -> None:
        self._wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    # --- signs of life ---------------------------------------------------------------------------

    def figures(self) -> WorkerFigures:
        """Say what this worker has done and does."""
        return WorkerFigures(
            slots=self._plan.concurrency if "fetch" in self._plan.roles else 0,
            busy=sum(desk.crawl.in_flight for desk in self._desks.values() if desk.crawl is not None),
            draining=self._stop.drain.is_set(),
            done={name: desk.done for name, desk in self._desks.items()},
        )

    async def _beat(self, workers: Workers) -> None:
        """Give a sign of life every `EVERY` seconds, and soon after work has begun or ended."""
        told, due = ("", ""), 0.0
        while True:
            beat = self._heartbeat()
            if (beat.doing, beat.why) != told or time.monotonic() >= due:
                await workers.beat(beat)
                told, due = (beat.doing, beat.why), time.monotonic() + EVERY
            await asyncio.sleep(NOTICE)

    def _heartbeat(self) -> Heartbeat:
        running = [(desk, desk.crawl) for desk in self._desks.values() if desk.crawl is not None]
        outputs = [at for desk in self._desks.values() for at in desk.outputs.at(desk.record.name)]
        at_work = [desk.at_work(crawl) for desk, crawl in running]
        word, why = doing(at_work, outputs, draining=self._stop.drain.is_set())
        return Heartbeat(
            worker=self.id,
            host=os.uname().nodename,
            pid=os.getpid(),
            roles=self._roles,
            shoal=__version__,
            started_at=self._started_at,
            beaten_at=time.time(),
            doing=word,
            why=why,
            crawls=tuple(
                CrawlAt(
                    desk.record.name,
                    desk.record.version,
                    crawl.in_flight,
                    crawl.pages,
                    at.rate,
                    crawl.parsing,
                )
                for (desk, crawl), at in zip(running, at_work, strict=True)
            ),
            outputs=tuple(outputs),
            refused={name: desk.refused for name, desk in self._desks.items() if desk.refused},
        )


def _first(errors: BaseExceptionGroup[ShoalError]) -> BaseException:
    """Find the error that task groups have wrapped up, the first of several."""
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _ended(desk: Desk) -> bool:
    return not desk.running and desk.asked_at > -math.inf
