"""A parser without processes: pages are parsed in the loop, after a drawn time, in any order."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from tests.simulation.clock import world

from shoal.model.page import ParseResult, ParseTask
from shoal.model.scope import Scope
from shoal.parse.pool import PoolBacklog, PoolStats
from shoal.spider.run import run
from shoal.spider.source import SpiderSource, describe, load

SLOW_PAGES = 0.03  # share of the pages whose parse takes up to 6 s


class SimParser:
    """See `SessionParser`."""

    confinement: frozenset[str] = frozenset()
    sandbox_warning = ""

    def __init__(self, source: SpiderSource) -> None:
        self._spider = load(source)
        self.description = describe(self._spider)
        self.backlog, self.stats = PoolBacklog(), PoolStats()
        self._scope = Scope()
        self._idle = asyncio.Event()
        self._broken = asyncio.get_running_loop().create_future()

    def serves(self, *_args: Any, **_options: Any) -> bool:
        return True

    def configure(self, scope: Scope) -> None:
        # As a child gets it: decoded, and not the object of the caller.
        self._scope = msgspec.msgpack.decode(msgspec.msgpack.encode(scope), type=Scope)

    def submit(self, task: ParseTask, on_answer: Callable[[ParseResult], None]) -> None:
        self.backlog.pages += 1
        self.backlog.bytes += len(task.body)
        slow = world.parser.random() < SLOW_PAGES
        delay = (6.0 if slow else 0.01) * world.parser.random()
        asyncio.get_running_loop().call_later(delay, self._parse, task, on_answer)

    def _parse(self, task: ParseTask, on_answer: Callable[[ParseResult], None]) -> None:
        result = run(self._spider, task, scope=self._scope)
        self.backlog.pages -= 1
        self.backlog.bytes -= len(task.body)
        self.stats.pages += 1
        if not self.backlog.pages:
            self._idle.set()
        try:
            on_answer(result)
        except Exception as error:
            if not self._broken.done():
                self._broken.set_exception(error)

    async def drain(self) -> None:
        while self.backlog.pages:
            self._idle.clear()
            await self._idle.wait()

    async def watch(self) -> None:
        await asyncio.shield(self._broken)
