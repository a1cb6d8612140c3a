"""The parse pool: hands pages to children in batches and answers for every one of them.

Everything here happens in callbacks of the event loop; there is no task to await and no lock. The state is
small: pages nobody has yet (`_waiting`), pages with a strike (`_suspects`), and a `Channel` for each live
child with the pages it holds. Children are forked when there is work for them, so that one which cannot live
costs the page it was to parse a strike, and nothing goes round in circles.
"""

import asyncio
import itertools
import logging
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.limits import ParseLimits
from shoal.model.page import ParseResult, ParseTask
from shoal.model.scope import Scope
from shoal.parse import batch
from shoal.parse.channel import Channel, Ticket
from shoal.parse.fork_server_client import ForkServerClient
from shoal.parse.messages import Exited, Ready, Start, encode
from shoal.parse.verdict import Cause, ChildExit, PoisonKind, Verdict, judge
from shoal.spider.source import SpiderDescription, SpiderSource

log = logging.getLogger(__name__)

IMPORT_TIME = 60.0  # seconds a spider may take to load


@dataclass(frozen=True, slots=True)
class Poisoned:
    """The end of a page that brings down whatever parses it."""

    id: int
    kind: PoisonKind
    reason: str  # one line


Answer = ParseResult | Poisoned


@dataclass(slots=True)
class Backlog:
    """What was submitted and is not answered."""

    pages: int = 0
    bytes: int = 0


@dataclass(slots=True)
class PoolStats:
    pages: int = 0  # answered with a result
    crashes: int = 0  # strikes dealt out
    poisoned: int = 0
    restarts: int = 0  # children beyond the first ones
    cpu: float = 0.0  # seconds of children: their pages, and all of those that have ended


class ParsePool:
    """Children that run one spider. Made by `open`."""

    description: SpiderDescription
    confinement: frozenset[str]  # the measures of `confine` in force here

    def __init__(self, start: Start, procs: int, import_time: float) -> None:
        self.backlog = Backlog()
        self.stats = PoolStats()
        self._start = start
        self._limits = start.limits
        self._procs = procs
        self._import_time = import_time
        self._loop = asyncio.get_running_loop()
        self._broken: asyncio.Future[None] = self._loop.create_future()
        self._settled = asyncio.Event()
        self._waiting: deque[Ticket[Answer]] = deque()
        self._suspects: deque[Ticket[Answer]] = deque()
        self._channels: dict[int, Channel[Answer]] = {}
        self._numbers = itertools.count(1)
        self._scope = encode(Scope())
        self._ready = False  # there is a zygote to fork children from
        self._due = False  # a dispatch is on its way
        self._nursery = self._found()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        source: SpiderSource,
        *,
        procs: int,
        limits: ParseLimits,
        import_time: float = IMPORT_TIME,
    ) -> AsyncIterator["ParsePool"]:
        """Load the spider in a process of its own and serve pages with `procs` children.

        Raises `Misconfigured` if it cannot be loaded. Leaving ends everything at once: `drain` first if what
        is submitted should be answered.
        """
        assert procs >= 1
        start = Start(source, limits, tuple(sys.path))
        pool = cls(start, procs, import_time)
        try:
            ready = await pool._loaded()
            pool.description, pool.confinement = ready.description, frozenset(ready.confinement)
            yield pool
        finally:
            await pool._close()

    def serves(self, source: SpiderSource, *, procs: int, limits: ParseLimits) -> bool:
        """Tell whether `open` would make another one like this."""
        like = self._start.source == source and self._procs == procs and self._limits == limits
        return like and not self._broken.done()

    def configure(self, scope: Scope) -> None:
        """Let `scope` apply to every page that goes to a child from now on.

        Children start over with an empty memory of the links they have handed over, even if it is the same.
        """
        self._scope = encode(scope)
        for channel in self._channels.values():
            channel.tell(self._scope)

    def submit(self, task: ParseTask, on_answer: Callable[[Answer], None]) -> None:
        """Have a page parsed; `on_answer` is called once, from the event loop, never from here."""
        if self._broken.done():
            self._broken.result()
        self._waiting.append(Ticket(task, on_answer))
        self.backlog.pages += 1
        self.backlog.bytes += len(task.body)
        # Soon, not now: what else arrives in this turn of the loop shares the message.
        if not self._due:
            self._dispatch_soon()

    async def drain(self) -> None:
        """Wait until every page submitted so far, and since, is answered."""
        while self.backlog.pages and not self._broken.done():
            self._settled.clear()
            await self._settled.wait()
        if self._broken.done():
            self._broken.result()

    async def watch(self) -> None:
        """Wait for ever; raise if the pool can no longer answer, or an `on_answer` raised."""
        await asyncio.shield(self._broken)

    # --- pages to children -----------------------------------------------------------------------

    def _dispatch_soon(self) -> None:
        self._due = True
        self._loop.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._due = False
        if self._ready:
            self._place_suspects()
            self._place_waiting()

    def _place_suspects(self) -> None:
        """Give each page with a strike a fresh child to itself, and leave the rest a child to go on with."""
        most = max(1, self._procs - 1) if self._waiting else self._procs
        alone = sum(channel.alone for channel in self._channels.values())
        while self._suspects and alone < most and (channel := self._fresh()) is not None:
            channel.alone = True
            alone += 1
            self._send(channel, [self._suspects.popleft()])

    def _fresh(self) -> Channel[Answer] | None:
        """Find a child that has not parsed anything yet, or make one."""
        idle = [channel for channel in self._channels.values() if channel.serving and not channel.unanswered]
        for channel in idle:
            if channel.pages == 0:
                return channel
        if len(self._channels) >= self._procs:
            if not idle:
                return None
            self._channels.pop(idle[0].number).close()
        return self._hire()

    def _place_waiting(self) -> None:
        """Spread the waiting pages over the children that can take a message."""
        while self._waiting and len(self._channels) < self._procs:
            self._hire()
        while self._waiting:
            takers = [channel for channel in self._channels.values() if channel.has_room]
            if not takers:
                return
            takers.sort(key=lambda channel: len(channel.unanswered))
            for rank, channel in enumerate(takers[: len(self._waiting)]):
                share = batch.share(len(self._waiting), len(takers) - rank)
                count = batch.cut((len(ticket.task.body) for ticket in self._waiting), share)
                self._send(channel, [self._waiting.popleft() for _ in range(count)])

    def _send(self, channel: Channel[Answer], tickets: list[Ticket[Answer]]) -> None:
        channel.send(tickets)
        if channel.timer is None:
            channel.timer = self._loop.call_later(self._limits.wall, self._check, channel)

    def _hire(self) -> Channel[Answer]:
        channel = Channel[Answer](next(self._numbers), self._loop, output_bytes=self._limits.output_bytes)
        self._channels[channel.number] = channel
        self._nursery.fork(channel.number, channel.token, channel.open(self._take))
        channel.tell(self._scope)
        if channel.number > self._procs:
            self.stats.restarts += 1
        return channel

    # --- answers from children -------------------------------------------------------------------

    def _take(self, channel: Channel[Answer]) -> None:
        self._collect(channel)
        if not channel.serving:
            # Most often it is dead and this does nothing; if it lives, it cannot be heard any more.
            self._nursery.kill(channel.number)
        if self._suspects or (self._waiting and channel.has_room):
            self._dispatch()

    def _collect(self, channel: Channel[Answer], *, everything: bool = False) -> None:
        for ticket, result in channel.receive(everything=everything):
            self.stats.pages += 1
            self.stats.cpu += result.cpu
            self._answer(ticket, result)

    def _answer(self, ticket: Ticket[Answer], answer: Answer) -> None:
        self.backlog.pages -= 1
        self.backlog.bytes -= len(ticket.task.body)
        if self.backlog.pages == 0:
            self._settled.set()
        try:
            ticket.on_answer(answer)
        except Exception as error:  # not ours to judge, and nobody is above us on the stack
            self._break(error)

    def _check(self, channel: Channel[Answer]) -> None:
        """Kill a child whose page has had its time. Answers first: this loop may have been the slow one."""
        channel.timer = None
        self._collect(channel, everything=True)
        left = channel.since + self._limits.wall - self._loop.time()
        if channel.unanswered and left > 0:
            channel.timer = self._loop.call_later(left, self._check, channel)
        elif channel.unanswered:
            if channel.serving:
                channel.accuse(Cause.OVERDUE)
            self._nursery.kill(channel.number)
        self._dispatch()

    # --- ends ------------------------------------------------------------------------------------

    def _exited(self, exited: Exited) -> None:
        channel = self._channels.get(exited.child)
        if channel is None:
            return  # sent away when it was idle
        self._collect(channel, everything=True)
        self.stats.cpu += max(0.0, exited.cpu - channel.cpu)
        # Believed only of a child that has done something, or a page could get out of all blame by saying so.
        worn = exited.status == ChildExit.WORN and channel.pages > 0
        self._bury(channel, None if worn else judge(exited.status, channel.cause, self._limits))

    def _bury(self, channel: Channel[Answer], verdict: Verdict | None) -> None:
        """Settle what a dead child leaves: a strike for the culprit, another child for the rest."""
        del self._channels[channel.number]
        channel.close()
        culprit = channel.culprit() if verdict is not None else None
        for ticket in reversed(channel.unanswered):
            if ticket is not culprit:
                self._waiting.appendleft(ticket)
        if culprit is not None and verdict is not None:
            self._strike(culprit, verdict)
        self._dispatch()

    def _strike(self, ticket: Ticket[Answer], verdict: Verdict) -> None:
        ticket.strikes += 1
        self.stats.crashes += 1
        facts = {"kind": verdict.kind, "reason": verdict.reason, "strikes": ticket.strikes}
        log.warning("page.strike", extra={"url": ticket.task.url, **facts})
        if verdict.final or ticket.strikes >= self._limits.crashes:
            self.stats.poisoned += 1
            self._answer(ticket, Poisoned(ticket.task.id, verdict.kind, verdict.reason))
        else:
            self._suspects.append(ticket)

    # --- the zygote ------------------------------------------------------------------------------

    def _found(self) -> ForkServerClient:
        try:
            return ForkServerClient(self._start, loop=self._loop, on_exit=self._exited, on_end=self._orphaned)
        except OSError as error:
            raise Unavailable(f"no process to parse in: {error}") from error

    async def _loaded(self) -> Ready:
        try:
            async with asyncio.timeout(self._import_time):
                ready = await asyncio.shield(self._nursery.ready)
        except TimeoutError:
            raise Misconfigured(self._too_slow()) from None
        self._ready = True
        return ready

    def _orphaned(self) -> None:
        """Go on with a new zygote: this one died, and its children with it. Something is badly wrong here."""
        if not self._ready:
            return  # while loading, or closing: whoever waits for that is told
        self._ready = False
        verdict = Verdict(PoisonKind.CRASH, "the process that all parse children come from died")
        for channel in list(self._channels.values()):
            self._collect(channel, everything=True)
            self._bury(channel, verdict)
        log.error("parse.zygote_lost", extra={"spider": self._start.where})
        try:
            self._nursery = self._found()
        except Unavailable as error:
            self._break(error)
            return
        late = self._loop.call_later(self._import_time, self._nursery.refuse, self._too_slow())
        self._nursery.ready.add_done_callback(lambda ready: self._reloaded(ready, late))

    def _reloaded(self, ready: asyncio.Future[Ready], late: asyncio.TimerHandle) -> None:
        late.cancel()
        if ready.cancelled():  # closing
            return
        if error := ready.exception():
            self._break(error)
            return
        self._ready = True
        self._dispatch()

    def _too_slow(self) -> str:
        return f"{self._start.where}: importing it took more than {self._import_time:g} s"

    def _break(self, error: BaseException) -> None:
        if not self._broken.done():
            self._broken.set_exception(error)
            self._settled.set()

    async def _close(self) -> None:
        self._ready = False
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        if self._broken.done():
            self._broken.exception()  # whoever was to hear of it has gone; do not complain at collection
        await self._nursery.close()


def describe(source: SpiderSource) -> SpiderDescription:
    """Load a spider in a process of its own, only to see what it says of itself. Blocks."""

    async def look() -> SpiderDescription:
        async with ParsePool.open(source, procs=1, limits=ParseLimits()) as pool:
            return pool.description

    return asyncio.run(look())
