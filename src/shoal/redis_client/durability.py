"""What servers have on disk: whether they keep a log, and waiting until the log is there.

With `appendfsync everysec` a server confirms what its machine forgets in a power cut, for about a second; and
while it syncs, what it forgets itself if it is killed. WAITAOF answers when the log is on disk, on the master
and on as many replicas as are asked for. Like WAIT, it speaks of what its own connection has written, and of
all that the server had confirmed before.

Replicas count, for one of them may be the master after a power cut that hits all of them. One without a log
would be waited for in vain, and only the replica itself can say whether it has one: so it is asked.

Servers that call themselves older than Redis 8, every Valkey among them, answer too early: when the log is in
the hands of the operating system, and no sync is going on (redis/redis#13793). A second after a write the
next sync has begun, by the rule that the setting is named after; if none is going on then, it has ended. So
these are asked again after that second, about another write.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from shoal.redis_client import health
from shoal.redis_client.connection import RedisConnection
from shoal.redis_client.errors import LOST, UNSYNCED, CallFailed, ScriptFault

WAIT_MS = 3_000  # with sound disks it takes a second, and another until a replica says so
SECOND = 1.05  # and something for clocks that are looked at once in a while
SINCE = (7, 2)  # what servers have WAITAOF
_EXACT_SINCE = (8, 0)


class Log(Enum):
    NONE = "there is none, or it cannot be waited for"
    HASTY = "the server says too early that it is on disk"
    EXACT = "the server says when it is on disk"


@dataclass(frozen=True, slots=True)
class Logs:
    """What can be waited for, of a master and its replicas."""

    master: Log
    replicas: tuple[Log, ...] = ()

    @property
    def hasty(self) -> bool:
        return Log.HASTY in (self.master, *self.replicas)

    def wanted(self, replicas: int) -> tuple[int, int]:
        """Say how many logs to wait for, here and on so many replicas at most."""
        kept = sum(log is not Log.NONE for log in self.replicas)
        return int(self.master is not Log.NONE), min(replicas, kept)


def log_of(told: Mapping[str, str], policy: str | None) -> Log:
    """Judge how a server keeps its log; `policy`: its appendfsync, None if it does not tell."""
    # Left to the operating system, a log is never known to be on disk: that would be waiting for ever.
    if told.get("aof_enabled") != "1" or policy == "no" or health.version(told) < SINCE:
        return Log.NONE
    exact = policy == "always" or health.version(told) >= _EXACT_SINCE
    return Log.EXACT if exact else Log.HASTY


async def ask(link: RedisConnection) -> Log:
    """Find out how a server keeps its log."""
    told = health.facts(await link.call("INFO", "server", "persistence"))
    return log_of(told, await health.config(link, "appendfsync"))


async def refusal(link: RedisConnection) -> str | None:
    """Ask a master to wait for nothing; return why even that is refused."""
    try:
        await link.call("WAITAOF", 0, 0, 1)
    except CallFailed as failure:
        if not link.alive:
            raise
        return failure.kind
    except ScriptFault:
        return "ERR"
    return None


async def advice(link: RedisConnection, told: Mapping[str, str]) -> list[str]:
    """Say what keeps a master that has a log from telling how far it is on disk."""
    policy = await health.config(link, "appendfsync")
    if policy == "always":
        return []  # what it has confirmed is on disk: there is nothing to wait for
    if policy == "no":
        return [f"set  appendfsync everysec: nobody knows when the log is on disk, and {_SO}"]
    match await refusal(link):
        case None:
            return []
        case "NOPERM":
            return [f"let this user run WAITAOF (ACL SETUSER ... +waitaof): without, {_SO}"]
        case _:
            return [
                f"the server (Redis {told.get('redis_version', '?')}) cannot tell what is on its disk, and"
                f" {_SO}: Redis 7.2 and Valkey can (WAITAOF)"
            ]


def advice_on_replica(where: str, log: Log | None) -> list[str]:
    """Say what a replica cannot be relied on for; None: it could not be asked."""
    if log is None:
        return [f"its replica {where} cannot be asked whether it keeps a log: {_IF_IT_TAKES_OVER}"]
    if log is Log.NONE:
        return [f"its replica {where} keeps no log that can be waited for: {_IF_IT_TAKES_OVER}"]
    return []


_SO = "a file may have items twice after a crash of the server"
_IF_IT_TAKES_OVER = "if all lose power and it takes over, a file may have items twice"


async def sync(
    link: RedisConnection, logs: Logs, write: Callable[[], Awaitable[object]], *, replicas: int
) -> None:
    """Return when all that `link` has written is on disk; `write` writes something once more."""
    wanted = logs.wanted(replicas)
    if wanted == (0, 0):
        return
    await _wait(link, wanted)
    if logs.hasty:
        await asyncio.sleep(SECOND)
        await write()
        await _wait(link, wanted)


async def _wait(link: RedisConnection, wanted: tuple[int, int]) -> None:
    try:
        [answer] = await link.calls([("WAITAOF", *wanted, WAIT_MS)], extra=WAIT_MS / 1000)
        here, replicas = link.checked(answer)
    except ScriptFault as fault:  # the log was switched off: on another link it is looked at anew
        link.close()
        raise CallFailed(LOST, str(link.address)) from fault
    if here < wanted[0] or replicas < wanted[1]:
        raise CallFailed(UNSYNCED, str(link.address))
