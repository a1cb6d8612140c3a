"""An event loop in virtual time, and nodes: what would be one process each.

A context variable names the node of a task; what the task starts inherits it. Callbacks of one node run in the
order that asyncio promises; among nodes the seed chooses. If nothing is ready, the clock jumps to the next
timer. Each step takes some microseconds, so that no two events of a node have the same time.
"""

import asyncio
import gc
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any, TypeVar

from tests.simulation import disk
from tests.simulation.clock import CURRENT, world

STEP_S = 5e-6
BATCH = 64  # steps between two looks at the timers

T = TypeVar("T")


class Stuck(AssertionError):
    """The crawl neither ends nor waits for anything, or takes longer than it may."""


class Node:
    """One simulated process."""

    def __init__(self, name: str, pid: int) -> None:
        self.name = name
        self.pid = pid
        self.dead = False
        self.frozen = False
        self.mortal = False  # a crash point may kill it
        self.wall_offset = 0.0
        self.files = disk.Files(self)
        self.died = asyncio.get_running_loop().create_future()
        self.tasks: list[object] = []  # kept: the collection of a task would run its `finally` blocks
        self._held: list[asyncio.Handle] = []

    def __repr__(self) -> str:
        return self.name

    def kill(self) -> None:
        """End the node as SIGKILL does: none of its steps runs again, and its locks are released."""
        if self.dead:
            return
        world.log("kill", self.name)
        self.dead = True
        self.files.abandon()
        if not self.died.done():
            self.died.set_result(None)

    def freeze(self, seconds: float) -> None:
        """Stop the node as SIGSTOP does, and let it continue later."""
        if self.frozen or self.dead:
            return
        world.log("freeze", self.name)
        self.frozen = True
        asyncio.get_running_loop().call_later(seconds, self._continue, context=Context())

    def hold(self, handle: asyncio.Handle) -> None:
        self._held.append(handle)

    def _continue(self) -> None:
        world.log("continue", self.name)
        self.frozen = False
        loop = asyncio.get_running_loop()
        for handle in self._held:
            loop._ready.append(handle)  # type: ignore[attr-defined]
        self._held.clear()

    def start(self, main: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start a coroutine as the main task of this node."""
        context = copy_context()
        context.run(CURRENT.set, self)
        return asyncio.get_running_loop().create_task(main, context=context)


def node_of(handle: asyncio.Handle) -> Node | None:
    return handle._context.get(CURRENT)  # type: ignore[attr-defined,no-any-return]


class _Ready:
    """The callbacks that are ready, by node."""

    def __init__(self) -> None:
        self._queues: dict[Node | None, deque[asyncio.Handle]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, handle: asyncio.Handle) -> None:
        self._queues.setdefault(node_of(handle), deque()).append(handle)
        self._count += 1

    def popleft(self) -> asyncio.Handle:
        ready = [queue for queue in self._queues.values() if queue]
        queue = ready[0] if len(ready) == 1 else ready[world.schedule.randrange(len(ready))]
        self._count -= 1
        return queue.popleft()

    def clear(self) -> None:
        self._queues.clear()
        self._count = 0


class SimLoop(asyncio.BaseEventLoop):
    """`limit`: the time at which a run that has not ended raises `Stuck`."""

    _ready: _Ready

    def __init__(self) -> None:
        super().__init__()
        self._ready = _Ready()
        self.limit = float("inf")
        self.set_task_factory(self._make_task)
        gc.disable()

    def _make_task(self, _loop: asyncio.AbstractEventLoop, main: Any, **options: Any) -> "asyncio.Task[Any]":
        task = asyncio.Task(main, loop=self, **options)
        context = options.get("context")
        node = CURRENT.get() if context is None else context.get(CURRENT)
        if node is not None:
            node.tasks.append(task)
        return task

    def time(self) -> float:
        return world.now

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> "asyncio.Future[Any]":  # type: ignore[override]
        """Run the call between two waits, in the loop: no other step runs during the call."""
        begin = world.now + disk.delay()
        return _call_between(self, lambda: func(*args), begin, begin + disk.delay())

    def _process_events(self, event_list: Any) -> None: ...
    def _write_to_self(self) -> None: ...

    def _run_once(self) -> None:
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        while timers and timers[0].cancelled():
            heapq.heappop(timers)._scheduled = False  # type: ignore[attr-defined]
        if not self._ready:
            if not timers:
                raise Stuck("nothing is ready, and no timer is set")
            world.now = max(world.now, timers[0].when())
            if world.now > self.limit:
                raise Stuck(f"still running at {world.now:.0f} s")
        while timers and timers[0].when() <= world.now:
            timer = heapq.heappop(timers)
            timer._scheduled = False  # type: ignore[attr-defined]
            if not timer.cancelled():
                self._ready.append(timer)
        for _ in range(min(len(self._ready), BATCH)):
            handle = self._ready.popleft()
            if handle.cancelled():
                continue
            node = node_of(handle)
            if node is not None and node.dead:
                continue
            if node is not None and node.frozen:
                node.hold(handle)
                continue
            world.now += STEP_S
            world.steps += 1
            handle._run()


def _call_between(
    loop: asyncio.AbstractEventLoop, call: Callable[[], T], begin: float, end: float
) -> "asyncio.Future[T]":
    """Run `call` at `begin`, and settle the future that is returned at `end`."""
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = call()
        except BaseException as error:
            loop.call_at(end, _settle, done, done.set_exception, error)
        else:
            loop.call_at(end, _settle, done, done.set_result, result)

    loop.call_at(begin, run)
    return done


def _settle(done: "asyncio.Future[Any]", settle: Callable[[Any], None], value: object) -> None:
    if not done.done():
        settle(value)


class SimWriter:
    """`WriterThread` without a thread: one call at a time, in order; a cancelled caller leaves its call running."""

    def __init__(self) -> None:
        self._free_at = 0.0

    async def run(self, call: Callable[[], T]) -> T:
        begin = max(self._free_at, world.now) + disk.delay()
        self._free_at = begin + disk.delay()
        return await _call_between(asyncio.get_running_loop(), call, begin, self._free_at)

    def close(self, *, wait_s: float) -> bool:
        return world.now >= self._free_at
