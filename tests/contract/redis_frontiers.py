"""The frontier on Redis and Valkey, ready to be tested: real servers, and a clock that only moves when told to.

Servers serve all tests of a process; each test has a namespace of its own. The clock is a key of the shard
in place of clock.lua, written before a script runs: nothing that is shipped can be told what time it is.
"""

import asyncio
import atexit
import itertools
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar

from tests.servers.redis import RedisServer, cluster, redis_program, sentinels, valkey_program

from shoal.frontier.redis import RedisFrontier
from shoal.frontier.redis.scripts import Scripts
from shoal.model.outcome import Lease
from shoal.redis_client import RedisClient, Script, ScriptArgument
from shoal.redis_client.errors import CallFailed
from shoal.testing.contracts.frontier import ManualClock

MANUAL_CLOCK = """
local function read_clock()
  return tonumber(redis.call('GET', string.sub(KEYS[1], 1, -3) .. ':clock'))
end
"""
SCRIPTS = Scripts(clock=MANUAL_CLOCK)
T = TypeVar("T")

_servers: dict[str, "Servers"] = {}
_namespaces = (f"test{number}" for number in itertools.count())


class ClockedStore(RedisClient):
    """A store whose shards are told what time it is."""

    clock: ManualClock
    told: dict[str, float]  # tag -> what time it was when the shard was last told

    async def run(
        self, script: Script, tag: str, args: Sequence[ScriptArgument], *, promised: bool = False
    ) -> Any:
        if self.told.get(tag) != self.clock():
            self.told[tag] = self.clock()
            await self.do(tag, "SET", f"{tag}:clock", repr(self.clock()))
        return await super().run(script, tag, args, promised=promised)


class Servers:
    """Servers of one kind that all tests of this process share."""

    def __init__(self, dsn: str, masters: Callable[[], Awaitable[Sequence[RedisServer]]]) -> None:
        self.dsn = dsn
        self._masters = masters

    async def ask(self, *command: str | int) -> None:
        """Send a command to whichever master it concerns."""
        for master in await self._masters():
            with suppress(CallFailed):  # MOVED: another one's
                await master.ask(*command)

    async def flush(self) -> None:
        for master in await self._masters():
            await master.ask("FLUSHALL")


async def servers(kind: str) -> Servers:
    if kind not in _servers:
        # In a loop that is never closed: the end of a test must not be the end of the servers.
        _servers[kind] = await asyncio.to_thread(_forever.run_until_complete, STARTERS[kind]())
    return _servers[kind]


async def _one(program: Callable[[], str]) -> Servers:
    started = RedisServer(program(), Path(mkdtemp(prefix="shoal-redis-")))
    atexit.register(started.kill)
    await started.begin()

    async def masters() -> Sequence[RedisServer]:
        return [started]

    return Servers(started.dsn, masters)


async def _sentinels() -> Servers:
    found = await _entered(sentinels(Path(mkdtemp(prefix="shoal-sentinel-"))))

    async def masters() -> Sequence[RedisServer]:
        return [await found.master()]

    for server in (*found.servers, *found.sentinels):
        atexit.register(server.kill)
    return Servers(found.dsn, masters)


async def _cluster() -> Servers:
    found = await _entered(cluster(Path(mkdtemp(prefix="shoal-cluster-"))))
    for server in found.servers:
        atexit.register(server.kill)
    return Servers(found.dsn, found.masters)


async def _entered(manager: AbstractAsyncContextManager[T]) -> T:
    _managers.append(manager)
    return await manager.__aenter__()


_forever = asyncio.new_event_loop()
_managers: list[AbstractAsyncContextManager[Any]] = []  # kept, or they would be left when they are collected
STARTERS: dict[str, Callable[[], Coroutine[Any, Any, Servers]]] = {
    "valkey": lambda: _one(valkey_program),
    "redis": lambda: _one(redis_program),
    "sentinel": _sentinels,
    "cluster": _cluster,
}


class RedisBench:
    """A frontier of one shard, if not told otherwise: its order is exact, across shards it is approximate."""

    durable = True

    def __init__(self, kind: str, clock: ManualClock, *, shards: int = 1, scripts: Scripts = SCRIPTS) -> None:
        self.clock = clock
        self._scripts = scripts
        self._shards = shards
        self._told: dict[str, float] = {}
        self.leases: list[
            Lease
        ] = []  # for tests that prepare a frontier: what was leased, and what was fetched
        self.pages: list[int] = []
        self._kind = kind
        self._namespace = next(_namespaces)
        self._stack = AsyncExitStack()

    async def open(self) -> None:
        self.frontier = await self.another()

    async def another(self) -> RedisFrontier:
        """Let one more worker come, with a connection and knowledge of its own."""
        found = await servers(self._kind)
        await found.ask("HSETNX", f"{{{self._namespace}}}:meta", "shards", self._shards)
        store = await self._stack.enter_async_context(
            ClockedStore.open(f"{found.dsn}?namespace={self._namespace}")
        )
        assert isinstance(store, ClockedStore)
        store.clock, store.told = self.clock, self._told
        self.store = store
        return RedisFrontier(store, scripts=self._scripts, clock=self.clock)

    async def close(self) -> None:
        await self._stack.aclose()

    async def kill(self) -> None:
        """Let a worker die: another one comes, and the deadlines of what the first one held pass.

        Nothing else knows of its death. Only for those leases does time go on.
        """
        await self.close()
        await self.open()
        for tag in self.store.tags():
            for token in await self.store.do(tag, "ZRANGE", f"{tag}:lx", 0, -1):
                batch = f"{tag}:l:{token.decode()}"
                held = await self.store.do(tag, "HGETALL", batch)
                for field, record in zip(held[::2], held[1::2], strict=True):
                    if field != b"_":
                        over = struct.pack(">d", self.clock()) + record[8:]
                        await self.store.do(tag, "HSET", batch, field, over)
                await self.store.do(tag, "ZADD", f"{tag}:lx", self.clock(), token)
        await self.frontier.reclaim()


@asynccontextmanager
async def redis_bench(
    kind: str, clock: ManualClock, *, shards: int = 1, scripts: Scripts = SCRIPTS
) -> AsyncIterator[RedisBench]:
    bench = RedisBench(kind, clock, shards=shards, scripts=scripts)
    await bench.open()
    try:
        yield bench
    finally:
        await bench.close()
        await (await servers(kind)).flush()
