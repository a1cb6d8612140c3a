"""Servers that all tests of one test process share: started when first needed, ended with the session.

Starting a cluster or a set of sentinels takes 2.2 seconds, moto 2.6 seconds of CPU time, PostgreSQL one. What a test
leaves in a shared server is deleted when the test ends. A test that kills, fills or reconfigures a server starts
one for itself, with the functions of the other modules of this folder.
"""

import asyncio
import itertools
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar

from tests.servers.postgres import PASSWORD, Postgres, ask, postgres
from tests.servers.redis import RedisCluster, RedisServer, SentinelSet, cluster, redis7, sentinels, valkey
from tests.servers.s3 import S3Server, s3_server

from shoal.redis_client.errors import CallFailed

T = TypeVar("T")


class SharedServers:
    """The servers that this process has started, by name."""

    def __init__(self) -> None:
        self._started: dict[str, Any] = {}
        self._stack = AsyncExitStack()
        self._numbers = itertools.count()
        # Not the loop of a test: the servers outlive it.
        self._loop: asyncio.AbstractEventLoop | None = None

    async def get(self, name: str, start: Callable[[Path], AbstractAsyncContextManager[T]]) -> T:
        """Return the servers of that name; start them if no test has needed them so far."""
        if name not in self._started:
            self._loop = self._loop or asyncio.new_event_loop()
            entering = self._stack.enter_async_context(start(self._folder(name)))
            self._started[name] = await asyncio.to_thread(self._loop.run_until_complete, entering)
        found: T = self._started[name]
        return found

    def get_sync(self, name: str, start: Callable[[Path], AbstractContextManager[T]]) -> T:
        """Return the server of that name, where starting it does not need an event loop."""
        if name not in self._started:
            self._started[name] = self._stack.enter_context(start(self._folder(name)))
        found: T = self._started[name]
        return found

    def number(self) -> int:
        """Return a number that no caller of this process got before: for names in a shared server."""
        return next(self._numbers)

    def close(self) -> None:
        """End all servers and delete their folders."""
        loop = self._loop or asyncio.new_event_loop()
        loop.run_until_complete(self._stack.aclose())
        loop.close()
        self._started, self._stack, self._loop = {}, AsyncExitStack(), None

    def _folder(self, name: str) -> Path:
        folder = Path(mkdtemp(prefix=f"shoal-{name}-"))  # short: pytest's folders are too long for sockets
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        return folder


SHARED = SharedServers()


class RedisServers:
    """Servers of one kind, addressed by one DSN."""

    def __init__(self, dsn: str, masters: Callable[[], Awaitable[Sequence[RedisServer]]]) -> None:
        self.dsn = dsn
        self._masters = masters

    async def ask(self, *command: str | int) -> None:
        """Send a command to every master; those that do not have its slot answer MOVED, which is ignored."""
        for master in await self._masters():
            with suppress(CallFailed):
                await master.ask(*command)

    async def flush(self) -> None:
        for master in await self._masters():
            await master.ask("FLUSHALL")


async def shared_redis(kind: str) -> RedisServers:
    """Return the shared servers of a kind: valkey, redis, sentinel, cluster. The caller flushes them."""
    match kind:
        case "valkey" | "redis":
            server = await SHARED.get(kind, valkey if kind == "valkey" else redis7)

            async def masters() -> Sequence[RedisServer]:
                return [server]

            return RedisServers(server.dsn, masters)
        case "sentinel":
            watched = await SHARED.get(kind, sentinels)

            async def masters() -> Sequence[RedisServer]:
                return [await watched.master()]

            return RedisServers(watched.dsn, masters)
        case "cluster":
            nodes = await SHARED.get(kind, cluster)
            return RedisServers(nodes.dsn, nodes.masters)
        case _:
            raise ValueError(kind)


@asynccontextmanager
async def shared_sentinels(_: Path | None = None) -> AsyncIterator[SentinelSet]:
    """Lend the sentinels of this process, with an empty master; the test must not kill a server."""
    watched = await SHARED.get("sentinel", sentinels)
    try:
        yield watched
    finally:
        await (await shared_redis("sentinel")).flush()


@asynccontextmanager
async def shared_cluster(_: Path | None = None) -> AsyncIterator[RedisCluster]:
    """Lend the cluster of this process, empty; the test must not kill a server or move slots."""
    nodes = await SHARED.get("cluster", cluster)
    try:
        yield nodes
    finally:
        await (await shared_redis("cluster")).flush()


@contextmanager
def shared_database() -> Iterator[str]:
    """Make an empty PostgreSQL database for one test or module; yield its DSN."""
    server = SHARED.get_sync("postgres", _postgres)
    name = f"test_{SHARED.number()}"
    ask(server.dsn, f"CREATE DATABASE {name}")
    try:
        yield server.dsn.rpartition("/")[0] + f"/{name}"
    finally:
        ask(server.dsn, f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def _postgres(_: Path) -> Iterator[Postgres]:
    with postgres() as server:
        ask(server.dsn, f"CREATE ROLE asked LOGIN SUPERUSER PASSWORD '{PASSWORD}'")
        yield server


@contextmanager
def shared_s3() -> Iterator[S3Server]:
    """Lend the object store of this process, with one empty bucket."""
    server = SHARED.get_sync("s3", s3_server)
    try:
        yield server
    finally:
        server.empty()
