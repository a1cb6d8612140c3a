"""A read-only description of the servers of a store, for diagnosis."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.redis_client import health
from shoal.redis_client.dsn import Dsn
from shoal.redis_client.errors import CallFailed
from shoal.redis_client.servers import Servers

TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class ServerReport:
    """One master, as it describes itself."""

    where: str
    took: float  # seconds from the command to the reply
    facts: Mapping[str, str] = field(default_factory=dict)  # INFO
    save: str | None = None  # when it takes snapshots; None: unknown


async def inspect_servers(dsn: Dsn) -> list[ServerReport]:
    """Query every master of a store once, without retries; raise a `ShoalError` if one cannot be reached."""
    servers = Servers(dsn, timeout=TIMEOUT_S)
    found = []
    try:
        for address in await servers.masters():
            connection = await servers.dial(address)
            try:
                began = time.monotonic()
                info = health.parse_info(await connection.call("INFO", "everything"))
                took = time.monotonic() - began
                save = await health.config(connection, "save")
                found.append(ServerReport(str(address), took, info, save))
            finally:
                connection.close()
    except CallFailed as failure:
        raise failure.error(TIMEOUT_S) from failure
    finally:
        servers.close()
    return found
