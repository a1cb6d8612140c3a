"""Connections to the masters of a store, opened when first needed and again when lost."""

import asyncio
import logging
import time
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Protocol

from shoal.model.errors import Misconfigured
from shoal.redis_client import durability, health
from shoal.redis_client.connection import RedisConnection
from shoal.redis_client.dsn import Address, Dsn, Login
from shoal.redis_client.durability import Aof, Aofs
from shoal.redis_client.errors import CallFailed, ScriptFault
from shoal.redis_client.fan_out import fan_out
from shoal.redis_client.tls import ssl_context
from shoal.redis_client.topology import open_topology

log = logging.getLogger(__name__)

CALL_TIMEOUT_S = 5.0  # no script takes a hundredth of it; beyond it the server hangs or the network is cut
CONNECTIONS = 2  # per server: a tag that waits for its replicas blocks every second tag at most
COUNT_EVERY_S = 10.0  # after which a master is asked again how many replicas it has


@dataclass(slots=True)
class Server:
    """A connection to a master, and what is known about the process at its other end."""

    connection: RedisConnection
    epoch: str  # run id of the server process
    replicas: int
    counted_at: float  # monotonic
    online: tuple[Address, ...]  # replicas that are up to date
    aofs: Aofs | None = None  # of the master and the online replicas; None: not asked yet
    loading: asyncio.Lock = field(default_factory=asyncio.Lock)
    loads: Counter[str] = field(default_factory=Counter)  # of scripts, by their hash


class Connect(Protocol):
    """Opens a connection, as `RedisConnection.open` does."""

    async def __call__(
        self, address: Address, login: Login, *, database: int, tls: SSLContext | None, timeout: float
    ) -> RedisConnection: ...


class Servers:
    def __init__(self, dsn: Dsn, *, timeout: float, connect: Connect | None = None) -> None:
        self._dsn = dsn
        self._timeout = timeout
        self._open = connect or RedisConnection.open
        self._tls = ssl_context(dsn)
        self._topology = open_topology(dsn, dial=self.dial, dial_sentinel=self._dial_sentinel)
        self._servers: dict[tuple[Address, str], Server] = {}
        self._opening: dict[tuple[Address, str], asyncio.Lock] = {}
        self.met: set[str] = set()  # run ids of all masters so far

    def close(self) -> None:
        for server in self._servers.values():
            server.connection.close()
        self._servers.clear()

    async def masters(self) -> Sequence[Address]:
        return await self._topology.masters()

    async def master(self, tag: str, *, connection: str = "") -> Server:
        """Return the master of a tag: the same connection for the same tag, as long as it lives.

        `connection`: use a dedicated connection of that name, for calls that make the server wait.
        """
        address = await self._topology.master(tag)
        place = (address, connection or str(zlib.crc32(tag.encode()) % CONNECTIONS))
        async with self._opening.setdefault(place, asyncio.Lock()):
            server = self._servers.get(place)
            if server is None or not server.connection.alive:
                server = self._servers[place] = await self._connect(address)
        return server

    async def replicas(self, server: Server) -> int:
        """Return the number of replicas of a master, so that calls do not wait for one that is gone."""
        if time.monotonic() - server.counted_at > COUNT_EVERY_S:
            await self._count(server)
        return server.replicas

    async def aofs(self, server: Server) -> Aofs:
        """Return the AOFs of a master and its replicas."""
        await self.replicas(server)
        if server.aofs is None:
            waits = await durability.waitaof_error(server.connection) is None
            master = await durability.inspect_aof(server.connection) if waits else Aof.NONE
            copies = await self.replica_aofs(server.online) if waits else []
            server.aofs = Aofs(master, tuple(aof or Aof.NONE for aof in copies))
        return server.aofs

    async def replica_aofs(self, replicas: Sequence[Address]) -> list[Aof | None]:
        """Ask replicas about their AOFs; None: a replica cannot be reached from here."""
        return await fan_out(self._replica_aof(address) for address in replicas)

    async def _replica_aof(self, replica: Address) -> Aof | None:
        try:
            connection = await self.dial(replica)
            try:
                return await durability.inspect_aof(connection)
            finally:
                connection.close()
        except (CallFailed, ScriptFault, Misconfigured):
            return None

    async def confirm(self, server: Server, tag: str) -> None:
        """Check that a server is still the master of a tag, and count its replicas again."""
        self._topology.clear()
        if await self._topology.master(tag) != server.connection.address:
            server.connection.close()
            raise CallFailed("MOVED", str(server.connection.address))
        await self._count(server)

    def rediscover(self, failure: CallFailed) -> None:
        """Look up the masters again; reconnect to a server that reported it is not a master."""
        self._topology.clear()
        if failure.kind in ("READONLY", "MASTERDOWN", "UNBLOCKED"):
            for server in self._servers.values():
                if str(server.connection.address) == failure.where:
                    server.connection.close()

    async def dial(self, address: Address) -> RedisConnection:
        """Open a connection that the caller owns and closes."""
        return await self._dial(address, self._dsn.login, self._dsn.database)

    async def _dial_sentinel(self, address: Address) -> RedisConnection:
        return await self._dial(address, self._dsn.sentinel_login, 0)

    async def _dial(self, address: Address, login: Login, database: int) -> RedisConnection:
        return await self._open(address, login, database=database, tls=self._tls, timeout=self._timeout)

    async def _connect(self, address: Address) -> Server:
        connection = await self.dial(address)
        try:
            info = health.parse_info(await connection.call("INFO", "server", "replication"))
            self._check_kind(info, address)
            if info["role"] != "master":
                raise CallFailed("READONLY", str(address))
        except BaseException:
            connection.close()
            raise
        self.met.add(info["run_id"])
        replicas, online = int(info["connected_slaves"]), health.online_replicas(info)
        return Server(connection, info["run_id"], replicas, time.monotonic(), online)

    def _check_kind(self, info: Mapping[str, str], address: Address) -> None:
        """Raise `Misconfigured` for a server of another kind than the scheme of the DSN."""
        mode = info.get("server_mode", info.get("redis_mode"))  # Valkey's field, and Redis'
        if mode == "sentinel":
            raise Misconfigured(
                f"store: {address} is a sentinel: use redis+sentinel://{address}/ and its master's name"
            )
        if mode == "cluster" and not self._dsn.cluster:
            raise Misconfigured(f"store: {address} belongs to a cluster: use redis+cluster://{address}")
        if not {"role", "run_id", "connected_slaves"} <= info.keys():
            raise Misconfigured(
                f"store: the INFO of {address} lacks role or run_id: is there a proxy in between?"
            )

    async def _count(self, server: Server) -> None:
        info = health.parse_info(await server.connection.call("INFO", "replication"))
        number = int(info["connected_slaves"])
        if number < min(server.replicas, self._dsn.replicas):
            log.warning("store.replica_lost", extra={"where": str(server.connection.address), "left": number})
        server.replicas, server.counted_at = number, time.monotonic()
        if (online := health.online_replicas(info)) != server.online:
            server.online, server.aofs = online, None
