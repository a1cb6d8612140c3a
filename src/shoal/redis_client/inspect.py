"""The servers of a store, looked over without changing anything: for people who ask what is wrong."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from shoal.redis_client import health
from shoal.redis_client.dsn import Dsn
from shoal.redis_client.errors import CallFailed
from shoal.redis_client.servers import Servers

TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class ServerReport:
    """One master, as it describes itself."""

    where: str
    took: float  # seconds from asking to the answer
    facts: Mapping[str, str] = field(default_factory=dict)  # INFO
    save: str | None = None  # when it takes snapshots; None: it does not tell


async def survey(dsn: Dsn) -> list[ServerReport]:
    """Ask every master of a store once; raises what stands in the way as an error of ours."""
    servers = Servers(dsn, timeout=TIMEOUT)
    found = []
    try:
        for address in await servers.masters():
            link = await servers.dial(address)
            try:
                begun = time.monotonic()
                told = health.facts(await link.call("INFO", "everything"))
                took = time.monotonic() - begun
                found.append(ServerReport(str(address), took, told, await health.config(link, "save")))
            finally:
                link.close()
    except CallFailed as failure:
        raise failure.error(TIMEOUT) from failure
    finally:
        servers.close()
    return found
