"""The retry loop around every call, and the wait for replicas.

`errors.TABLE` decides what a failure leads to. A call is repeated until it succeeds or its patience is used
up, so a script must tolerate a second run after its first one took effect and the reply was lost.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from shoal.redis_client.dsn import Dsn
from shoal.redis_client.errors import CallFailed, Remedy, ScriptFault
from shoal.redis_client.outage_log import OutageLog
from shoal.redis_client.servers import Server, Servers

WAIT_MS = 1_000
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0

T = TypeVar("T")

OnDamage = Callable[[str, ScriptFault], Awaitable[bool]]
"""Move what a call could not read out of the way; return whether the call is worth repeating."""


class RetryingCalls:
    """Runs attempts against the master of a tag until one succeeds."""

    def __init__(self, dsn: Dsn, servers: Servers) -> None:
        self.on_damage: OnDamage | None = None
        self.patience = dsn.patience  # seconds; a change applies to calls that are waiting already
        self._replicas = dsn.replicas
        self._servers = servers
        self._outages = OutageLog(str(dsn))

    async def call(
        self, tag: str, attempt: Callable[[Server], Awaitable[T]], *, replicated: bool = False
    ) -> T:
        """Repeat `attempt` until it succeeds; raise a `ShoalError` if it cannot, or after `patience`."""
        began, repaired = time.monotonic(), False
        for number, pause in enumerate(_pauses()):
            try:
                server = await self._servers.master(tag)
                answer = await attempt(server)
                if replicated:
                    await self.wait_for_replicas(server, tag)
            except CallFailed as failure:
                remedy = failure.rule.remedy
                late = time.monotonic() - began > self.patience
                misaddressed = remedy is Remedy.STOP_AT_START and not self._servers.met
                if late or misaddressed or remedy in (Remedy.REPORT, Remedy.STOP):
                    raise failure.error(self.patience) from failure
                if remedy in (Remedy.REDISCOVER, Remedy.STOP_AT_START):
                    self._servers.rediscover(failure)
                self._outages.record_failure(failure, since=began, attempts=number)
            except ScriptFault as fault:
                if repaired or self.on_damage is None or not await self.on_damage(tag, fault):
                    raise
                repaired = True
            else:
                self._outages.record_success(since=began, attempts=number)
                return answer
            await asyncio.sleep(pause)
        raise AssertionError("_pauses is endless")

    async def wait_for_replicas(self, server: Server, tag: str) -> None:
        """Wait until enough replicas have what this connection wrote; raise `CallFailed`: it may be lost.

        WAIT covers what its own connection has written, so it is sent on the connection of the write. If
        that connection is lost before the reply, the write may be lost too, and the call is repeated.
        """
        wanted = min(self._replicas, await self._servers.replicas(server))
        if not wanted:
            return
        [held] = await server.connection.call_many([("WAIT", wanted, WAIT_MS)], extra=WAIT_MS / 1000)
        if server.connection.check(held) >= wanted:
            return
        # Either a replica is gone, or this master has been replaced and does not know it yet.
        await self._servers.confirm(server, tag)
        if server.replicas:
            raise CallFailed("NOREPLICAS", str(server.connection.address))


def _pauses() -> Iterator[float]:
    """Yield growing pauses with jitter, so that the workers of a fleet do not retry in step."""
    ceiling = FIRST_PAUSE_S
    while True:
        yield random.uniform(ceiling / 2, ceiling)
        ceiling = min(LONGEST_PAUSE_S, ceiling * 2)
