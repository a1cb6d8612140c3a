"""The parse processes of a worker that serves many crawls: a bounded number of them, lent to crawls in turn.

A crawl has a pool (`SharedPool`), which costs nothing while it has no page to parse. Spiders are loaded on
demand, each in a fork server; crawls with the same spider use the same one. It runs the code of one spider
and never sees a page. A child belongs to one crawl from its fork to its end, so code and pages of two crawls
never meet in a process, and the sandbox is that of every parse process.

At most `max_children` children and `max_spiders` fork servers exist at a time. If more crawls have pages, the
one that has used the least CPU time for its weight gets the next child. A child that has served for `SLICE_S`
while others wait finishes the pages that it holds and ends. A spider that no crawl needs at the moment is
dropped when another one has to be loaded.

A fork takes as long as parsing tens of small pages. So a crawl that others compete with gets a child when it
has `GATHER_PAGES` pages for it, or when the first of them has waited for `GATHER_S`.
"""

import asyncio
import itertools
import logging
import socket
import sys
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from shoal.child_process import hide_from_same_user
from shoal.model.errors import Unavailable
from shoal.model.limits import ParseLimits
from shoal.model.sandbox import SandboxMode, SandboxRules
from shoal.parse.fork_server_client import ForkServerClient
from shoal.parse.messages import ChildExited, Ready, Start, encode
from shoal.parse.page_memory import PageMemory
from shoal.parse.pool import IMPORT_RETRIES, IMPORT_TIMEOUT_S, ParsePool
from shoal.parse.sandbox import landlock
from shoal.spider.source import SpiderDescription, SpiderSource

log = logging.getLogger(__name__)

SLICE_S = 0.5  # that a child serves a crawl at least, while others wait
SPIDER_SLICE_S = 5.0  # that a spider stays loaded at least, while crawls need it
GATHER_PAGES = 8
GATHER_S = 0.5
LOOK_EVERY_S = 0.1  # at who has to hand over, while others wait
KNOWN_SPIDERS = 4096  # descriptions that are kept without the process that loaded the spider


class LoadedSpider(msgspec.Struct, frozen=True):
    description: SpiderDescription
    guarantees: frozenset[str]


class SpiderServer:
    """A fork server with one spider, and the children of all crawls that were forked from it."""

    def __init__(self, start: Start, shared: "SharedParsers", loop: asyncio.AbstractEventLoop) -> None:
        self.start = start
        self.children: dict[int, SharedPool] = {}
        self.is_closing = False
        self.loaded_at = self.used_at = loop.time()
        self._shared = shared
        self._loop = loop
        self.client = ForkServerClient(
            start, loop=loop, on_exit=self._on_exit, on_end=lambda: shared.server_ended(self)
        )

    @property
    def is_ready(self) -> bool:
        ready = self.client.ready
        return not self.is_closing and ready.done() and not ready.cancelled() and ready.exception() is None

    def fork(self, pool: "SharedPool", child: int, token: int, sock: socket.socket) -> None:
        self.children[child] = pool
        self.used_at = self._loop.time()
        self.client.fork(child, token, sock)

    def _on_exit(self, exited: ChildExited) -> None:
        self.used_at = self._loop.time()
        if (pool := self.children.pop(exited.child, None)) is not None:
            pool.child_exited(exited)
        self._shared.assign_soon()


class SharedParsers:
    """Opened by the worker; `pool` gives each crawl its part."""

    def __init__(self, group: asyncio.TaskGroup, *, max_children: int, max_spiders: int) -> None:
        self.max_children = max_children
        self._max_spiders = max_spiders
        self._group = group
        self._loop = asyncio.get_running_loop()
        self._servers: dict[bytes, SpiderServer] = {}
        self._imports_killed = Counter[bytes]()  # in a row
        self._closing = 0  # fork servers that have not exited yet
        self._known: OrderedDict[bytes, LoadedSpider] = OrderedDict()
        self._loads: dict[bytes, asyncio.Future[LoadedSpider]] = {}  # asked for by crawls that open
        self._starts: dict[bytes, Start] = {}
        self._pools: set[SharedPool] = set()
        self._wanting: dict[SharedPool, float] = {}  # pools whose pages have no child: since when
        self.memory = PageMemory()
        self._granted = 0  # places of children that are not forked yet
        self._numbers = itertools.count(1)
        self._assign_scheduled = False
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    @asynccontextmanager
    async def open(cls, *, max_children: int, max_spiders: int) -> AsyncIterator["SharedParsers"]:
        async with asyncio.TaskGroup() as group:
            shared = cls(group, max_children=max_children, max_spiders=max_spiders)
            try:
                yield shared
            finally:
                await shared._close()

    @property
    def processes(self) -> int:
        """The processes that exist now: fork servers and children."""
        return self._closing + len(self._servers) + self._children

    @asynccontextmanager
    async def pool(
        self,
        source: SpiderSource,
        *,
        procs: int,
        limits: ParseLimits,
        sandbox: SandboxRules,
        weight: float = 1.0,
    ) -> AsyncIterator["SharedPool"]:
        """Open the pool of one crawl; raise `Misconfigured` if its spider cannot be loaded."""
        start = Start(source, limits, tuple(sys.path), sandbox)
        if sandbox.mode is not SandboxMode.OFF and not landlock.is_available():
            hide_from_same_user()
        key = encode(start)
        loaded = self._known.get(key) or await self._load(key, start)
        pool = SharedPool(start, procs, self, key=key, loaded=loaded, weight=weight)
        self._pools.add(pool)
        try:
            yield pool
        finally:
            pool.close_children()
            self._pools.discard(pool)
            self._wanting.pop(pool, None)
            self.give_back(pool)

    # --- what pools and servers call -------------------------------------------------------------

    def next_number(self) -> int:
        return next(self._numbers)

    def want(self, pool: "SharedPool") -> None:
        """Record that a pool has pages and no child that could take them."""
        if pool not in self._wanting:
            # A pool that had nothing to do for long gets no credit for that.
            busy = (one.used for one in self._pools if one is not pool and one.is_busy)
            pool.used = max(pool.used, min(busy, default=0.0))
            self._wanting[pool] = self._loop.time()
            self.assign_soon()

    def fork(self, pool: "SharedPool", child: int, token: int, sock: socket.socket) -> None:
        """Start a child for a pool that has been granted one."""
        self._granted -= 1
        self._servers[pool.key].fork(pool, child, token, sock)

    def give_back(self, pool: "SharedPool") -> None:
        """Take back the places that a pool was granted and does not use."""
        self._granted -= pool.granted
        pool.granted = 0
        self.assign_soon()

    def kill(self, pool: "SharedPool", child: int) -> None:
        server = self._servers.get(pool.key)
        if server is not None and child in server.children:
            server.client.kill(child)

    def server_ended(self, server: SpiderServer) -> None:
        """Handle the end of a fork server; unless it was closed here, its children died with it."""
        key = encode(server.start)
        if self._servers.get(key) is server:
            del self._servers[key]
        lost = dict.fromkeys(server.children.values())
        server.children.clear()
        if server.is_closing:
            self._closing -= 1
        elif server.client.ready.done() and server.client.ready.exception() is None:
            log.error("parse.fork_server_lost", extra={"spider": server.start.where})
        for pool in lost:
            pool.server_lost()
        self.assign_soon()

    # --- who gets the next child -----------------------------------------------------------------

    @property
    def _children(self) -> int:
        return sum(len(server.children) for server in self._servers.values())

    def assign_soon(self) -> None:
        if not self._assign_scheduled:
            self._assign_scheduled = True
            self._loop.call_soon(self._assign)

    def _assign(self) -> None:
        """Grant free places to the pools that have used least; have others hand over if there is no place."""
        self._assign_scheduled = False
        for key in list(self._loads):
            self._serve_load(key)
        for pool in self._next_pools():
            try:
                server = self._server(pool.key, pool.start)
            except Unavailable as error:
                del self._wanting[pool]
                pool.fail(error)
                continue
            if server is None or not server.is_ready:
                continue
            if self._children + self._granted >= self.max_children:
                self._end_idle_child()
                break
            del self._wanting[pool]
            self._granted += 1
            pool.grant()
        if self._timer is None and (self._wanting or self._loads):
            self._timer = self._loop.call_later(LOOK_EVERY_S, self._hand_over)

    def _next_pools(self) -> list["SharedPool"]:
        """Return the pools that get the next children, in this order."""
        pools = sorted(self._wanting, key=lambda one: one.used)
        if self._children + self._granted + len(pools) <= self.max_children:
            return pools
        since = self._loop.time() - GATHER_S
        return [one for one in pools if one.backlog.pages >= GATHER_PAGES or self._wanting[one] <= since]

    def _hand_over(self) -> None:
        """Have the children end that have served longest, one for each pool that waits."""
        self._timer = None
        if not self._wanting and not self._loads:
            return
        waiting = max(1, len(self._wanting))
        serving = sorted(self._pools, key=lambda pool: -pool.used)
        for pool in serving:
            if waiting and pool.retire_child(older_than=SLICE_S):
                waiting -= 1
        self.assign_soon()

    def _end_idle_child(self) -> None:
        """End a child that has no page. Its place is free when it has exited."""
        any(pool.retire_child(older_than=0.0, idle=True) for pool in self._pools)

    # --- spiders ---------------------------------------------------------------------------------

    async def _load(self, key: bytes, start: Start) -> LoadedSpider:
        self._starts[key] = start
        waiting = self._loads.setdefault(key, self._loop.create_future())
        self.assign_soon()
        return await asyncio.shield(waiting)

    def _serve_load(self, key: bytes) -> None:
        try:
            server = self._server(key, self._starts[key])
        except Unavailable as error:
            self._finish_load(key, error)
            return
        if server is not None and server.is_ready and (loaded := self._known.get(key)) is not None:
            self._finish_load(key, loaded)

    def _finish_load(self, key: bytes, result: LoadedSpider | BaseException) -> None:
        self._starts.pop(key, None)
        if (waiting := self._loads.pop(key, None)) is None or waiting.done():
            return
        if isinstance(result, BaseException):
            waiting.set_exception(result)
            waiting.exception()  # retrieved, also if no crawl waits any more
        else:
            waiting.set_result(result)

    def _server(self, key: bytes, start: Start) -> SpiderServer | None:
        """Return the fork server of a spider; None: it has to wait for a place."""
        if (server := self._servers.get(key)) is not None:
            return None if server.is_closing else server
        if len(self._servers) + self._closing >= self._max_spiders:
            self._drop_idle_server()
            return None
        try:
            server = self._servers[key] = SpiderServer(start, self, self._loop)
        except OSError as error:
            raise Unavailable(f"cannot start a parse process: {error}") from error
        text = f"{start.where}: importing it took more than {IMPORT_TIMEOUT_S:g} s"
        late = self._loop.call_later(IMPORT_TIMEOUT_S, server.client.fail, text)
        server.client.ready.add_done_callback(lambda ready: self._loaded(key, server, ready, late))
        return server

    def _loaded(
        self, key: bytes, server: SpiderServer, ready: "asyncio.Future[Ready]", late: asyncio.TimerHandle
    ) -> None:
        late.cancel()
        if ready.cancelled():
            return
        if server.client.was_killed and self._imports_killed[key] < IMPORT_RETRIES:
            self._imports_killed[key] += 1
            log.warning("parse.import_killed", extra={"spider": server.start.where})
        elif (error := ready.exception()) is not None:
            del self._imports_killed[key]
            self._finish_load(key, error)
            for pool in [one for one in self._wanting if one.key == key]:
                del self._wanting[pool]
                pool.fail(error)
            if self._servers.get(key) is server:
                self._close_server(server)
        else:
            del self._imports_killed[key]
            # Seeds are not kept: only submitting needs them, and there may be a million.
            server.loaded_at = self._loop.time()
            description = msgspec.structs.replace(ready.result().description, start=())
            self._known[key] = LoadedSpider(description, server.client.guarantees or frozenset())
            while len(self._known) > KNOWN_SPIDERS:
                self._known.popitem(last=False)
        self.assign_soon()

    def _drop_idle_server(self) -> None:
        """Close the fork server that was not used for longest. Its place is free when it has exited.

        One that a crawl waits for is closed only after it had its time: loading a spider takes half a second.
        """
        needed = {pool.key for pool in self._wanting} | self._loads.keys()
        granted = {pool.key for pool in self._pools if pool.granted}
        now = self._loop.time()
        idle = [
            server
            for key, server in self._servers.items()
            if server.is_ready
            and not server.children
            and key not in granted
            and (key not in needed or now - server.loaded_at >= SPIDER_SLICE_S)
        ]
        if idle and not self._closing:
            self._close_server(min(idle, key=lambda server: server.used_at))

    def _close_server(self, server: SpiderServer) -> None:
        server.is_closing = True
        self._closing += 1
        self._servers.pop(encode(server.start), None)
        self._group.create_task(server.client.close(), name="parse.drop_spider")

    async def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for waiting in self._loads.values():
            waiting.cancel()
        servers, self._servers = list(self._servers.values()), {}
        for server in servers:
            server.is_closing = True
            self._closing += 1
        for server in servers:
            await server.client.close()


class SharedPool(ParsePool):
    """The pool of one crawl, whose children are lent by `SharedParsers`."""

    def __init__(
        self,
        start: Start,
        procs: int,
        shared: SharedParsers,
        *,
        key: bytes,
        loaded: LoadedSpider,
        weight: float,
    ) -> None:
        self._shared = shared
        super().__init__(start, procs, IMPORT_TIMEOUT_S, shared.memory)
        self.key = key
        self.granted = 0  # children that may be forked
        self.used = 0.0  # CPU seconds of its pages, divided by its weight
        self.description, self.confinement = loaded.description, loaded.guarantees
        self._weight = weight
        self._counted = 0.0
        self._ready = True

    @property
    def start(self) -> Start:
        return self._start

    @property
    def is_busy(self) -> bool:
        return bool(self.backlog.pages)

    def grant(self) -> None:
        """Fork one more child, unless no page needs it any more."""
        self.granted += 1
        self._dispatch()
        if self.granted:
            self._shared.give_back(self)

    def child_exited(self, exited: ChildExited) -> None:
        self._on_exit(exited)

    def server_lost(self) -> None:
        self._lose_children()
        self._dispatch_soon()

    def fail(self, error: BaseException) -> None:
        self._break(error)

    def retire_child(self, *, older_than: float, idle: bool = False) -> bool:
        """Have a child end after the pages that it holds; return whether there was one to choose."""
        oldest = self._loop.time() - older_than
        for channel in list(self._channels.values()):
            if channel.started_at <= oldest and not channel.retiring and not (idle and channel.unanswered):
                channel.retiring = True
                self._end_retired(channel)
                return True
        return False

    def close_children(self) -> None:
        """End every child at once."""
        self._ready = False
        for channel in self._channels.values():
            self._shared.kill(self, channel.number)
        self._close_channels()
        if self._broken.done():
            self._broken.exception()  # marks it as retrieved

    def _next_number(self) -> int:
        return self._shared.next_number()

    def _may_start_child(self) -> bool:
        if len(self._channels) >= self._procs:
            return False
        if self.granted:
            self.granted -= 1
            return True
        self._shared.want(self)
        return False

    def _fork(self, child: int, token: int, sock: socket.socket) -> None:
        self._shared.fork(self, child, token, sock)

    def _kill(self, child: int) -> None:
        self._shared.kill(self, child)

    def _open_fork_server(self) -> None:
        pass  # the shared ones are started on demand

    def _on_collected(self) -> None:
        self.used += (self.stats.cpu - self._counted) / self._weight
        self._counted = self.stats.cpu
