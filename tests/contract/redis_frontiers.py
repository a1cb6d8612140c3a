"""A bench for the frontier on Redis and Valkey: real servers, and a clock that the test moves.

All tests of a process share the servers; each test has a separate namespace. The clock is a key of the shard,
written before a script runs, and read instead of clock.lua: the shipped scripts have no way to set the time.
"""

import itertools
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from tests.servers.shared import shared_redis

from shoal.frontier.redis import RedisFrontier
from shoal.frontier.redis.scripts import Scripts
from shoal.model.outcome import Lease
from shoal.redis_client import RedisClient, Script, ScriptArgument
from shoal.testing.contracts.frontier import ManualClock

MANUAL_CLOCK = """
local function read_clock()
  return tonumber(redis.call('GET', string.sub(KEYS[1], 1, -3) .. ':clock'))
end
"""
SCRIPTS = Scripts(clock=MANUAL_CLOCK)

_namespaces = (f"test{number}" for number in itertools.count())


class ClockedStore(RedisClient):
    """A client that writes the time into a shard before it runs a script."""

    clock: ManualClock
    written: dict[str, float]  # tag -> the time that was last written

    async def run(
        self, script: Script, tag: str, args: Sequence[ScriptArgument], *, replicated: bool = False
    ) -> Any:
        if self.written.get(tag) != self.clock():
            self.written[tag] = self.clock()
            await self.do(tag, "SET", f"{tag}:clock", repr(self.clock()))
        return await super().run(script, tag, args, replicated=replicated)


class RedisBench:
    """A frontier of one shard by default: there its order is exact, across shards it is approximate."""

    def __init__(self, kind: str, clock: ManualClock, *, shards: int = 1, scripts: Scripts = SCRIPTS) -> None:
        self.clock = clock
        self._scripts = scripts
        self._shards = shards
        self._written: dict[str, float] = {}
        # For tests that prepare a frontier: what was leased, and what was fetched.
        self.leases: list[Lease] = []
        self.pages: list[int] = []
        self._kind = kind
        self._namespace = next(_namespaces)
        self._stack = AsyncExitStack()

    async def open(self) -> None:
        self.frontier = await self.another()

    async def another(self) -> RedisFrontier:
        """Return the frontier of one more worker, with a separate connection."""
        found = await shared_redis(self._kind)
        await found.ask("HSETNX", f"{{{self._namespace}}}:meta", "shards", self._shards)
        store = await self._stack.enter_async_context(
            ClockedStore.open(f"{found.dsn}?namespace={self._namespace}")
        )
        assert isinstance(store, ClockedStore)
        store.clock, store.written = self.clock, self._written
        self.store = store
        return RedisFrontier(store, scripts=self._scripts, clock=self.clock)

    async def close(self) -> None:
        await self._stack.aclose()

    async def kill(self) -> None:
        """Replace the worker by another one and let the deadlines of its leases pass.

        Nothing else notices its death: time passes only for those leases.
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
        await (await shared_redis(kind)).flush()
