"""Running a crawl in a folder, from its command to its end: usually in one session.

A guest has another session whenever the process that owns the folder ends: it leaves the folder in time, or
loses it, opens it again as an owner or as the guest of another process, and resumes its crawl. That is what
the same command would do after a kill, in the same process. The counters of the run, the parts of a list of
start URLs that were read, and what the display has said are kept.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field, replace

from shoal.engine.counters import Counters
from shoal.engine.crawl import Crawl
from shoal.engine.embedded import Embedded
from shoal.engine.generations.yield_check import YieldVerdict, check_yield, read_own_totals
from shoal.engine.outputs import Writer, WriterThread
from shoal.engine.plan import CrawlPlan, Stop
from shoal.engine.runs.outcome import Decided
from shoal.engine.session import SessionParser, open_session
from shoal.engine.snapshot import RESUMED, Ending, Opening, Snapshot, Summary
from shoal.fetch.http.client import HttpClient
from shoal.model.errors import Interrupted, leaves
from shoal.sinks.drafts import DRAFTS, dump_drafts, load_drafts, publish, rename_outputs, show
from shoal.stores.contract.checkpoints import sinks_key
from shoal.stores.contract.store import PATIENCE_S, OwnerLost, Stay, Store, StoreBusy, WorkingFrontier

log = logging.getLogger("shoal.progress")

HANDOVER_S = 5.0  # for requests in progress, when the owner ends; then they are released
MAX_LOSSES = 20  # sessions in a row that lose their owner before they have begun
LOSS_PAUSE_S = 0.1  # after each of them


async def crawl(
    plan: CrawlPlan,
    store: Store,
    *,
    stop: Stop,
    opened: Callable[[Opening], None] | None = None,
    watch: Callable[[Snapshot], None] | None = None,
    is_behind: Callable[[], bool] | None = None,
    decided: Decided | None = None,
    serve: Callable[[Crawl], AbstractAsyncContextManager[None]] | None = None,
    parser: SessionParser | None = None,
    client: HttpClient | None = None,
    open_writer: Callable[[], Writer] = WriterThread,
) -> Summary:
    """Run a crawl until it is finished, or `stop` asks it to end; the same call resumes it.

    `decided` is called once with what is done to the crawl, `opened` once with what it starts from, `watch`
    four times per second with a snapshot. Nothing is leased while `is_behind` returns true. `serve` is open
    while the crawl runs. `parser` has the spider loaded, `client` is open already: None starts new ones.
    Raises `NothingToDo` if the crawl is complete.
    """
    run = EmbeddedRun(
        plan=plan,
        store=store,
        stop=stop,
        opened=opened,
        watch=watch,
        is_behind=is_behind,
        decided=decided,
        serve=serve,
        parser=parser,
        client=client,
        open_writer=open_writer,
    )
    losses = 0
    while True:
        try:
            summary = await run.session()
        except (OwnerLost, BaseExceptionGroup) as error:
            if not all(isinstance(leaf, OwnerLost) for leaf in leaves(error)):
                raise
            losses = 0 if run.has_begun else losses + 1
            if losses > MAX_LOSSES:
                raise
            run.note_loss()
            await asyncio.sleep(losses * LOSS_PAUSE_S)
            continue
        except Interrupted:
            if not run.left_early:
                raise
        else:
            if not run.left_early or summary.ending is not Ending.INTERRUPTED:
                break
        run.note_loss()
    while True:
        try:
            return await replace_outputs(store, summary)
        except (OwnerLost, BaseExceptionGroup) as error:
            if not all(isinstance(leaf, OwnerLost) for leaf in leaves(error)):
                raise


@dataclass(slots=True, kw_only=True)
class EmbeddedRun:
    """A crawl that this process runs, in one session after another."""

    plan: CrawlPlan
    store: Store
    stop: Stop
    opened: Callable[[Opening], None] | None
    watch: Callable[[Snapshot], None] | None
    is_behind: Callable[[], bool] | None
    decided: Decided | None
    serve: Callable[[Crawl], AbstractAsyncContextManager[None]] | None
    parser: SessionParser | None = None
    client: HttpClient | None = None
    open_writer: Callable[[], Writer] = WriterThread
    has_begun: bool = False  # the last session
    _counters: Counters = field(default_factory=Counters)
    _origins: set[str] = field(default_factory=set)
    _resumed: bool | None = None  # whether the first session has found the crawl; None: not known
    _asked_to_leave: bool = False
    _waiting_since: float | None = None  # for an owner that takes guests, after a loss

    @property
    def left_early(self) -> bool:
        """Whether the last session has ended because its owner did, and the run has not."""
        return self._asked_to_leave and not self.stop.drain.is_set()

    async def session(self) -> Summary:
        """Open the crawl and run it until it ends, or until the process that owns the store does."""
        self._asked_to_leave = self.has_begun = False
        stop = self.stop.nested()
        loop = asyncio.get_running_loop()

        def leave() -> None:
            self._asked_to_leave = True
            stop.drain.set()
            timers.append(loop.call_later(HANDOVER_S, stop.now.set))

        timers: list[asyncio.TimerHandle] = []
        stay = Stay(leave=leave, hurry=stop.now, patience=self._patience, may_join=not self.plan.alone)
        try:
            async with AsyncExitStack() as stack:
                strategy = Embedded(
                    self.plan,
                    self.store,
                    stop,
                    self.is_behind,
                    self.decided,
                    stay=stay,
                    origins=self._origins,
                    created=self._begin,
                    client=self.client,
                    open_writer=self.open_writer,
                )
                stations = await stack.enter_async_context(open_session(strategy, self.parser))
                running = Crawl(stations, self._counters)
                if self.serve is not None:
                    await stack.enter_async_context(self.serve(running))
                await self._announce(running, strategy.host_process)
                ending = await running.run(stop, self.watch)
                summary = await running.summary(ending)
                if ending not in RESUMED and not summary.max_dead_exceeded:
                    verdict = await self._check_yield(running.name, strategy.frontier)
                    summary = replace(summary, dropped=verdict.drops, no_data=verdict.no_data)
        except StoreBusy:
            if self.stop.drain.is_set():
                raise Interrupted("interrupted; run the same command to resume") from None
            raise
        finally:
            for timer in timers:
                timer.cancel()
        return replace(summary, resumed=bool(self._resumed))

    async def _check_yield(self, crawl: str, frontier: WorkingFrontier) -> YieldVerdict:
        """Record whether this generation may replace the last one's outputs, while alerts are evaluated."""
        totals = await read_own_totals(frontier.reader, crawl)
        verdict = await check_yield(frontier.reader, totals, crawl)
        await frontier.commit(crawl_state={crawl: verdict.state})
        return verdict

    def _begin(self) -> None:
        """Take note that the crawl exists as the command asks for it: another session resumes it."""
        self.plan = replace(self.plan, fresh=False, again=False, opens_complete=True)
        self.has_begun = True

    async def _announce(self, running: Crawl, host_process: str) -> None:
        opening = replace(await running.opening(), host_process=host_process)
        if self._resumed is None:
            self._resumed = opening.resumed
            self.decided = None  # it was said
            if self.opened is not None:
                self.opened(opening)
        elif host_process:
            log.info("store.joined", extra={"crawl": opening.crawl, "owner": host_process})
        else:
            log.info("store.taken_over", extra={"crawl": opening.crawl, "store": opening.store})

    def note_loss(self) -> None:
        """Take note that the process that owned the store has ended, and wait for the next one."""
        self._waiting_since = asyncio.get_running_loop().time()

    def _patience(self) -> float:
        """Return for how long to wait for the owner of the store."""
        if self._waiting_since is None:
            return PATIENCE_S
        if self.stop.drain.is_set():
            return 0.0
        if asyncio.get_running_loop().time() - self._waiting_since > PATIENCE_S:
            log.info("store.waiting", extra={"store": self.store.address})
            self.note_loss()
        return math.inf


async def replace_outputs(store: Store, summary: Summary) -> Summary:
    """Move the drafts of a run that has succeeded into place; return the summary with what was left alone.

    A run that was interrupted, or had no exit left, keeps its drafts, and the next one continues them.
    """
    name = summary.snapshot.crawl
    if summary.ending in RESUMED:
        return summary
    async with store.work() as working:
        frontier = working.frontier
        drafts = load_drafts(await frontier.reader.value(name, DRAFTS))
        if not drafts:
            return summary
        if summary.max_dead_exceeded or not summary.snapshot.counts.get("done"):
            return replace(summary, kept=tuple(drafts))
        if summary.dropped or summary.no_data:
            return replace(summary, kept=tuple(drafts), new_data=show(drafts))
        await publish_drafts(frontier, name, drafts)
    return summary


async def publish_drafts(frontier: WorkingFrontier, crawl: str, drafts: Mapping[str, str]) -> None:
    """Move the drafts of a crawl in a folder into place. Repeating this after a crash completes it."""
    await frontier.crawls.open(crawl)
    publish(drafts)
    renamed = rename_outputs(await frontier.reader.checkpoint(sinks_key(crawl)), drafts)
    await frontier.commit(
        checkpoints={} if renamed is None else {sinks_key(crawl): renamed},
        crawl_state={crawl: {DRAFTS: dump_drafts({})}},
    )
