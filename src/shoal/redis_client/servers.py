"""The servers behind a store: links to their masters, opened when first needed and again when lost."""

import asyncio
import logging
import time
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shoal.model.errors import Misconfigured
from shoal.redis_client import durability as disk
from shoal.redis_client import health, tls
from shoal.redis_client.connection import RedisConnection
from shoal.redis_client.dsn import Address, Dsn, Login
from shoal.redis_client.durability import Log, Logs
from shoal.redis_client.errors import CallFailed, ScriptFault
from shoal.redis_client.fan_out import together
from shoal.redis_client.topology import topology

log = logging.getLogger(__name__)

CALL_TIMEOUT = 5.0  # no script takes a hundredth of it; beyond it the server hangs or the network is cut
LINKS = 2  # per server: a tag that waits for its replicas holds up every second tag at most
COUNT_EVERY = 10.0  # seconds after which a master is asked again how many replicas it has


@dataclass(slots=True)
class Server:
    """A link to a master, and what is known about who is at its other end."""

    link: RedisConnection
    epoch: str  # identity of the server process
    replicas: int
    counted_at: float  # monotonic
    followers: tuple[Address, ...]  # those replicas that are up to date
    logs: Logs | None = None  # of the master and of the followers; None: nobody has asked yet
    loading: asyncio.Lock = field(default_factory=asyncio.Lock)
    loads: Counter[str] = field(default_factory=Counter)  # of scripts, by their hash


class Servers:
    def __init__(self, dsn: Dsn, *, timeout: float) -> None:
        self._dsn = dsn
        self._timeout = timeout
        self._tls = tls.context(dsn)
        self._topology = topology(dsn, dial=self.dial, dial_sentinel=self._dial_sentinel)
        self._servers: dict[tuple[Address, str], Server] = {}
        self._opening: dict[tuple[Address, str], asyncio.Lock] = {}
        self.met: set[str] = set()  # the identities of all masters so far

    def close(self) -> None:
        for server in self._servers.values():
            server.link.close()
        self._servers.clear()

    async def masters(self) -> Sequence[Address]:
        return await self._topology.masters()

    async def master(self, tag: str, *, line: str = "") -> Server:
        """Give the master of a tag: the same link for the same tag, as long as it lives.

        `line`: a link of one's own by that name, for whoever makes a server wait.
        """
        address = await self._topology.master(tag)
        place = (address, line or str(zlib.crc32(tag.encode()) % LINKS))
        async with self._opening.setdefault(place, asyncio.Lock()):
            server = self._servers.get(place)
            if server is None or not server.link.alive:
                server = self._servers[place] = await self._connect(address)
        return server

    async def replicas(self, server: Server) -> int:
        """Count the replicas of a master: none is waited for that is not there."""
        if time.monotonic() - server.counted_at > COUNT_EVERY:
            await self._count(server)
        return server.replicas

    async def logs(self, server: Server) -> Logs:
        """Find out which logs can be waited for: that of a master, and those of its replicas."""
        await self.replicas(server)
        if server.logs is None:
            waits = await disk.refusal(server.link) is None
            master = await disk.ask(server.link) if waits else Log.NONE
            copies = await self.logs_of(server.followers) if waits else []
            server.logs = Logs(master, tuple(log or Log.NONE for log in copies))
        return server.logs

    async def logs_of(self, replicas: Sequence[Address]) -> list[Log | None]:
        """Ask replicas how they keep their logs; None: one cannot be asked from here."""
        return await together(self._log_of(address) for address in replicas)

    async def _log_of(self, replica: Address) -> Log | None:
        try:
            link = await self.dial(replica)
            try:
                return await disk.ask(link)
            finally:
                link.close()
        except (CallFailed, ScriptFault, Misconfigured):
            return None

    async def confirm(self, server: Server, tag: str) -> None:
        """See that a server is still the master of a tag, and count its replicas again."""
        self._topology.forget()
        if await self._topology.master(tag) != server.link.address:
            server.link.close()
            raise CallFailed("MOVED", str(server.link.address))
        await self._count(server)

    def forget(self, failure: CallFailed) -> None:
        """Ask again who the master is; one that said it is none has to say who it is, too."""
        self._topology.forget()
        if failure.kind in ("READONLY", "MASTERDOWN", "UNBLOCKED"):
            for server in self._servers.values():
                if str(server.link.address) == failure.where:
                    server.link.close()

    async def dial(self, address: Address) -> RedisConnection:
        """Open a link of one's own to a server."""
        return await self._dial(address, self._dsn.login, self._dsn.database)

    async def _dial_sentinel(self, address: Address) -> RedisConnection:
        return await self._dial(address, self._dsn.sentinel_login, 0)

    async def _dial(self, address: Address, login: Login, database: int) -> RedisConnection:
        return await RedisConnection.open(
            address, login, database=database, tls=self._tls, timeout=self._timeout
        )

    async def _connect(self, address: Address) -> Server:
        link = await self.dial(address)
        try:
            facts = health.facts(await link.call("INFO", "server", "replication"))
            self._is_meant(facts, address)
            if facts["role"] != "master":
                raise CallFailed("READONLY", str(address))
        except BaseException:
            link.close()
            raise
        self.met.add(facts["run_id"])
        replicas, followers = int(facts["connected_slaves"]), health.replicas(facts)
        return Server(link, facts["run_id"], replicas, time.monotonic(), followers)

    def _is_meant(self, facts: Mapping[str, str], address: Address) -> None:
        """Refuse a server that is not of the kind that the DSN says."""
        mode = facts.get("server_mode", facts.get("redis_mode"))  # Valkey's word for it, and Redis'
        if mode == "sentinel":
            raise Misconfigured(
                f"store: {address} is a sentinel: use redis+sentinel://{address}/ and its master's name"
            )
        if mode == "cluster" and not self._dsn.cluster:
            raise Misconfigured(f"store: {address} belongs to a cluster: use redis+cluster://{address}")
        if not {"role", "run_id", "connected_slaves"} <= facts.keys():
            raise Misconfigured(f"store: {address} does not tell who it is (INFO): is a proxy in between?")

    async def _count(self, server: Server) -> None:
        facts = health.facts(await server.link.call("INFO", "replication"))
        number = int(facts["connected_slaves"])
        if number < min(server.replicas, self._dsn.replicas):
            log.warning("store.replica_lost", extra={"where": str(server.link.address), "left": number})
        server.replicas, server.counted_at = number, time.monotonic()
        if (followers := health.replicas(facts)) != server.followers:
            server.followers, server.logs = followers, None
