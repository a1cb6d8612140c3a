"""`RedisClient`: a store cut into shards, and calls that return a result or raise the reason.

Keys. Everything of a shard starts with its hash tag, `{namespace:NN}`, so one call touches one slot of a
cluster, and the same scripts run on one server and on many.

Calls. Every call is repeated until it succeeds or its patience is used up (`retry`). While a store is
unavailable, no call returns a result, and nothing is sent on a guess.

Replication. When a call returns, its write is on the master. With `replicated=True` enough replicas have it
too, where there are any: a master that dies after that loses nothing of it. `run_durable` waits until the
servers have it on disk as well (`durability`). That takes about a second, so it is for few calls, on
dedicated connections.

Epochs. A server that was restarted or replaced may have lost its last writes, among them the turns that hosts
have taken. `EPOCH` among the arguments of a script becomes the run id of the server process, filled in when
the call is sent: a script that stores it in its shard detects at once that its data may have been rolled
back.
"""

import logging
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from shoal.redis_client import durability, key_names, store_setup
from shoal.redis_client.connection import Argument, RedisConnection
from shoal.redis_client.dsn import Address, Dsn, parse
from shoal.redis_client.errors import UNSYNCED, CallFailed, ScriptFault
from shoal.redis_client.fan_out import fan_out
from shoal.redis_client.retry import OnDamage, RetryingCalls
from shoal.redis_client.script import ALLOW_OOM, Script, ScriptArgument, evaluate
from shoal.redis_client.servers import CALL_TIMEOUT_S, Connect, Server, Servers

log = logging.getLogger(__name__)

# Writes a field back unchanged: WAITAOF needs a write.
_TOUCH = Script(
    "touch",
    ALLOW_OOM + "return redis.call('HSET', KEYS[1], 'schema', redis.call('HGET', KEYS[1], 'schema'))",
)

# A full server rejects commands that need memory, and runs scripts that carry the flag allow-oom.
_ALWAYS = Script("always", ALLOW_OOM + "return redis.call(unpack(ARGV))")


class RedisClient:
    """Use `RedisClient.open`."""

    def __init__(self, dsn: Dsn, *, timeout: float = CALL_TIMEOUT_S, connect: Connect | None = None) -> None:
        self.dsn = dsn
        self.namespace = dsn.namespace
        self.shards = 0  # known once `open` has read it
        self._servers = Servers(dsn, timeout=timeout, connect=connect)
        self._calls = RetryingCalls(dsn, self._servers)
        # Connections for blocking commands that are not in use.
        self._idle: dict[Address, list[RedisConnection]] = {}
        self.blocked = 0  # connections on which a command blocks

    def __repr__(self) -> str:
        return f"RedisClient({self.dsn})"

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        dsn: str | Dsn,
        *,
        timeout: float = CALL_TIMEOUT_S,
        advise: bool = True,
        connect: Connect | None = None,
        shards: int | None = None,
    ) -> AsyncIterator["RedisClient"]:
        """Connect, reject servers that would lose data, and read the number of shards.

        `advise`: log a warning for settings of a server that could be better. `connect` opens connections;
        None: sockets. `shards`: how many a new store gets; None: as many as suit its servers.
        """
        client = cls(dsn if isinstance(dsn, Dsn) else parse(dsn), timeout=timeout, connect=connect)
        try:
            for address, advice in await client._calls.call(
                client.fleet_tag, lambda _: store_setup.check_masters(client._servers, advise=advise)
            ):
                log.warning("store.health", extra={"where": str(address), "advice": advice})
            client.shards = await store_setup.fix_shards(client, client.dsn, wanted=shards)
            yield client
        finally:
            client._close()

    def _close(self) -> None:
        self._servers.close()
        for connections in self._idle.values():
            for connection in connections:
                connection.close()

    @property
    def patience(self) -> float:
        """Seconds that a call retries an unavailable store; a change applies to waiting calls too."""
        return self._calls.patience

    @patience.setter
    def patience(self, seconds: float) -> None:
        self._calls.patience = seconds

    def on_damage(self, on_damage: OnDamage) -> None:
        """Call `on_damage` when a call finds data that it cannot read, and repeat the call once."""
        self._calls.on_damage = on_damage

    async def report_damage(self, tag: str, why: str) -> bool:
        """Report data of a shard that could not be decoded here; return whether any was moved away."""
        return self._calls.on_damage is not None and await self._calls.on_damage(tag, ScriptFault(why))

    @property
    def servers_met(self) -> int:
        """Count the server processes seen so far; a new one may have lost what an earlier one had."""
        return len(self._servers.met)

    # Names.

    def tag(self, shard: int) -> str:
        return key_names.shard_tag(self.namespace, shard)

    def tags(self) -> list[str]:
        return [self.tag(shard) for shard in range(self.shards)]

    def shard_of(self, name: str) -> int:
        """Return the shard that a host, or a crawl, belongs to."""
        return zlib.crc32(name.encode()) % self.shards

    def tag_of(self, name: str) -> str:
        return self.tag(self.shard_of(name))

    @property
    def fleet_tag(self) -> str:
        """The tag of keys that belong to no shard: workers, crawl records."""
        return key_names.fleet_tag(self.namespace)

    # Calls.

    async def run(
        self, script: Script, tag: str, args: Sequence[ScriptArgument], *, replicated: bool = False
    ) -> Any:
        """Run a script on a shard; `replicated`: return once replicas have what it wrote."""
        return await self._calls.call(
            tag, lambda server: evaluate(server, script, tag, args), replicated=replicated
        )

    async def run_durable(
        self, script: Script, calls: Mapping[str, Sequence[ScriptArgument]], *, connection: str
    ) -> dict[str, Any]:
        """Run a script on several shards; return once replicas, and disks, have what it wrote.

        The results come from the server processes that confirmed it. The script has to write something each
        time; everything that its servers confirmed earlier is on disk by then too, from any client.
        `connection` names the dedicated connections to use: waiting for a disk blocks all other calls on a
        connection.
        """

        async def attempt(_: Server) -> dict[str, Any]:
            parts: dict[Address, tuple[Server, dict[str, Sequence[ScriptArgument]]]] = {}
            for tag, args in calls.items():
                server = await self._servers.master(tag, connection=connection)
                parts.setdefault(server.connection.address, (server, {}))[1][tag] = args
            answers = await fan_out(
                self._run_durable_on(server, script, part) for server, part in parts.values()
            )
            return {tag: answer for part in answers for tag, answer in part.items()}

        return await self._calls.call(next(iter(calls)), attempt) if calls else {}

    async def sync(self) -> None:
        """Return once replicas and disks have everything that the store has confirmed so far."""
        await self.run_durable(_TOUCH, dict.fromkeys(self.tags(), ()), connection="sync")

    async def _run_durable_on(
        self, server: Server, script: Script, calls: Mapping[str, Sequence[ScriptArgument]]
    ) -> dict[str, Any]:
        answers = await fan_out(evaluate(server, script, tag, args) for tag, args in calls.items())
        tag, args = next(iter(calls.items()))
        await self._calls.wait_for_replicas(server, tag)
        aofs, copies = await self._servers.aofs(server), self.dsn.replicas
        try:
            await durability.sync(
                server.connection, aofs, lambda: evaluate(server, script, tag, args), replicas=copies
            )
        except CallFailed as failure:
            if failure.kind == UNSYNCED and aofs.to_wait_for(copies)[1]:
                await self._servers.confirm(server, tag)  # a replica that is gone is not counted any more
            raise
        return dict(zip(calls, answers, strict=True))

    async def do(self, tag: str, *command: Argument, replicated: bool = False) -> Any:
        """Run one command on a key that starts with `tag`; like a script, it may be run twice."""
        return await self._calls.call(
            tag, lambda server: server.connection.call(*command), replicated=replicated
        )

    async def do_always(self, tag: str, *command: Argument, replicated: bool = False) -> Any:
        """Run one command like `do`, also on a full server: for commands that help to empty it."""
        return await self._calls.call(
            tag, lambda server: evaluate(server, _ALWAYS, tag, command), replicated=replicated
        )

    async def pipeline(
        self, tag: str, commands: Sequence[Sequence[Argument]], *, replicated: bool = False
    ) -> list[Any]:
        """Run commands on keys that start with `tag` in one round trip; not in one atomic step."""

        async def attempt(server: Server) -> list[Any]:
            answers = await server.connection.call_many(commands)
            pairs = zip(answers, commands, strict=True)
            return [server.connection.check(answer, command) for answer, command in pairs]

        return await self._calls.call(tag, attempt, replicated=replicated) if commands else []

    async def block(self, tag: str, seconds: float, *command: Argument) -> Any:
        """Run a command that blocks at the server for up to `seconds`, on a dedicated connection."""

        async def attempt(server: Server) -> Any:
            address = server.connection.address
            idle = self._idle.setdefault(address, [])
            connection = idle.pop() if idle else None
            if connection is None or not connection.alive:
                connection = await self._servers.dial(address)
            try:
                [answer] = await connection.call_many([command], extra=seconds)
                checked = connection.check(answer, command)
            except BaseException:
                connection.close()  # the command may still be blocking there
                raise
            idle.append(connection)
            return checked

        self.blocked += 1
        try:
            return await self._calls.call(tag, attempt)
        finally:
            self.blocked -= 1

    async def names(self, pattern: str) -> AsyncIterator[bytes]:
        """Yield the names of keys from every master, in batches; a name may come twice.

        The loss of a master on the way raises: no other server knows the position of its cursor.
        """
        for address in await self._calls.call(self.fleet_tag, lambda _: self._servers.masters()):
            connection = await self._servers.dial(address)
            try:
                cursor = b"0"
                while True:
                    cursor, found = await connection.call("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
                    for name in found:
                        yield name
                    if cursor == b"0":
                        break
            except CallFailed as failure:
                raise failure.error() from failure
            finally:
                connection.close()

    async def epoch(self, tag: str) -> str:
        """Return the run id of the server process that has a tag now; see `EPOCH`."""

        async def attempt(server: Server) -> str:
            await server.connection.call("PING")
            return server.epoch

        return await self._calls.call(tag, attempt)
