"""What a server has on disk: whether it keeps a log, and waiting until the log is there.

With `appendfsync everysec` a server confirms what its machine forgets in a power cut, for about a second; and
while it syncs, what it forgets itself if it is killed. WAITAOF answers when the log is on disk. Like WAIT, it
speaks of what its own connection has written, and of all that the server had confirmed before.

Servers that call themselves older than Redis 8, every Valkey among them, answer too early: when the log is in
the hands of the operating system, and no sync is going on (redis/redis#13793). A second after a write the
next sync has begun, by the rule that the setting is named after; if none is going on then, it has ended. So
these are asked again after that second, about another write.
"""

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum

from shoal.stores.redis import health
from shoal.stores.redis.failures import LOST, UNSYNCED, Failed, ScriptFault
from shoal.stores.redis.link import Link

WAIT_MS = 3_000  # with a sound disk it takes one second at most
SECOND = 1.05  # and something for clocks that are looked at once in a while
SINCE = (7, 2)  # what servers have WAITAOF
_EXACT_SINCE = (8, 0)


class Log(Enum):
    NONE = "there is none, or it cannot be waited for"
    HASTY = "the server says too early that it is on disk"
    EXACT = "the server says when it is on disk"


async def log_of(link: Link) -> Log:
    """Find out how a server keeps its log."""
    told = health.facts(await link.call("INFO", "server", "persistence"))
    policy = await health.config(link, "appendfsync")
    # Left to the operating system, a log is never known to be on disk: that would be waiting for ever.
    if told.get("aof_enabled") != "1" or policy == "no" or await _refusal(link) is not None:
        return Log.NONE
    exact = policy == "always" or health.version(told) >= _EXACT_SINCE
    return Log.EXACT if exact else Log.HASTY


async def advice(link: Link) -> list[str]:
    """Say what keeps a server from telling how far its log is, if a word to its owner can change that."""
    told = health.facts(await link.call("INFO", "persistence"))
    if told.get("aof_enabled") != "1" or await _refusal(link) != "NOPERM":
        return []
    return [
        "let this user run WAITAOF (ACL SETUSER ... +waitaof): without, a file may have items twice after a"
        " crash of the server"
    ]


async def sync(link: Link, log: Log, write: Callable[[], Awaitable[object]]) -> None:
    """Return when all that `link` has written is on disk; `write` writes something once more."""
    if log is Log.NONE:
        return
    await _wait(link)
    if log is Log.HASTY:
        await asyncio.sleep(SECOND)
        await write()
        await _wait(link)


async def _wait(link: Link) -> None:
    try:
        [answer] = await link.calls([("WAITAOF", 1, 0, WAIT_MS)], extra=WAIT_MS / 1000)
        on_disk, _ = link.checked(answer)
    except ScriptFault as fault:  # the log was switched off: on another link it is looked at anew
        link.close()
        raise Failed(LOST, str(link.address)) from fault
    if not on_disk:
        raise Failed(UNSYNCED, str(link.address))


async def _refusal(link: Link) -> str | None:
    """Ask for nothing; return why even that is refused."""
    try:
        await link.call("WAITAOF", 0, 0, 1)
    except Failed as failure:
        if not link.alive:
            raise
        return failure.kind
    except ScriptFault:  # it does not know the command
        return "ERR"
    return None
