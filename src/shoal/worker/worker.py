"""A worker of a fleet: serves every crawl of a store, next to any number of other workers.

Each crawl that has work gets a session, with the same loop that runs an embedded crawl; the worker's
concurrency is divided among them. The loop of a finished crawl ends, and starts again when there is news.
Outputs are written by the worker that was elected for each.

An error of one crawl ends its session, which is tried again, and neither the worker nor other crawls.

Nothing here recovers anything. A worker that dies leaves leases that expire, and outputs whose next writer
continues from the checkpoint beside them.

A crawl that is not in the store any more although no command deleted it was lost, together with what the
store had of it (FLUSHALL, a server that restarted without its data). The worker logs that as an error, serves
the other crawls, and ends with `Lost`.

Calls to an unavailable store are retried without limit: no request is sent in the meantime, and a worker
that ended instead would have to be restarted. Only a worker with an end (`until_done`), and one that is
asked to stop, gives up after the store's patience.
"""

import asyncio
import logging
import math
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Protocol

from shoal import __version__
from shoal.engine.crawl_options import fit_open_files
from shoal.engine.fetchers import check_exits, open_exits
from shoal.engine.outputs import Writer, WriterThread
from shoal.engine.plan import Stop
from shoal.engine.session import SessionParser
from shoal.engine.snapshot import Snapshot, Summary, WorkerStats, WorkStats
from shoal.fetch.browser.pool import BrowserPool
from shoal.fetch.escalation.learned_levels import LearnedLevels
from shoal.fetch.http.client import HttpClient
from shoal.fetch.registry import check_pools
from shoal.model.errors import Lost, Misconfigured, NoExit, ShoalError, leaves, unexpected
from shoal.model.limits import FetchLimits
from shoal.parse.shared_parsers import SharedParsers
from shoal.stores.contract.crawl_record import CrawlRecord, StoredRecords
from shoal.stores.contract.fleet import HEARTBEAT_EVERY_S, Fleet, Heartbeats
from shoal.stores.contract.heartbeat import CrawlActivity, Heartbeat, OutputActivity, served_pools
from shoal.worker.activity import CrawlWork, describe_activity
from shoal.worker.crawl_session import (
    ROLES,
    SCHEDULE,
    CrawlSession,
    SharedConcurrency,
    WorkerContext,
    WorkerPlan,
)
from shoal.worker.deliveries import Deliveries
from shoal.worker.fair_permits import FairPermits
from shoal.worker.machine import WorkerProcess, ended_workers
from shoal.worker.retention import delete_expired_pages
from shoal.worker.session_steps import LONGEST_PAUSE_S, SessionState, pause_after
from shoal.worker.turns import CrawlTurn, make_room

__all__ = ["ROLES", "Worker", "WorkerPlan"]

log = logging.getLogger(__name__)

ROUND_S = 2.0  # between two looks at what was submitted
MEASURE_EVERY_S = 5.0
SHARE_EXITS_EVERY_S = 2.0
ACTIVITY_EVERY_S = 1.0  # after which a change of activity is reported
FINAL_ROUND_S = 0.3  # the same as ROUND_S, when only the end is missing
LOST_AFTER_S = 10.0  # after which a crawl counts as lost that has a record and is not in the frontier


LOST_WHY = "it is not in the store any more, and no command deleted it"


def lost_error(crawls: Sequence[str], store: str) -> Lost:
    """Return the error for crawls that their store has lost."""
    names = ", ".join(map(repr, crawls))
    return Lost(
        f"crawl {names} is lost: {LOST_WHY}. Was {store} emptied, or restarted without its data? Its outputs"
        " and archived pages stay; restore the store from a copy, or submit the crawl again"
    )


class WorkerSession(Protocol):
    """The part of a `CrawlSession` that its worker needs."""

    deleted: bool

    @property
    def stop(self) -> Stop: ...
    @property
    def state(self) -> SessionState: ...
    @property
    def summary(self) -> Summary | None: ...
    @property
    def found_drops(self) -> bool: ...
    @property
    def refusal(self) -> str: ...
    @property
    def blocked_reason(self) -> str: ...
    @property
    def is_running(self) -> bool: ...
    @property
    def is_done(self) -> bool: ...
    @property
    def missing_since(self) -> float | None: ...
    @property
    def done(self) -> WorkStats: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def parsing(self) -> int: ...
    @property
    def committing_s(self) -> float: ...
    @property
    def oldest_lease_s(self) -> float: ...
    @property
    def longest_request_s(self) -> float: ...
    @property
    def ran_at(self) -> float: ...
    @property
    def turn(self) -> CrawlTurn: ...
    @property
    def work(self) -> CrawlWork | None: ...
    @property
    def activity(self) -> CrawlActivity | None: ...
    @property
    def output_activity(self) -> Sequence[OutputActivity]: ...
    def update(self, record: CrawlRecord) -> None: ...
    def check_soon(self) -> None: ...
    async def advance(self, group: asyncio.TaskGroup, stop: Stop) -> None: ...
    async def measure(self, served: Collection[str]) -> None: ...
    async def leave(self) -> None: ...


class Worker:
    """`watch` is called four times per second; `parser` may have the spider loaded already; nothing is leased
    while `is_behind` returns true.
    """

    def __init__(
        self,
        fleet: Fleet,
        plan: WorkerPlan,
        stop: Stop,
        watch: Callable[[Snapshot], None] | None = None,
        parser: SessionParser | None = None,
        *,
        sandbox: str = "",
        is_behind: Callable[[], bool] | None = None,
        open_session: Callable[[WorkerContext, CrawlRecord], WorkerSession] = CrawlSession,
        process: WorkerProcess | None = None,
        client: HttpClient | None = None,
        open_writer: Callable[[], Writer] = WriterThread,
    ) -> None:
        """`process`: what this worker says of itself; None: of the process that it runs in.

        `client`: one that all crawls use, open already; None: each crawl opens one.
        """
        if "fetch" in plan.roles:
            check_pools(plan.pools, plan.rules.browser)
        self._process = process or WorkerProcess.current()
        self.id = self._process.worker
        self._fleet = fleet
        self._store = fleet.client
        self._stop = stop
        if "fetch" in plan.roles:
            plan = replace(
                plan, concurrency=fit_open_files(plan.concurrency, plan.max_spiders + (os.cpu_count() or 1))
            )
        self._plan = plan
        self._concurrency = SharedConcurrency(plan.concurrency, plan.max_crawls)
        self._context = WorkerContext(
            self.id,
            fleet,
            plan,
            self._concurrency,
            watch,
            parser,
            is_behind=is_behind,
            client=client,
            open_writer=open_writer,
        )
        if "fetch" in plan.roles:
            self._context.exits = open_exits(
                plan.rules.proxies, worker=self.id, records=fleet.exits, may_divide=True
            )
            self._context.learned = LearnedLevels(fleet.levels)
            self._context.served_pools = plan.pools
        self._context.permits = FairPermits(plan.concurrency)
        self._sandbox = sandbox  # its state, for heartbeats
        self._open_session = open_session
        self._sessions: dict[str, WorkerSession] = {}
        self._lost: list[str] = []  # crawls
        self._no_exit = ""  # why this worker waits no longer for an exit that works
        self._refused: dict[str, str] = {}  # by crawl: why its record cannot be used
        self._submitted_at: dict[str, float] = {}  # by crawl: when the newest record was submitted
        self._news = -1
        self._started_at = time.time()
        self.chores: dict[str, Callable[[], Awaitable[None]]] = {}  # of the caller; they run until the end
        self._roles = tuple(role for role in (*ROLES, SCHEDULE) if role in plan.roles)
        self._pools = plan.pools if "fetch" in plan.roles else ()

    async def run(self) -> None:
        """Serve until asked to stop, or, with `until_done`, until no crawl has work left."""
        workers = self._fleet.workers
        self._store.on_damage(self._fleet.damage)
        if not self._plan.until_done:
            self._store.patience = math.inf
        if (exits := self._context.exits) is not None:
            rules = self._plan.rules
            await check_exits(
                exits, limits=FetchLimits(), nameservers=rules.nameservers, ca_file=rules.ca_file
            )
        async with (
            BrowserPool.open(self._plan.rules.browser) as browsers,
            self._deliveries() as deliveries,
            self._parsers(),
        ):
            self._context.deliveries, self._context.browsers = deliveries, browsers
            joined = {
                "worker": self.id,
                "store": str(self._store.dsn),
                "roles": ",".join(self._roles),
                "pools": ",".join(self._pools),
                **({} if exits is None else {"exits": exits.how_used}),
            }
            log.info("worker.joined", extra=joined)
            self._context.served_pools = served_pools(await workers.all()).union(self._pools)
            async with asyncio.TaskGroup() as group:
                running: dict[str, Callable[[], Awaitable[None]]] = {
                    "heartbeat": partial(self._send_heartbeats, workers),
                    "stop": partial(self._forward_stop, self._stop),
                    "measure": partial(self._measure, workers),
                    "exits": self._share_exits,
                    "reclaim": partial(self._reclaim_lost, workers),
                    "retention": partial(
                        delete_expired_pages, self._fleet.crawls, self._plan.rules, self._plan.folder
                    ),
                    **self.chores,
                }
                if deliveries is not None:
                    running["deliveries"] = deliveries.run
                chores = [
                    group.create_task(self._keep_running(name, chore), name=name)
                    for name, chore in running.items()
                ]
                await self._serve(group)
                await self._close()
                for chore in chores:
                    chore.cancel()
        await workers.leave(self.id)
        if self._no_exit:
            raise NoExit(self._no_exit)
        if self._lost:
            raise lost_error(self._lost, str(self._store.dsn))

    @asynccontextmanager
    async def _deliveries(self) -> AsyncIterator[Deliveries | None]:
        if "parse" not in self._plan.roles:
            yield None
            return
        async with Deliveries.open(
            self._fleet, consumer=self.id, deadline=self._plan.deadline, arrived=self._page_arrived
        ) as deliveries:
            yield deliveries

    @asynccontextmanager
    async def _parsers(self) -> AsyncIterator[None]:
        """Open the parse processes that all crawls share, unless one crawl has brought its pool."""
        if self._context.parser is not None or not self._plan.roles & {"fetch", "parse"}:
            yield
            return
        procs = self._plan.procs or 2 * (os.cpu_count() or 1)
        async with SharedParsers.open(max_children=procs, max_spiders=self._plan.max_spiders) as parsers:
            self._context.parser = parsers
            try:
                yield
            finally:
                self._context.parser = None

    @property
    def found_drops(self) -> bool:
        """Whether a generation that ended here is out of the range of those before."""
        return any(session.found_drops for session in self._sessions.values())

    def summary(self, crawl: str) -> Summary:
        """Return the summary of the one crawl that was served."""
        session = self._sessions.get(crawl)
        if session is None or session.summary is None:
            raise Misconfigured(f"crawl {crawl!r} was deleted or restarted by another command while it ran")
        return session.summary

    def _page_arrived(self, crawl: str) -> None:
        """Start a crawl that had nothing to do before this page arrived."""
        if (session := self._sessions.get(crawl)) is not None:
            session.check_soon()
        elif not self._plan.only:
            self._news = -1  # the crawl is new, or was deleted: read the records again

    async def _keep_running(self, name: str, chore: Callable[[], Awaitable[None]]) -> None:
        """Run a chore; after an error that is not the store's, log it and start the chore again."""
        failures = 0
        while True:
            began = time.monotonic()
            try:
                return await chore()
            except Exception as error:
                found = list(leaves(error))
                if all(isinstance(leaf, ShoalError) for leaf in found):
                    raise
                failures = 1 if time.monotonic() - began > LONGEST_PAUSE_S else failures + 1
                pause = pause_after(failures, refused=False)
                why = f"{type(found[0]).__name__}: {found[0]}"
                log.error(
                    "worker.chore_failed", extra={"chore": name, "why": why}, exc_info=unexpected(found[0])
                )
                await self._fleet.damage.check_all()
                await asyncio.sleep(pause)

    # --- crawls ----------------------------------------------------------------------------------

    async def _serve(self, group: asyncio.TaskGroup) -> None:
        while True:
            await self._keep_running("crawls", self._look_for_news)
            # The one that has not run for longest first: it gets the next place.
            for name, session in sorted(self._sessions.items(), key=lambda pair: pair[1].ran_at):
                await session.advance(group, self._stop)
                if session.state is SessionState.DELETED:
                    del self._sessions[name]
                elif await self._is_missing(name, session):
                    self._lose(name, session)
            if self._plan.until_done and self._context.exits is not None and not self._no_exit:
                self._no_exit = self._context.exits.given_up()
                if self._no_exit:
                    self._stop.drain.set()
            for name in make_room({name: session.turn for name, session in self._sessions.items()}):
                self._sessions[name].stop.drain.set()
            if self._stop.drain.is_set() or (self._plan.until_done and self._is_done()):
                return
            idle = self._plan.until_done and not self._concurrency.running
            await self._sleep(FINAL_ROUND_S if idle else ROUND_S)

    async def _look_for_news(self) -> None:
        crawls = self._fleet.crawls
        if (news := await crawls.news()) != self._news:
            await self._update(await crawls.read(key=self._plan.rules.record_key))
            self._news = news

    async def _update(self, found: StoredRecords) -> None:
        records = self._accept(found)
        names = {record.name for record in records}
        for name, session in self._sessions.items():
            session.deleted = name not in names
            known = name in names or name in found.refused
            if not known and not await self._fleet.crawls.was_deleted(name):
                self._lose(name, session)
        if self._context.deliveries is not None:
            # A crawl that is being deleted is in the frontier until the last step.
            left = await self._fleet.frontier.reader.crawls()
            await self._context.deliveries.keep_only(names.union(left))
        for record in records:
            if self._plan.only not in ("", record.name):
                continue
            if record.name in self._lost:
                self._lost.remove(record.name)  # it was submitted again
            if (session_before := self._sessions.get(record.name)) is not None:
                session_before.update(record)
            else:
                self._sessions[record.name] = self._open_session(self._context, record)

    async def _is_missing(self, name: str, session: WorkerSession) -> bool:
        """Return whether the frontier has lost a crawl that has a record; `--fresh` removes it briefly."""
        since = session.missing_since
        if since is None or time.monotonic() - since < LOST_AFTER_S or name in self._lost:
            return False
        return not await self._fleet.frontier.crawls.deleting()

    def _lose(self, name: str, session: WorkerSession) -> None:
        """Stop serving a crawl that the store has lost."""
        session.deleted = True
        self._context.wake.set()
        if name not in self._lost:
            self._lost.append(name)
            log.error("crawl.lost", extra={"crawl": name, "store": str(self._store.dsn), "why": LOST_WHY})

    def _accept(self, found: StoredRecords) -> list[CrawlRecord]:
        """Return the records to serve; log each of the others once."""
        accepted, refused = [], dict(found.refused)
        for record in found.records:
            # A signature does not expire: without this, a record of last week could replace that of today.
            newest = self._submitted_at.get(record.name, -math.inf)
            if self._plan.rules.record_key and record.submitted_at < newest:
                refused[record.name] = (
                    "its record in the store is older than the one that was served before it"
                )
            else:
                self._submitted_at[record.name] = record.submitted_at
                accepted.append(record)
        for name, why in refused.items():
            if self._refused.get(name) != why:
                log.error("crawl.refused", extra={"crawl": name, "why": why})
        self._refused = refused
        return accepted

    def _is_done(self) -> bool:
        """Return whether nothing is left; raise `Misconfigured` if the rest cannot be served here."""
        blocked = {name: session.blocked_reason for name, session in self._sessions.items()}
        if not all(session.is_done or blocked[name] for name, session in self._sessions.items()):
            return False  # what can be served is served first
        refused = {name: why for name, why in self._refused.items() if self._plan.only in ("", name)}
        if reasons := [f"crawl {name!r}: {why}" for name, why in (blocked | refused).items() if why]:
            raise Misconfigured("; ".join(reasons))
        return True

    async def _measure(self, workers: Heartbeats) -> None:
        while True:
            if running := [session for session in self._sessions.values() if session.is_running]:
                beats = await workers.all()
                served = served_pools(beats).union(self._pools)
                self._context.served_pools = served
                for session in running:
                    with suppress(Misconfigured):  # it was deleted
                        await session.measure(served)
            await asyncio.sleep(MEASURE_EVERY_S)

    async def _share_exits(self) -> None:
        """Merge what is known of exits and renew the claim of this worker, also while no request does."""
        exits = self._context.exits
        while exits is not None:
            await exits.health.sync()
            await asyncio.sleep(SHARE_EXITS_EVERY_S)

    async def _reclaim_lost(self, workers: Heartbeats) -> None:
        """Reclaim what workers that are gone have left, for as long as this one runs."""
        if "fetch" not in self._plan.roles:
            return
        while True:
            await asyncio.sleep(HEARTBEAT_EVERY_S)
            beats = await workers.all()
            live = [beat.worker for beat in beats]
            longest_s = max((session.longest_request_s for session in self._sessions.values()), default=0.0)
            if longest_s:
                await self._fleet.lost_holders.reclaim(
                    self.id,
                    live,
                    longest_s=longest_s,
                    ended=ended_workers(beats, self._process.machine, self._process.exists),
                )

    # --- ending ----------------------------------------------------------------------------------

    async def _close(self) -> None:
        """Wait for the loops to end, then complete what this worker writes."""
        while self._concurrency.running:
            await self._sleep(ROUND_S)
        for session in self._sessions.values():
            await session.leave()
        if self._context.exits is not None:
            await self._context.exits.leave()
        if self._context.learned is not None:
            await self._context.learned.sync(force=True)

    async def _forward_stop(self, stop: Stop) -> None:
        """Pass requests to stop to every crawl, including those that start later."""
        await stop.drain.wait()
        self._context.wake.set()
        self._store.patience = self._store.dsn.patience
        for session in self._sessions.values():
            session.stop.drain.set()
        await stop.now.wait()
        self._store.patience = 0.0
        for session in self._sessions.values():
            session.stop.now.set()

    async def _sleep(self, seconds: float) -> None:
        self._context.wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._context.wake.wait()

    # --- heartbeats ------------------------------------------------------------------------------

    def stats(self) -> WorkerStats:
        """Return what this worker has done and does."""
        return WorkerStats(
            slots=self._plan.concurrency if "fetch" in self._plan.roles else 0,
            busy=sum(session.in_flight for session in self._sessions.values()),
            draining=self._stop.drain.is_set(),
            done={name: session.done for name, session in self._sessions.items()},
            parsing=sum(session.parsing for session in self._sessions.values()),
            written={
                name: sum(output.items for output in outputs)
                for name, session in self._sessions.items()
                if (outputs := session.output_activity)
            },
            committing_s=max((session.committing_s for session in self._sessions.values()), default=0.0),
            oldest_lease_s=max((session.oldest_lease_s for session in self._sessions.values()), default=0.0),
        )

    async def _send_heartbeats(self, workers: Heartbeats) -> None:
        """Send a heartbeat every `HEARTBEAT_EVERY_S` seconds, and soon after the activity has changed."""
        reported, due = ("", ""), 0.0
        while True:
            beat = self._heartbeat()
            if (beat.doing, beat.why) != reported or time.monotonic() >= due:
                await workers.beat(beat)
                reported, due = (beat.doing, beat.why), time.monotonic() + HEARTBEAT_EVERY_S
            await asyncio.sleep(ACTIVITY_EVERY_S)

    def _heartbeat(self) -> Heartbeat:
        sessions = self._sessions.values()
        outputs = [output for session in sessions for output in session.output_activity]
        work = [work for session in sessions if (work := session.work) is not None]
        doing, why = describe_activity(work, outputs, draining=self._stop.drain.is_set())
        return Heartbeat(
            worker=self.id,
            host=os.uname().nodename,
            machine=self._process.machine,
            pid=self._process.pid,
            roles=self._roles,
            pools=self._pools,
            concurrency=self._plan.concurrency if "fetch" in self._roles else 0,
            shoal=__version__,
            started_at=self._started_at,
            beaten_at=time.time(),
            doing=doing,
            why=why,
            crawls=tuple(activity for session in sessions if (activity := session.activity) is not None),
            outputs=tuple(outputs),
            sandbox=self._sandbox,
            refused=self._refused
            | {name: session.refusal for name, session in self._sessions.items() if session.refusal},
        )
