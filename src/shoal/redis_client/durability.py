"""Durability: whether servers keep an append-only file (AOF), and waiting until it is on disk.

With `appendfsync everysec` a server confirms writes that a power cut within about a second loses; and while
it syncs, writes that it loses if it is killed. WAITAOF replies once the AOF is on disk, on the master and on
as many replicas as requested. Like WAIT, it covers what its own connection has written, and everything that
the server confirmed before.

Replicas count, because one of them may be the master after a power cut that hits all of them. Waiting for a
replica without an AOF would never end, and only the replica itself knows whether it has one: so it is asked.

Servers that report a version below Redis 8, which includes every Valkey, reply too early: when the AOF has
been handed to the operating system and no sync is running (redis/redis#13793). One second after a write the
next sync has begun, by the rule that `everysec` is named after; if none is running then, it has ended. So
these servers are asked again after that second, about another write.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from shoal.redis_client import health
from shoal.redis_client.connection import RedisConnection
from shoal.redis_client.errors import LOST, UNSYNCED, CallFailed, ScriptFault

WAIT_MS = 3_000  # with healthy disks it takes a second, and another until a replica reports it
SYNC_INTERVAL_S = 1.05  # `everysec`, and a margin for clocks that servers read only now and then
WAITAOF_SINCE = (7, 2)
_EXACT_SINCE = (8, 0)


class Aof(Enum):
    """What WAITAOF is worth on a server."""

    NONE = "no AOF, or one that WAITAOF does not cover"
    EARLY = "the server replies before the AOF is on disk"
    EXACT = "the server replies when the AOF is on disk"


@dataclass(frozen=True, slots=True)
class Aofs:
    """The AOFs of a master and its replicas."""

    master: Aof
    replicas: tuple[Aof, ...] = ()

    @property
    def early(self) -> bool:
        return Aof.EARLY in (self.master, *self.replicas)

    def to_wait_for(self, replicas: int) -> tuple[int, int]:
        """Return how many AOFs to wait for, on the master and on at most that many replicas."""
        kept = sum(aof is not Aof.NONE for aof in self.replicas)
        return int(self.master is not Aof.NONE), min(replicas, kept)


def classify_aof(info: Mapping[str, str], policy: str | None) -> Aof:
    """Return what WAITAOF is worth on a server; `policy`: its appendfsync, None if unknown."""
    # With `appendfsync no` the server never knows that the AOF is on disk: WAITAOF would not return.
    if info.get("aof_enabled") != "1" or policy == "no" or health.version(info) < WAITAOF_SINCE:
        return Aof.NONE
    exact = policy == "always" or health.version(info) >= _EXACT_SINCE
    return Aof.EXACT if exact else Aof.EARLY


async def inspect_aof(connection: RedisConnection) -> Aof:
    """Ask a server what WAITAOF is worth there."""
    info = health.parse_info(await connection.call("INFO", "server", "persistence"))
    return classify_aof(info, await health.config(connection, "appendfsync"))


async def waitaof_error(connection: RedisConnection) -> str | None:
    """Try WAITAOF on a master without waiting; return the kind of the error if it is rejected."""
    try:
        await connection.call("WAITAOF", 0, 0, 1)
    except CallFailed as failure:
        if not connection.alive:
            raise
        return failure.kind
    except ScriptFault:
        return "ERR"
    return None


async def advice(connection: RedisConnection, info: Mapping[str, str]) -> list[str]:
    """Return what keeps a master with an AOF from reporting when it is on disk."""
    policy = await health.config(connection, "appendfsync")
    if policy == "always":
        return []  # confirmed writes are on disk: there is nothing to wait for
    if policy == "no":
        return [f"set  appendfsync everysec: it is unknown when the AOF is on disk, so {_CONSEQUENCE}"]
    match await waitaof_error(connection):
        case None:
            return []
        case "NOPERM":
            return [f"allow this user to run WAITAOF (ACL SETUSER ... +waitaof): without it {_CONSEQUENCE}"]
        case _:
            return [
                f"the server (Redis {info.get('redis_version', '?')}) cannot tell what is on its disk, so"
                f" {_CONSEQUENCE}: Redis 7.2 and Valkey can (WAITAOF)"
            ]


def advice_on_replica(where: str, aof: Aof | None) -> list[str]:
    """Return what a replica cannot be relied on for; None: it could not be asked."""
    if aof is None:
        return [f"its replica {where} cannot be asked whether it keeps an AOF: {_CONSEQUENCE_OF_FAILOVER}"]
    if aof is Aof.NONE:
        return [f"its replica {where} keeps no AOF that WAITAOF covers: {_CONSEQUENCE_OF_FAILOVER}"]
    return []


_CONSEQUENCE = "a file may have items twice after a crash of the server"
_CONSEQUENCE_OF_FAILOVER = "if all servers lose power and it takes over, a file may have items twice"


async def sync(
    connection: RedisConnection, aofs: Aofs, write: Callable[[], Awaitable[object]], *, replicas: int
) -> None:
    """Return once everything that `connection` has written is on disk; `write` writes something again."""
    wanted = aofs.to_wait_for(replicas)
    if wanted == (0, 0):
        return
    await _wait(connection, wanted)
    if aofs.early:
        await asyncio.sleep(SYNC_INTERVAL_S)
        await write()
        await _wait(connection, wanted)


async def _wait(connection: RedisConnection, wanted: tuple[int, int]) -> None:
    try:
        [answer] = await connection.call_many([("WAITAOF", *wanted, WAIT_MS)], extra=WAIT_MS / 1000)
        here, replicas = connection.check(answer)
    except ScriptFault as fault:  # the AOF was switched off: a new connection reads the settings again
        connection.close()
        raise CallFailed(LOST, str(connection.address)) from fault
    if here < wanted[0] or replicas < wanted[1]:
        raise CallFailed(UNSYNCED, str(connection.address))
