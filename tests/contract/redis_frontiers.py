"""The frontier on Redis and Valkey, ready to be tested: real servers, and a clock that only moves when told to.

One server serves all tests of a process; each test has a namespace of its own. The clock is a key of the shard
in place of clock.lua, written before a script runs: nothing that is shipped can be told what time it is.
"""

import atexit
import itertools
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tests.contract.clock import ManualClock
from tests.servers.redis import RedisServer, redis_program, valkey_program

from shoal.frontier.redis import RedisFrontier
from shoal.frontier.redis.scripts import Scripts
from shoal.stores.redis import RedisStore, Script, ScriptArgument

MANUAL_CLOCK = """
local function read_clock()
  return tonumber(redis.call('GET', string.sub(KEYS[1], 1, -3) .. ':clock'))
end
"""
SCRIPTS = Scripts(clock=MANUAL_CLOCK)
PROGRAMS: dict[str, Callable[[], str]] = {"valkey": valkey_program, "redis": redis_program}

_servers: dict[str, RedisServer] = {}
_namespaces = (f"test{number}" for number in itertools.count())


class ClockedStore(RedisStore):
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


async def server(kind: str) -> RedisServer:
    """Give the one server of a kind that all tests of this process share."""
    if kind not in _servers:
        started = RedisServer(PROGRAMS[kind](), Path(mkdtemp(prefix=f"shoal-{kind}-")))
        atexit.register(started.kill)
        await started.begin()
        _servers[kind] = started
    return _servers[kind]


class RedisBench:
    """A frontier of one shard, if not told otherwise: its order is exact, across shards it is approximate."""

    durable = True

    def __init__(self, kind: str, clock: ManualClock, *, shards: int = 1) -> None:
        self.clock = clock
        self._shards = shards
        self._told: dict[str, float] = {}
        self._kind = kind
        self._namespace = next(_namespaces)
        self._stack = AsyncExitStack()

    async def open(self) -> None:
        self.frontier = await self.another()

    async def another(self) -> RedisFrontier:
        """Let one more worker come, with a connection and knowledge of its own."""
        found = await server(self._kind)
        await found.ask("HSETNX", f"{{{self._namespace}}}:meta", "shards", self._shards)
        store = await self._stack.enter_async_context(
            ClockedStore.open(f"{found.dsn}?namespace={self._namespace}")
        )
        assert isinstance(store, ClockedStore)
        store.clock, store.told = self.clock, self._told
        self.store = store
        return RedisFrontier(store, scripts=SCRIPTS, clock=self.clock)

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
async def redis_bench(kind: str, clock: ManualClock, *, shards: int = 1) -> AsyncIterator[RedisBench]:
    bench = RedisBench(kind, clock, shards=shards)
    await bench.open()
    try:
        yield bench
    finally:
        await bench.close()
        await (await server(kind)).ask("FLUSHALL")
