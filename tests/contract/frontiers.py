"""A bench for every backend of the frontier: opened, on a clock that the test moves."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.contract.redis_frontiers import redis_bench
from tests.model import MemoryFrontier

from shoal.fetch.gate import SendGate
from shoal.frontier.sqlite import SqliteFrontier
from shoal.stores.folder.control_socket import accept_commands
from shoal.stores.folder.directory import StoreFolder
from shoal.stores.folder.guests.server import Guests
from shoal.stores.folder.joining import join_owner
from shoal.testing.contracts.frontier import FrontierBench, ManualClock


class MemoryBench:
    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.frontier = MemoryFrontier(clock)

    async def kill(self) -> None:
        self.frontier.restart()


class SqliteBench:
    def __init__(self, clock: ManualClock, path: Path) -> None:
        self.clock = clock
        self.path = path
        self._stack = AsyncExitStack()

    async def open(self) -> None:
        self.frontier = await self._stack.enter_async_context(
            SqliteFrontier.open(self.path, clock=self.clock)
        )

    async def close(self) -> None:
        await self._stack.aclose()

    async def kill(self) -> None:
        await self.close()  # which releases no lease, just like a death
        await self.open()


class GuestBench:
    """A guest, whose owner dies with it: what the guest holds is then lost at once."""

    def __init__(self, clock: ManualClock, folder: Path) -> None:
        self.clock = clock
        self._folder = StoreFolder(folder)
        self._stack = AsyncExitStack()

    async def open(self) -> None:
        folder, clock, stack = self._folder, self.clock, self._stack
        owner = await stack.enter_async_context(SqliteFrontier.open(folder.database, clock=clock))
        guests = Guests(owner, SendGate(), "the owner")
        hurry = asyncio.Event()
        hurry.set()
        await stack.enter_async_context(accept_commands(folder.path, owner, guests, hurry=hurry))
        joined = join_owner(folder, fsync=False, leave=lambda: None, clock=clock)
        self.frontier = (await stack.enter_async_context(joined)).frontier

    async def close(self) -> None:
        await self._stack.aclose()

    async def kill(self) -> None:
        await self.close()
        await self.open()


@asynccontextmanager
async def guest(folder: Path) -> AsyncIterator[FrontierBench]:
    bench = GuestBench(ManualClock(), folder)
    await bench.open()
    try:
        yield bench
    finally:
        await bench.close()


@asynccontextmanager
async def memory(_: Path) -> AsyncIterator[FrontierBench]:
    yield MemoryBench(ManualClock())


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncIterator[FrontierBench]:
    bench = SqliteBench(ManualClock(), folder / "store.db")
    await bench.open()
    try:
        yield bench
    finally:
        await bench.close()


def fleet(kind: str) -> Callable[[Path], AbstractAsyncContextManager[FrontierBench]]:
    return lambda _: redis_bench(kind, ManualClock())


SEVERAL_SERVERS = ("sentinel", "cluster")
FLEETS = ("valkey", "redis", "sentinel", "cluster")  # without an owner process
BACKENDS: dict[str, Callable[[Path], AbstractAsyncContextManager[FrontierBench]]] = {
    "memory": memory,
    "sqlite": sqlite,
    "guest": guest,
    **{kind: fleet(kind) for kind in FLEETS},
}
