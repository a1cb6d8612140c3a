"""A read-only description of the servers of a store, for diagnosis."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.redis_client import health
from shoal.redis_client.connection import RedisConnection
from shoal.redis_client.dsn import Dsn
from shoal.redis_client.errors import CallFailed
from shoal.redis_client.servers import Servers

TIMEOUT_S = 5.0
PINGS = 9  # by which the distance to a server is measured


@dataclass(frozen=True, slots=True)
class ServerReport:
    """One master, as it describes itself."""

    where: str
    took: float  # seconds from a command to its reply: the median of several
    worst: float = 0.0  # of them
    facts: Mapping[str, str] = field(default_factory=dict)  # INFO
    save: str | None = None  # when it takes snapshots; None: unknown


async def _time_ping(connection: RedisConnection) -> float:
    began = time.monotonic()
    await connection.call("PING")
    return time.monotonic() - began


async def inspect_servers(dsn: Dsn) -> list[ServerReport]:
    """Query every master of a store once, without retries; raise a `ShoalError` if one cannot be reached."""
    servers = Servers(dsn, timeout=TIMEOUT_S)
    found = []
    try:
        for address in await servers.masters():
            connection = await servers.dial(address)
            try:
                info = health.parse_info(await connection.call("INFO", "everything"))
                save = await health.config(connection, "save")
                times = sorted([await _time_ping(connection) for _ in range(PINGS)])
                found.append(ServerReport(str(address), times[PINGS // 2], times[-1], info, save))
            finally:
                connection.close()
    except CallFailed as failure:
        raise failure.error(TIMEOUT_S) from failure
    finally:
        servers.close()
    return found
