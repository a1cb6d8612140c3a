"""One crawl at one worker: its loop while there is work, and its outputs until they have every item.

`session_steps` decides what to do next, `CrawlSession` does it. A session that is FINISHED or COMPLETE checks
the store again after `RECHECK_S`, or when a page arrives.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from shoal.engine.crawl import Crawl
from shoal.engine.fetchers import Pools
from shoal.engine.generations.yield_check import check_yield, read_totals
from shoal.engine.outputs import Writer, WriterThread
from shoal.engine.plan import Stop
from shoal.engine.session import SessionParser, open_session
from shoal.engine.shared import Shared
from shoal.engine.snapshot import Ending, Snapshot, Summary, WorkStats
from shoal.engine.stations import WorkShare
from shoal.fetch.browser.pool import BrowserPool
from shoal.fetch.escalation.learned_levels import LearnedLevels
from shoal.fetch.exits.exit_pool import ExitPool
from shoal.fetch.http.body_memory import BodyMemory
from shoal.fetch.http.client import HttpClient
from shoal.fetch.registry import HTTP
from shoal.frontier.finished import is_finished
from shoal.frontier.redis import RedisFrontier
from shoal.frontier.results import Counts
from shoal.model.errors import Misconfigured, ShoalError, Unavailable, unexpected
from shoal.model.request import BROWSER
from shoal.model.sandbox import SandboxMode, SandboxRules
from shoal.model.settings import Settings
from shoal.parse.shared_parsers import SharedParsers
from shoal.sinks.drafts import place_of, publish, show
from shoal.stores.contract.crawl_record import LOCAL_FOLDER, CrawlRecord
from shoal.stores.contract.fleet import MAX_UNPARSED_PAGES, MAX_UNWRITTEN_PAGES, Fleet
from shoal.stores.contract.heartbeat import CrawlActivity, OutputActivity, unserved_pools
from shoal.stores.contract.record_reader import settings_of
from shoal.worker.activity import CrawlWork
from shoal.worker.deliveries import Deliveries
from shoal.worker.fair_permits import FairPermits
from shoal.worker.output_tasks import OutputTasks, are_finished
from shoal.worker.rules import WorkerRules
from shoal.worker.session_steps import (
    GIVE_UP_AFTER,
    SessionFacts,
    SessionState,
    Step,
    next_step,
    pause_after,
    state_after_check,
    state_after_run,
)
from shoal.worker.turns import CrawlTurn

log = logging.getLogger(__name__)

ROLES = ("fetch", "parse", "sink")
SCHEDULE = "schedule"  # a role that a worker has only if it is asked for: it starts crawls when they are due
REQUIRED = SandboxRules(SandboxMode.REQUIRE)
REQUEST_SLACK_S = 5.0  # beyond the limit for one attempt: closing it, and a clock that is behind
QUICK_CRAWLS = 16  # that ask every second
LONGEST_SLEEP_S = 10.0
WAITING_RECHECK_S = 20.0  # after which a crawl that waits for a place is checked again for work
RECHECK_S = 600.0  # after which a crawl that had nothing to do is checked again without any news


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    roles: frozenset[str] = frozenset(ROLES)
    pools: tuple[str, ...] = (HTTP,)  # whose requests this worker takes
    # Pools that other workers serve; requests of any further pool are refused. None: none is refused.
    pools_elsewhere: frozenset[str] | None = None
    concurrency: int = 64  # requests at once, over all crawls
    max_crawls: int = 200  # that run at once; the others wait for their turn
    procs: int = 0  # parse processes, over all crawls; 0: twice the number of cores
    max_spiders: int = 8  # that are loaded at a time
    deadline: float = 60.0  # seconds without a heartbeat after which others parse what this worker took
    until_done: bool = False
    only: str = ""  # the one crawl to serve; empty: all
    folder: Path = Path(LOCAL_FOLDER)  # where this worker's files go
    rules: WorkerRules = field(default_factory=WorkerRules)  # what crawls may do on this machine
    sandbox: SandboxRules = REQUIRED  # of the spiders of every crawl


class SharedConcurrency:
    """The concurrency of a worker, divided among the crawls that run."""

    def __init__(self, total: int, max_crawls: int = 200) -> None:
        self._total = total
        self._max_crawls = max_crawls
        self.running = 0

    @property
    def has_place(self) -> bool:
        """Whether one more crawl may run."""
        return self.running < self._max_crawls

    @property
    def longest_sleep_s(self) -> float:
        """Seconds between two questions of an idle crawl: a worker with many asks the store as often as one
        with `QUICK_CRAWLS`.
        """
        return min(LONGEST_SLEEP_S, max(1.0, self.running / QUICK_CRAWLS))

    @property
    def per_crawl(self) -> int:
        return max(1, self._total // max(1, self.running))


@dataclass(slots=True)
class WorkerContext:
    """What the crawls of a worker share."""

    worker: str
    fleet: Fleet
    plan: WorkerPlan
    concurrency: SharedConcurrency
    watch: Callable[[Snapshot], None] | None = None  # called four times per second
    # Where only one crawl is served, the pool that has its spider loaded already; else what all crawls share.
    parser: SessionParser | SharedParsers | None = None
    permits: FairPermits | None = None
    is_behind: Callable[[], bool] | None = None  # whether the program that takes the items is
    deliveries: Deliveries | None = None  # pages to parse, once the bus is joined
    wake: asyncio.Event = field(default_factory=asyncio.Event)  # a session has something new to do
    memory: BodyMemory = field(default_factory=BodyMemory)
    exits: ExitPool | None = None  # None: requests leave directly
    learned: LearnedLevels | None = None  # the levels of hosts; None: it does not fetch
    served_pools: Collection[str] = ()  # by all workers
    browsers: BrowserPool | None = None  # once the worker runs
    client: HttpClient | None = None  # for all crawls; None: each has one
    open_writer: Callable[[], Writer] = WriterThread


class CrawlSession:
    def __init__(self, context: WorkerContext, record: CrawlRecord) -> None:
        self.record = record
        self.stop = Stop()
        self.state = SessionState.UNKNOWN
        self.summary: Summary | None = None  # of its latest run, where one crawl was asked for
        self.refusal = ""  # why this worker cannot serve it, or why it failed here
        self._failures = 0  # in a row
        self._retry_at = -math.inf  # monotonic: when a session that failed is tried again
        self.deleted = False
        self.found_drops = False  # its latest generation is out of the range of those before
        self.missing_since: float | None = None  # monotonic: when the frontier was first found without it
        self.waits_for_place = False  # it has work, and as many others run as may
        self._had_work_until = -math.inf  # monotonic: until when that is assumed
        self.ran_at = -math.inf  # monotonic: when its latest run began or ended
        self._context = context
        self._outputs = OutputTasks(context.fleet, worker=context.worker, places=context.plan.rules.places)
        self._crawl: Crawl | None = None  # while it runs
        self._read_settings: tuple[CrawlRecord, Settings] | None = None
        self._done_before = WorkStats()  # by its earlier runs
        self._checked_at = -math.inf  # monotonic
        # Of the whole fleet, a few seconds old; before the first measurement, as if there were work.
        self._counts = Counts(waiting=1)
        self._paused = False
        self._later_stages_full = False
        self._waiting_by_pool: Mapping[str, int] = {}
        self._pools: Pools | None = None  # while it is served
        self._no_browser_since: float | None = None  # monotonic; None: nothing waits for a browser in vain
        self._unserved: frozenset[str] = frozenset()

    def update(self, record: CrawlRecord) -> None:
        """Take a new submission; a crawl that is to run differently is restarted."""
        if self.record.revision != record.revision:
            self.stop.ask()
        self.record, self.refusal, self.deleted = record, "", False
        self._had_work_until = -math.inf
        self._failures = 0
        if self.state is not SessionState.RUNNING:
            self.state = SessionState.UNKNOWN

    def check_soon(self) -> None:
        """Ask the store in the next round whether there is work."""
        if self.state in (SessionState.UNKNOWN, SessionState.FINISHED, SessionState.COMPLETE):
            self.state = SessionState.UNKNOWN
            self._context.wake.set()

    # --- one round -------------------------------------------------------------------------------

    async def advance(self, group: asyncio.TaskGroup, stop: Stop) -> None:
        """Take the steps that are due; `stop` is how the worker is asked to end."""
        try:
            await self._advance(group, stop)
        except Misconfigured as error:
            if self.record.name in await self._frontier.reader.crawls():
                self._refuse(str(error))
                return
            # Its record will follow if it was deleted, or another number if `--fresh` starts it again.
            self.missing_since = self.missing_since or time.monotonic()
        except ShoalError:
            raise
        except Exception as error:  # of this crawl: it must not end the others
            self.state = await self._fail(error)
        else:
            if self.state is not SessionState.RUNNING:
                self.missing_since = None

    async def _advance(self, group: asyncio.TaskGroup, stop: Stop) -> None:
        facts = self._facts(stop)
        self.waits_for_place = False
        if not (self._context.concurrency.has_place or facts.deleted or facts.stopping):
            # It had work a moment ago: a worker with a thousand crawls does not ask about each in each round.
            self.waits_for_place = time.monotonic() < self._had_work_until
            if self.waits_for_place:
                return
        while True:
            match next_step(self.state, facts):
                case Step.CHECK:
                    facts = replace(
                        facts, work_left=not await is_finished(self._frontier.reader, self.record.name)
                    )
                    self._checked_at = time.monotonic()
                    self.state = state_after_check(self.state, facts)
                    if not facts.work_left:
                        await self._remove_secrets()
                case Step.RUN if not self._context.concurrency.has_place:
                    self.waits_for_place = True
                    self._had_work_until = time.monotonic() + WAITING_RECHECK_S
                    return
                case Step.RUN:
                    self._start(group, stop)
                case Step.CHECK_OUTPUTS:
                    if await self._outputs_complete():
                        await self._replace_outputs()
                        self.state = SessionState.COMPLETE
                    writing = self._outputs.is_writing(self.record)
                    facts = replace(facts, outputs_checked=True, writing=writing)
                case Step.WRITE:
                    await self._outputs.start(group, self.record)
                    facts = replace(facts, writing=True)
                case Step.DRAIN:
                    self.stop.drain.set()
                    return
                case Step.LEAVE:
                    self.stop.drain.set()
                    await self._outputs.leave()
                    self.state = SessionState.DELETED
                    return
                case Step.WAIT:
                    return

    async def _remove_secrets(self) -> None:
        """Remove the secrets of a finished crawl from its record, unless requests can be queued again."""
        if self.record.without_secrets().revision == self.record.revision:
            return
        counts = (await self._frontier.reader.counts(self.record.name)).by_state()
        if counts["dead"] or counts.get("held"):
            return
        key = self._context.plan.rules.record_key
        if await self._context.fleet.crawls.remove_secrets(self.record, key=key):
            log.info("crawl.secrets_removed", extra={"crawl": self.record.name})

    def _facts(self, stop: Stop) -> SessionFacts:
        plan = self._context.plan
        return SessionFacts(
            works=bool(plan.roles & {"fetch", "parse"}),
            writes="sink" in plan.roles,
            stopping=stop.drain.is_set(),
            deleted=self.deleted,
            owes_summary=bool(plan.only) and self.summary is None,
            only=bool(plan.only),
            retry_due=time.monotonic() >= self._retry_at,
            output_refused=bool(self._outputs.refusal),
            check_due=time.monotonic() - self._checked_at > RECHECK_S,
            writing=self._outputs.is_writing(self.record),
        )

    async def _outputs_complete(self) -> bool:
        if await self._context.fleet.unwritten_pages(self.record.name):
            return False
        await self._outputs.leave()
        # The last writer of an output may have been killed before it finished, or be about to finish.
        return await are_finished(self._context.fleet, self.record)

    async def _replace_outputs(self) -> None:
        """Move the outputs of a generation that has succeeded into place, those on this machine."""
        counts = await self._frontier.reader.counts(self.record.name)
        allowed = self._settings.crawl.max_dead
        if not counts.done or (allowed is not None and counts.dead > allowed):
            return
        number = await self._frontier.reader.number(self.record.name)
        totals = await read_totals(self._frontier.reader, self.record.name)
        verdict = await check_yield(self._frontier.reader, totals, self.record.name)
        await self._frontier.crawls.store_values(self.record.name, number, verdict.state)
        self.found_drops = bool(verdict.drops)
        places = self._context.plan.rules.places
        drafts = {
            output: place
            for output in self.record.outputs
            if (place := place_of(output)) != output and not places.refusal(output)
        }
        if not verdict.may_replace:
            log.warning(
                "output.kept",
                extra={"crawl": self.record.name, "new_data": show(drafts), "why": verdict.reason},
            )
        elif drafts:
            publish(drafts)
            log.info("output.replaced", extra={"crawl": self.record.name, "outputs": len(drafts)})

    def _start(self, group: asyncio.TaskGroup, stop: Stop) -> None:
        self.state, self.stop = SessionState.RUNNING, Stop()
        self.missing_since = None  # the frontier has it: `--fresh` has started it again
        if stop.drain.is_set():
            self.stop.ask()
        self._context.concurrency.running += 1
        self.ran_at = time.monotonic()
        group.create_task(self._run(), name=f"crawl.{self.record.name}")

    # --- running it ------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Run the crawl's loop until it ends, and set the state after it."""
        about = {"crawl": self.record.name, "version": self.record.version}
        log.info("crawl.started", extra=about)
        after = SessionState.UNKNOWN
        try:
            ending = await self._serve()
            after, self._failures, self.refusal = state_after_run(ending), 0, ""
            log.info("crawl.stopped", extra={**about, "ending": ending.value})
        except* Misconfigured as several:
            if self.record.name not in await self._frontier.reader.crawls():
                self.missing_since = self.missing_since or time.monotonic()
                log.info("crawl.stopped", extra={**about, "ending": "not in the store"})
            else:
                # Other workers may have what this one lacks, and other crawls may lack nothing.
                after = SessionState.REFUSED
                self._refuse(str(_first(several)))
        except* Unavailable as several:
            # A worker that waits for its store without limit waits for an archive, too; the next round
            # retries.
            if math.isfinite(self._context.fleet.client.patience):
                raise
            log.warning("archive.unavailable", extra={"why": str(_first(several))})
        except* Exception as several:
            # Of this crawl at this worker: it must end neither the worker nor the other crawls.
            after = await self._fail(several)
        finally:
            self._done_before = self.done
            self.state, self._crawl, self._checked_at = after, None, time.monotonic()
            self._context.concurrency.running -= 1
            self.ran_at = time.monotonic()
            self._context.wake.set()

    def _refuse(self, why: str) -> None:
        self.state, self.refusal = SessionState.REFUSED, why
        self._retry_at = time.monotonic() + pause_after(0, refused=True)
        about = {"crawl": self.record.name, "version": self.record.version}
        log.error("crawl.refused", extra={**about, "why": why})

    async def _fail(self, error: BaseException) -> SessionState:
        """Log an error that ended the session, and say when it is tried again."""
        first = _first(error) if isinstance(error, BaseExceptionGroup) else error
        self._failures += 1
        pause = pause_after(self._failures, refused=False)
        self._retry_at = time.monotonic() + pause
        self.refusal = f"{type(first).__name__}: {first}"
        about = {"crawl": self.record.name, "why": self.refusal, "failures": self._failures}
        log.error("crawl.failed", extra={**about, "retry_in_s": pause}, exc_info=unexpected(first))
        if self._context.deliveries is not None:
            await self._context.deliveries.give_back(self.record.name)
        if self._failures <= GIVE_UP_AFTER:  # an entry that cannot be read may be the cause
            await self._context.fleet.damage.check_all()
        return SessionState.FAILED

    async def _serve(self) -> Ending:
        context, plan = self._context, self._context.plan
        settings = self._settings
        if refusal := plan.rules.refusal(settings):
            raise Misconfigured(refusal)
        self._pools = Pools(
            plan.pools,
            exclusive=plan.pools_elsewhere is not None,
            elsewhere=plan.pools_elsewhere or (),
        )
        share = WorkShare(
            fetches="fetch" in plan.roles,
            parses="parse" in plan.roles,
            pools=self._pools,
            capacity=self,
            permits=None if context.permits is None else context.permits.share(settings.crawl.weight),
            memory=context.memory,
            browsers=context.browsers,
            exits=context.exits,
            learned=context.learned,
            served_pools=lambda: context.served_pools,
            client=context.client,
            open_writer=context.open_writer,
        )
        strategy = Shared(
            self.record,
            context.fleet,
            worker=context.worker,
            folder=plan.folder,
            concurrency=plan.concurrency,
            share=share,
            settings=plan.rules.apply(settings),
            sandbox=plan.sandbox,
            bus=context.deliveries,
        )
        async with open_session(strategy, context.parser) as stations:
            self._crawl = Crawl(stations)
            ending = await self._crawl.run(self.stop, context.watch)
            if plan.only:
                self.summary = await self._crawl.summary(ending)
        return ending

    async def leave(self) -> None:
        """Complete what this worker writes, so that others can continue."""
        await self._outputs.leave()

    @property
    def max_requests(self) -> int:
        return self._context.concurrency.per_crawl

    @property
    def longest_sleep_s(self) -> float:
        return self._context.concurrency.longest_sleep_s

    @property
    def later_stages_full(self) -> bool:
        is_behind = self._context.is_behind
        return self._later_stages_full or (is_behind is not None and is_behind())

    # --- measuring and reporting -----------------------------------------------------------------

    async def measure(self, served: Collection[str]) -> None:
        """Read the fleet's figures of the crawl; `served` are the pools that running workers serve."""
        frontier, name = self._frontier, self.record.name
        self._counts = await frontier.reader.counts(name)
        self._paused = await frontier.reader.paused(name)
        items = await self._context.fleet.unwritten_pages(name)
        self._later_stages_full = self._counts.parsing > MAX_UNPARSED_PAGES or items > MAX_UNWRITTEN_PAGES
        self._waiting_by_pool = await frontier.reader.waiting_by_pool(name)
        unserved = unserved_pools(self._waiting_by_pool, served)
        self._warn_of_unserved(unserved)
        self._bound_wait_for_browser(BROWSER in unserved and not self._paused)

    def _bound_wait_for_browser(self, in_vain: bool) -> None:
        """End the wait for a browser once none has served the crawl for `crawl.browser_wait`."""
        now, longest_s = time.monotonic(), self._settings.crawl.browser_wait
        if not in_vain:
            self._no_browser_since = None
        elif self._no_browser_since is None:
            self._no_browser_since = now
        since = self._no_browser_since
        if self._pools is not None:
            self._pools.give_up_browser(since is not None and 0 < longest_s <= now - since)

    def _warn_of_unserved(self, unserved: Mapping[str, int]) -> None:
        """Log each pool once, and again after it was served in between."""
        for pool in sorted(unserved.keys() - self._unserved):
            facts = {"crawl": self.record.name, "pool": pool, "waiting": unserved[pool]}
            log.warning("pool.unserved", extra={**facts, "start_with": f"shoal worker --pools {pool}"})
        self._unserved = frozenset(unserved)

    @property
    def blocked_reason(self) -> str:
        """Why this worker cannot complete the crawl; others may be able to. Empty: it can."""
        match self.state:
            case SessionState.REFUSED:
                return self.refusal
            case SessionState.FAILED:
                return self.refusal if self._failures >= GIVE_UP_AFTER else ""
            case SessionState.RUNNING | SessionState.COMPLETE:
                return ""
        return self._outputs.refusal

    @property
    def is_running(self) -> bool:
        return self.state is SessionState.RUNNING

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do here."""
        if self.state is SessionState.FINISHED:
            return "sink" not in self._context.plan.roles
        return self.state is SessionState.COMPLETE

    @property
    def done(self) -> WorkStats:
        return self._done_before if self._crawl is None else self._done_before + self._crawl.done

    @property
    def in_flight(self) -> int:
        return 0 if self._crawl is None else self._crawl.in_flight

    @property
    def parsing(self) -> int:
        return 0 if self._crawl is None else self._crawl.parsing

    @property
    def committing_s(self) -> float:
        return 0.0 if self._crawl is None else self._crawl.committing_s

    @property
    def oldest_lease_s(self) -> float:
        return 0.0 if self._crawl is None else self._crawl.oldest_lease_s

    @property
    def turn(self) -> CrawlTurn:
        runs = self.is_running and not self.stop.drain.is_set()
        return CrawlTurn(self.waits_for_place, time.monotonic() - self.ran_at if runs else None)

    @property
    def longest_request_s(self) -> float:
        """How long a request of the crawl may be on the wire."""
        return self._settings.fetch.total + REQUEST_SLACK_S

    @property
    def _settings(self) -> Settings:
        """The settings of the record. Checking them takes milliseconds, and all crawls are asked often."""
        if self._read_settings is None or self._read_settings[0] is not self.record:
            self._read_settings = self.record, settings_of(self.record)
        return self._read_settings[1]

    @property
    def work(self) -> CrawlWork | None:
        """What may delay the crawl here; None: it does not run."""
        if (crawl := self._crawl) is None:
            return None
        pools = self._context.plan.pools
        return CrawlWork(
            in_progress=crawl.in_flight + crawl.parsing,
            rate=crawl.rate,
            fetches=crawl.fetches,
            waiting=self._counts.waiting,
            delayed=self._counts.delayed,
            later_stages_full=self._later_stages_full,
            paused=self._paused,
            exits_rest=self._context.exits is not None and self._context.exits.is_exhausted,
            only_other_pools=bool(self._waiting_by_pool) and not self._waiting_by_pool.keys() & set(pools),
        )

    @property
    def activity(self) -> CrawlActivity | None:
        """What this worker's heartbeat says of the crawl, while it runs."""
        if (crawl := self._crawl) is None:
            return None
        return CrawlActivity(
            self.record.name,
            self.record.version,
            crawl.in_flight,
            crawl.pages,
            crawl.rate,
            crawl.parsing,
            crawl.done.lost_turns,
            round(crawl.store_delay, 4),
        )

    @property
    def output_activity(self) -> list[OutputActivity]:
        return self._outputs.activity(self.record.name)

    @property
    def _frontier(self) -> RedisFrontier:
        return self._context.fleet.frontier


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error inside nested exception groups."""
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
