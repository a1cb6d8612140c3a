"""The parse pool: sends pages to children in batches and answers every one of them.

Everything runs in callbacks of the event loop; there is no task to await and no lock. The state is small:
pages that no child has yet (`_waiting`), pages with a strike (`_suspects`), and a `Channel` for each live
child with the pages it holds. Children are forked when there is work for them, so a child that cannot start
costs its first page a strike, and there is no endless restart loop.
"""

import asyncio
import itertools
import logging
import os
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from shoal.child_process import hide_from_same_user
from shoal.model.configuration.hidden_secrets import hide_in, visible_secrets
from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.limits import ParseLimits
from shoal.model.page import ParseResult, ParseTask
from shoal.model.request import trace_id
from shoal.model.sandbox import SandboxMode, SandboxRules
from shoal.model.scope import Scope
from shoal.parse import batch
from shoal.parse.channel import Channel, PendingPage
from shoal.parse.fork_server_client import ForkServerClient
from shoal.parse.messages import ChildExited, Ready, Start, encode
from shoal.parse.output import spider_log_level
from shoal.parse.page_memory import PageMemory, estimated_bytes, is_large
from shoal.parse.sandbox import guarantees, landlock
from shoal.parse.verdict import ChildExit, KillReason, PoisonCause, Verdict, judge
from shoal.spider.source import SpiderDescription, SpiderModule, SpiderSource

log = logging.getLogger(__name__)

IMPORT_TIMEOUT_S = 60.0  # seconds a spider may take to load
IMPORT_RETRIES = 2  # of an import that was killed from outside: by the system, for memory


class Poisoned(msgspec.Struct, frozen=True):
    """The answer for a page that crashes every child that parses it."""

    id: int
    cause: PoisonCause
    reason: str  # one line


Answer = ParseResult | Poisoned


@dataclass(slots=True)
class PoolBacklog:
    """Pages that were submitted and are not yet answered."""

    pages: int = 0
    bytes: int = 0


@dataclass(slots=True)
class PoolStats:
    pages: int = 0  # answered with a result
    crashes: int = 0  # strikes
    poisoned: int = 0
    restarts: int = 0  # children that replaced others
    cpu: float = 0.0  # CPU seconds: of the answered pages, and the rest of the children that have ended


class ParsePool:
    """Child processes that run one spider. Created by `open`."""

    description: SpiderDescription
    confinement: frozenset[str]  # the guarantees of the sandbox that hold on this machine

    def __init__(
        self, start: Start, procs: int, import_timeout: float, memory: PageMemory | None = None
    ) -> None:
        self.backlog = PoolBacklog()
        self.stats = PoolStats()
        self._start = start
        self._limits = start.limits
        self._secrets = visible_secrets(start.sandbox.environment, os.environ)
        self._procs = procs
        self._import_timeout = import_timeout
        self._loop = asyncio.get_running_loop()
        self._broken: asyncio.Future[None] = self._loop.create_future()
        self._idle = asyncio.Event()
        self._waiting: deque[PendingPage[Answer]] = deque()
        self._large: deque[PendingPage[Answer]] = deque()  # those of the waiting pages that need much memory
        self._memory = memory or PageMemory()
        self._suspects: deque[PendingPage[Answer]] = deque()
        self._channels: dict[int, Channel[Answer]] = {}
        self._numbers = itertools.count(1)
        self._children_started = 0
        self._scope = encode(Scope())
        self._ready = False  # the fork server has loaded the spider
        self._dispatch_scheduled = False
        self._imports_killed = 0  # in a row
        self._open_fork_server()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        source: SpiderSource,
        *,
        procs: int,
        limits: ParseLimits,
        sandbox: SandboxRules = SandboxRules(),  # noqa: B008 (frozen)
        import_timeout: float = IMPORT_TIMEOUT_S,
    ) -> AsyncIterator["ParsePool"]:
        """Load the spider in a fork server and parse pages with up to `procs` children.

        Raises `Misconfigured` if the spider cannot be loaded, or if the sandbox must be complete and is not.
        Leaving the context kills all children at once:
        call `drain` first if the submitted pages should be answered.
        """
        assert procs >= 1
        start = Start(source, limits, import_path(source), sandbox, spider_log_level())
        if sandbox.mode is not SandboxMode.OFF and not landlock.is_available():
            hide_from_same_user()  # the spider may run as this user, and read what /proc has of this process
        pool = cls(start, procs, import_timeout)
        try:
            ready = await pool._wait_loaded()
            pool.description, pool.confinement = (
                ready.description,
                pool._fork_server.guarantees or frozenset(),
            )
            pool._warn_of_gaps()
            yield pool
        finally:
            await pool._close()

    def serves(
        self,
        source: SpiderSource,
        *,
        procs: int,
        limits: ParseLimits,
        sandbox: SandboxRules = SandboxRules(),  # noqa: B008 (frozen)
    ) -> bool:
        """Return whether `open` with these arguments would create a pool like this one."""
        start = Start(source, limits, self._start.path, sandbox, self._start.log_level)
        return self._start == start and self._procs == procs and not self._broken.done()

    @property
    def sandbox_warning(self) -> str:
        """What the spider is not kept from, in one line; empty if the sandbox is complete."""
        return guarantees.warning(self.confinement, self._start.sandbox.mode)

    def _warn_of_gaps(self) -> None:
        mode = self._start.sandbox.mode
        if self.sandbox_warning:
            facts = {"why": self.sandbox_warning, "remedy": guarantees.remedy(self.confinement, mode)}
            log.warning("sandbox.off" if mode is SandboxMode.OFF else "sandbox.incomplete", extra=facts)

    def configure(self, scope: Scope) -> None:
        """Apply `scope` to every page that is sent to a child from now on.

        Children also empty their `SeenLinks`, even if the scope is the same.
        """
        self._scope = encode(scope)
        for channel in self._channels.values():
            channel.send_scope(self._scope)

    def submit(self, task: ParseTask, on_answer: Callable[[Answer], None]) -> None:
        """Parse a page; the event loop calls `on_answer` once, never during this call."""
        if self._broken.done():
            self._broken.result()
        pending = PendingPage(task, on_answer)
        (self._large if is_large(task.body) else self._waiting).append(pending)
        self.backlog.pages += 1
        self.backlog.bytes += len(task.body)
        # Not at once: pages submitted in the same iteration of the loop share one message.
        if not self._dispatch_scheduled:
            self._dispatch_soon()

    async def drain(self) -> None:
        """Wait until all submitted pages are answered, those submitted during the wait included."""
        while self.backlog.pages and not self._broken.done():
            self._idle.clear()
            await self._idle.wait()
        if self._broken.done():
            self._broken.result()

    async def watch(self) -> None:
        """Wait forever; raise if the pool can no longer answer, or if an `on_answer` raised."""
        await asyncio.shield(self._broken)

    # --- pages to children -----------------------------------------------------------------------

    def _dispatch_soon(self) -> None:
        self._dispatch_scheduled = True
        self._loop.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._dispatch_scheduled = False
        keeps_place = False
        if self._ready:
            # A large page with a strike is not passed by those without.
            keeps_place = self._dispatch_suspects() or self._dispatch_large()
            self._dispatch_waiting()
        if not keeps_place or self._broken.done():
            self._memory.leave(self._on_memory)

    def _dispatch_suspects(self) -> bool:
        """Send each page with a strike to a fresh child, alone. Leave at least one child to other pages.

        Return whether the pool needs its place in the queue for memory: for a large page, and not while its
        own children are at work on others, which may take long.
        """
        limit = max(1, self._procs - 1) if self._waiting else self._procs
        alone = sum(channel.alone for channel in self._channels.values())
        while self._suspects and alone < limit:
            size = self._memory_of(self._suspects[0])
            if size and not self._memory.has_room(size, self._on_memory):
                return True
            if (channel := self._fresh_child()) is None:
                return size > 0 and not self._channels
            channel.alone = True
            alone += 1
            self._take_memory(self._suspects[0], size)
            self._send(channel, [self._suspects.popleft()])
        return False

    def _memory_of(self, pending: PendingPage[Answer]) -> int:
        """Return the bytes that a large page counts with; 0: it is not large."""
        return estimated_bytes(pending.task.body) if is_large(pending.task.body) else 0

    def _take_memory(self, pending: PendingPage[Answer], size: int) -> None:
        if size:
            pending.counted = size
            self._memory.take(size, self._on_memory)

    def _give_back(self, pending: PendingPage[Answer]) -> None:
        if size := pending.counted:
            pending.counted = 0
            self._memory.give_back(size)

    def _on_memory(self) -> None:
        """Send large pages for which there may be memory now."""
        if not self._dispatch_scheduled:
            self._dispatch_soon()

    def _dispatch_large(self) -> bool:
        """Send large pages, each to the child with the fewest pages, as long as there is memory for them.

        Return whether one is left, so that the pool needs its place in the queue for memory. It keeps it
        while a child is found: without, another pool would have the memory each time that there is a child.
        """
        while self._large:
            size = self._memory_of(self._large[0])
            if not self._memory.has_room(size, self._on_memory):
                return True
            takers = [channel for channel in self._channels.values() if channel.has_room]
            if all(channel.unanswered for channel in takers) and self._may_start_child():
                takers = [self._start_child()]
            if not takers:
                return True
            self._take_memory(self._large[0], size)
            self._send(min(takers, key=lambda channel: len(channel.unanswered)), [self._large.popleft()])
        return False

    def _fresh_child(self) -> Channel[Answer] | None:
        """Return a child that has not parsed a page yet, started if necessary; None if all are busy."""
        idle = [channel for channel in self._channels.values() if channel.serving and not channel.unanswered]
        for channel in idle:
            if channel.pages == 0:
                return channel
        if self._may_start_child():
            return self._start_child()
        if not idle:
            return None
        self._channels.pop(idle[0].number).close()
        return self._start_child() if self._may_start_child() else None

    def _may_start_child(self) -> bool:
        return len(self._channels) < self._procs

    def _dispatch_waiting(self) -> None:
        """Distribute the waiting pages over the children that can take a message."""
        while self._waiting and self._may_start_child():
            self._start_child()
        while self._waiting:
            takers = [channel for channel in self._channels.values() if channel.has_room]
            if not takers:
                return
            takers.sort(key=lambda channel: len(channel.unanswered))
            for rank, channel in enumerate(takers[: len(self._waiting)]):
                share = batch.share(len(self._waiting), len(takers) - rank)
                count = batch.fit_in_message((len(pending.task.body) for pending in self._waiting), share)
                self._send(channel, [self._waiting.popleft() for _ in range(count)])

    def _send(self, channel: Channel[Answer], pending_pages: list[PendingPage[Answer]]) -> None:
        channel.send(pending_pages)
        if channel.timer is None:
            channel.timer = self._loop.call_later(self._limits.wall, self._check_timeout, channel)

    def _start_child(self) -> Channel[Answer]:
        channel = Channel[Answer](self._next_number(), self._loop, output_bytes=self._limits.output_bytes)
        self._channels[channel.number] = channel
        self._fork(channel.number, channel.token, channel.open(self._on_readable))
        channel.send_scope(self._scope)
        self._children_started += 1
        if self._children_started > self._procs:
            self.stats.restarts += 1
        return channel

    def _next_number(self) -> int:
        return next(self._numbers)

    def _fork(self, child: int, token: int, sock: socket.socket) -> None:
        self._fork_server.fork(child, token, sock)

    def _kill(self, child: int) -> None:
        self._fork_server.kill(child)

    # --- answers from children -------------------------------------------------------------------

    def _on_readable(self, channel: Channel[Answer]) -> None:
        self._collect(channel)
        if not channel.serving:
            # Usually it is dead and this does nothing. If it is alive, its connection is unusable.
            self._kill(channel.number)
        self._end_retired(channel)
        if self._suspects or ((self._waiting or self._large) and (channel.has_room or channel.retiring)):
            self._dispatch()

    def _end_retired(self, channel: Channel[Answer]) -> None:
        """End a child that was asked to, once it has answered the pages that it holds."""
        ended = channel.retiring and not channel.unanswered and channel.serving
        if ended and self._channels.pop(channel.number, None) is not None:
            channel.close()

    def _collect(self, channel: Channel[Answer], *, everything: bool = False) -> None:
        for pending, result in channel.receive(everything=everything):
            self.stats.pages += 1
            self.stats.cpu += result.cpu
            self._answer(pending, result if result.fault is None else self._without_secrets(result))
        self._on_collected()

    def _without_secrets(self, result: ParseResult) -> ParseResult:
        """Return a faulty result without the secrets that the spider can see: it is logged and stored."""
        fault = result.fault
        assert fault is not None
        reason, detail = (hide_in(text, self._secrets) for text in (fault.reason, fault.detail))
        return replace(result, fault=replace(fault, reason=reason, detail=detail))

    def _on_collected(self) -> None:
        """Note what answering pages has cost; a pool that shares its children overrides it."""

    def _answer(self, pending: PendingPage[Answer], answer: Answer) -> None:
        self._give_back(pending)
        self.backlog.pages -= 1
        self.backlog.bytes -= len(pending.task.body)
        if self.backlog.pages == 0:
            self._idle.set()
        try:
            pending.on_answer(answer)
        except Exception as error:  # a callback of the event loop has no caller that could handle it
            self._break(error)

    def _check_timeout(self, channel: Channel[Answer]) -> None:
        """Kill a child that is over its time, unless answers are waiting: this loop may have been slow."""
        channel.timer = None
        self._collect(channel, everything=True)
        left = channel.since + self._limits.wall - self._loop.time()
        if channel.unanswered and left > 0:
            channel.timer = self._loop.call_later(left, self._check_timeout, channel)
        elif channel.unanswered:
            if channel.serving:
                channel.blame(KillReason.OVERDUE)
            self._kill(channel.number)
        self._dispatch()

    # --- ends ------------------------------------------------------------------------------------

    def _on_exit(self, exited: ChildExited) -> None:
        channel = self._channels.get(exited.child)
        if channel is None:
            return  # it was idle, and replaced
        self._collect(channel, everything=True)
        self.stats.cpu += max(0.0, exited.cpu - channel.cpu)
        # Only if it has parsed a page: otherwise a page could avoid its strike with this exit status.
        recycle = exited.status == ChildExit.RECYCLE and channel.pages > 0
        verdict = None if recycle else judge(exited.status, channel.kill_reason, self._limits)
        self._remove_child(channel, verdict)

    def _remove_child(self, channel: Channel[Answer], verdict: Verdict | None) -> None:
        """Remove a dead child: a strike for the page to blame, and requeue its other pages."""
        del self._channels[channel.number]
        channel.close()
        blamed = channel.blamed_page() if verdict is not None else None
        for pending in reversed(channel.unanswered):
            self._give_back(pending)
            if pending is not blamed:
                (self._large if is_large(pending.task.body) else self._waiting).appendleft(pending)
        if blamed is not None and verdict is not None:
            self._strike(blamed, verdict)
        self._dispatch()

    def _strike(self, pending: PendingPage[Answer], verdict: Verdict) -> None:
        pending.strikes += 1
        self.stats.crashes += 1
        facts = {"cause": verdict.cause, "reason": verdict.reason, "strikes": pending.strikes}
        about = {"trace": trace_id(pending.task.fingerprint), "url": pending.task.url}
        log.warning("page.strike", extra={**about, **facts})
        if verdict.final or pending.strikes >= self._limits.crashes:
            self.stats.poisoned += 1
            self._answer(pending, Poisoned(pending.task.id, verdict.cause, verdict.reason))
        else:
            self._suspects.append(pending)

    # --- the zygote ------------------------------------------------------------------------------

    def _open_fork_server(self) -> None:
        self._fork_server = self._start_fork_server()

    def _start_fork_server(self) -> ForkServerClient:
        try:
            return ForkServerClient(
                self._start, loop=self._loop, on_exit=self._on_exit, on_end=self._fork_server_lost
            )
        except OSError as error:
            raise Unavailable(f"cannot start a parse process: {error}") from error

    async def _wait_loaded(self) -> Ready:
        while True:
            try:
                async with asyncio.timeout(self._import_timeout):
                    ready = await asyncio.shield(self._fork_server.ready)
            except TimeoutError:
                raise Misconfigured(self._too_slow()) from None
            except Misconfigured:
                if not self._may_import_again():
                    raise
                self._fork_server = self._start_fork_server()
            else:
                self._imports_killed = 0
                self._ready = True
                return ready

    def _may_import_again(self) -> bool:
        """Return whether the fork server was killed while it loaded the spider, which is not its fault."""
        if not self._fork_server.was_killed or self._imports_killed >= IMPORT_RETRIES:
            return False
        self._imports_killed += 1
        log.warning("parse.import_killed", extra={"spider": self._start.where})
        return True

    def _fork_server_lost(self) -> None:
        """Start a new fork server: this one died, and its children with it, which should never happen."""
        if not self._ready:
            return  # still loading, or closing: `_wait_loaded` or `_close` handles it
        self._ready = False
        self._lose_children()
        log.error("parse.fork_server_lost", extra={"spider": self._start.where})
        self._restart_fork_server()

    def _restart_fork_server(self) -> None:
        try:
            self._fork_server = self._start_fork_server()
        except Unavailable as error:
            self._break(error)
            return
        late = self._loop.call_later(self._import_timeout, self._fork_server.fail, self._too_slow())
        self._fork_server.ready.add_done_callback(lambda ready: self._fork_server_ready(ready, late))

    def _lose_children(self) -> None:
        verdict = Verdict(PoisonCause.CRASH, "the fork server of the parse children died")
        for channel in list(self._channels.values()):
            self._collect(channel, everything=True)
            self._remove_child(channel, verdict)

    def _fork_server_ready(self, ready: asyncio.Future[Ready], late: asyncio.TimerHandle) -> None:
        late.cancel()
        if ready.cancelled():  # closing
            return
        if error := ready.exception():
            if self._may_import_again():
                self._restart_fork_server()
            else:
                self._break(error)
            return
        self._imports_killed = 0
        self._ready = True
        self._dispatch()

    def _too_slow(self) -> str:
        return f"{self._start.where}: importing it took more than {self._import_timeout:g} s"

    def _break(self, error: BaseException) -> None:
        if not self._broken.done():
            self._broken.set_exception(error)
            self._idle.set()
            self._memory.leave(self._on_memory)

    async def _close(self) -> None:
        self._ready = False
        self._close_channels()
        if self._broken.done():
            self._broken.exception()  # marks it as retrieved: asyncio would warn when it is collected
        await self._fork_server.close()

    def _close_channels(self) -> None:
        self._memory.leave(self._on_memory)
        for channel in self._channels.values():
            channel.close()
            for pending in channel.unanswered:
                self._give_back(pending)
        self._channels.clear()


def import_path(source: SpiderSource) -> tuple[str, ...]:
    """Return where a spider is imported from: a module first in the folder of the command."""
    if isinstance(source, SpiderModule) and source.folder:
        return (source.folder, *(path for path in sys.path if path != source.folder))
    return tuple(sys.path)


def describe(source: SpiderSource) -> SpiderDescription:
    """Load a spider in a separate process and return its description. Blocks."""

    async def load() -> SpiderDescription:
        async with ParsePool.open(source, procs=1, limits=ParseLimits()) as pool:
            return pool.description

    return asyncio.run(load())
