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

from shoal import __version__
from shoal.engine.plan import Stop
from shoal.engine.snapshot import Snapshot, Summary
from shoal.engine.worker_stats import WorkerStats
from shoal.frontier.redis import RedisFrontier
from shoal.model.errors import Misconfigured
from shoal.parse.pool import ParsePool
from shoal.redis_client import RedisClient
from shoal.stores.contract.crawl_record import CrawlRecord
from shoal.stores.contract.fleet import HEARTBEAT_EVERY_S
from shoal.stores.contract.heartbeat import Heartbeat
from shoal.stores.redis.crawls import Crawls
from shoal.stores.redis.workers import Workers
from shoal.worker.activity import doing
from shoal.worker.crawl_session import ROLES, CrawlSession, WorkerContext, WorkerPlan
from shoal.worker.deliveries import Deliveries

__all__ = ["ROLES", "Worker", "WorkerPlan"]

log = logging.getLogger(__name__)

LOOK_EVERY = 2.0  # seconds between two looks at what was submitted
MEASURE_EVERY = 5.0
NOTICE = 1.0  # seconds in which others hear that work has begun or ended
ALMOST = 0.3  # seconds between two looks when all that is missing is the end


class Worker:
    """`watch` is told four times a second how a crawl goes; `parser` may have its spider loaded already."""

    def __init__(
        self,
        store: RedisClient,
        plan: WorkerPlan,
        stop: Stop,
        watch: Callable[[Snapshot], None] | None = None,
        parser: ParsePool | None = None,
    ) -> None:
        self.id = f"{os.uname().nodename}-{os.getpid()}-{secrets.token_hex(2)}"
        self._store = store
        self._plan = plan
        self._stop = stop
        self._office = WorkerContext(self.id, store, plan, self._part, watch, parser)
        self._desks: dict[str, CrawlSession] = {}
        self._news = -1
        self._started_at = time.time()
        self._roles = tuple(role for role in ROLES if role in plan.roles)

    async def run(self) -> None:
        """Serve until asked to stop, or, with `until_done`, until no crawl has work left."""
        workers = Workers(self._store)
        if not self._plan.until_done:
            self._store.patience = math.inf
        async with AsyncExitStack() as stack:
            deliveries: Deliveries | None = None
            if "parse" in self._plan.roles:
                deliveries = await stack.enter_async_context(
                    Deliveries.open(
                        self._store, consumer=self.id, deadline=self._plan.deadline, arrived=self._arrived
                    )
                )
                self._office.deliveries = deliveries
            joined = {"worker": self.id, "store": str(self._store.dsn), "roles": ",".join(self._roles)}
            log.info("worker.joined", extra=joined)
            async with asyncio.TaskGroup() as group:
                chores = [
                    group.create_task(self._beat(workers), name="heartbeat"),
                    group.create_task(self._heed(self._stop), name="stop"),
                    group.create_task(self._measure(), name="lag"),
                ]
                if deliveries is not None:
                    chores.append(group.create_task(deliveries.run(), name="deliveries"))
                await self._serve(group)
                await self._close()
                for chore in chores:
                    chore.cancel()
        await workers.leave(self.id)

    def summary(self, crawl: str) -> Summary:
        """Say what has become of the one crawl that was to be served."""
        desk = self._desks.get(crawl)
        if desk is None or desk.summary is None:
            raise Misconfigured(f"crawl {crawl!r} was forgotten, or begun afresh, by somebody else meanwhile")
        return desk.summary

    def _arrived(self, crawl: str) -> None:
        """Begin with a crawl that had nothing to do before this page came."""
        if (desk := self._desks.get(crawl)) is not None:
            desk.look_again()
        elif not self._plan.only:
            self._news = -1  # it is new, or was forgotten: look which

    # --- crawls ----------------------------------------------------------------------------------

    async def _serve(self, group: asyncio.TaskGroup) -> None:
        crawls = Crawls(self._store)
        while True:
            if (news := await crawls.news()) != self._news:
                self._news = news
                await self._update(await crawls.all())
            for desk in list(self._desks.values()):
                if desk.forgotten:
                    await self._let_go(desk)
                else:
                    await desk.tend(group, self._stop)
            if self._stop.drain.is_set() or (self._plan.until_done and self._is_done()):
                return
            await self._sleep(ALMOST if self._plan.until_done and not self._busy else LOOK_EVERY)

    async def _update(self, records: list[CrawlRecord]) -> None:
        names = {record.name for record in records}
        for name, desk in self._desks.items():
            desk.forgotten = name not in names
        if self._office.deliveries is not None:
            left = await RedisFrontier(
                self._store
            ).reader.crawls()  # until its last step, one that is being forgotten
            await self._office.deliveries.keep_only(names.union(left))
        for record in records:
            if self._plan.only not in ("", record.name):
                continue
            if (known := self._desks.get(record.name)) is not None:
                known.update(record)
            else:
                self._desks[record.name] = CrawlSession(self._office, record)

    async def _let_go(self, desk: CrawlSession) -> None:
        """Finish what is in hand of a crawl that was forgotten, and have nothing more to do with it."""
        desk.stop.drain.set()
        if not desk.running:
            await desk.leave()
            del self._desks[desk.record.name]

    @property
    def _busy(self) -> int:
        return sum(desk.running for desk in self._desks.values())

    def _part(self) -> int:
        """Say how many requests each crawl may have in hand."""
        return max(1, self._plan.concurrency // max(1, self._busy))

    def _is_done(self) -> bool:
        desks = self._desks.values()
        if hindrances := [desk.hindrance for desk in desks if desk.hindrance]:
            raise Misconfigured(hindrances[0])
        return all(desk.is_done for desk in desks)

    async def _measure(self) -> None:
        while True:
            for desk in [desk for desk in self._desks.values() if desk.running]:
                with suppress(Misconfigured):  # it was dropped
                    await desk.measure()
            await asyncio.sleep(MEASURE_EVERY)

    # --- ending ----------------------------------------------------------------------------------

    async def _close(self) -> None:
        """Wait for the loops, then complete what this worker writes."""
        while self._busy:
            await self._sleep(LOOK_EVERY)
        for desk in self._desks.values():
            await desk.leave()

    async def _heed(self, stop: Stop) -> None:
        """Pass requests to stop on to every crawl, those that begin meanwhile included."""
        await stop.drain.wait()
        self._office.wake.set()
        self._store.patience = self._store.dsn.patience
        for desk in self._desks.values():
            desk.stop.drain.set()
        await stop.now.wait()
        self._store.patience = 0.0
        for desk in self._desks.values():
            desk.stop.now.set()

    async def _sleep(self, seconds: float) -> None:
        self._office.wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._office.wake.wait()

    # --- signs of life ---------------------------------------------------------------------------

    def figures(self) -> WorkerStats:
        """Say what this worker has done and does."""
        return WorkerStats(
            slots=self._plan.concurrency if "fetch" in self._plan.roles else 0,
            busy=sum(desk.in_flight for desk in self._desks.values()),
            draining=self._stop.drain.is_set(),
            done={name: desk.done for name, desk in self._desks.items()},
        )

    async def _beat(self, workers: Workers) -> None:
        """Give a sign of life every `HEARTBEAT_EVERY_S` seconds, and soon after work has begun or ended."""
        told, due = ("", ""), 0.0
        while True:
            beat = self._heartbeat()
            if (beat.doing, beat.why) != told or time.monotonic() >= due:
                await workers.beat(beat)
                told, due = (beat.doing, beat.why), time.monotonic() + HEARTBEAT_EVERY_S
            await asyncio.sleep(NOTICE)

    def _heartbeat(self) -> Heartbeat:
        desks = self._desks.values()
        outputs = [at for desk in desks for at in desk.outputs_at]
        at_work = [at for desk in desks if (at := desk.at_work) is not None]
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
            crawls=tuple(crawl for desk in desks if (crawl := desk.crawl_at) is not None),
            outputs=tuple(outputs),
            refused={name: desk.refused for name, desk in self._desks.items() if desk.refused},
        )
