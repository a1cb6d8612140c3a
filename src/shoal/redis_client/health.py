"""Checks of a server: what makes it unfit to hold a frontier, and what deserves a warning.

Hosted servers often forbid CONFIG; INFO is enough for everything that rejects a server.
"""

from collections.abc import Mapping

from shoal.model.errors import Misconfigured
from shoal.redis_client.connection import RedisConnection
from shoal.redis_client.dsn import Address
from shoal.redis_client.errors import CallFailed, ScriptFault

OLDEST = (7, 0)  # the first with script flags, by which scripts can still empty a full server


def parse_info(info: bytes) -> dict[str, str]:
    """Parse the reply of INFO."""
    lines = (line.partition(":") for line in info.decode(errors="replace").splitlines())
    return {name: value for name, colon, value in lines if colon}


async def check(connection: RedisConnection) -> list[str]:
    """Raise `Misconfigured` for a server that would lose a crawl; return advice about one that might."""
    info = parse_info(await connection.call("INFO", "server", "memory", "persistence"))
    reject_unfit(info, where=str(connection.address))
    warning = persistence_advice(info, save=await config(connection, "save"))
    return [] if warning is None else [warning]


def version(info: Mapping[str, str]) -> tuple[int, ...]:
    """Return the Redis version of a server; Valkey reports the one that it is compatible with."""
    return tuple(int(part) for part in info.get("redis_version", "0").split(".")[:2])


def online_replicas(info: Mapping[str, str]) -> tuple[Address, ...]:
    """Return the replicas of a master that are up to date, in a stable order."""
    found = []
    for name, value in info.items():
        if name.startswith("slave") and name[5:].isdigit():
            fields = dict(part.partition("=")[::2] for part in value.split(","))
            if fields.get("state") == "online":
                found.append(Address(fields["ip"], int(fields["port"])))
    return tuple(sorted(found, key=str))


def reject_unfit(info: Mapping[str, str], *, where: str) -> None:
    """Raise `Misconfigured` if a server is too old or evicts keys."""
    if version(info) < OLDEST:
        raise Misconfigured(
            f"store: {where} is Redis {info['redis_version']}; 7.0 or newer is needed, or Valkey"
        )
    policy = info.get("maxmemory_policy", "noeviction")
    # With a limit of 0 nothing is evicted today, but URLs would vanish on the day a limit is set.
    if policy != "noeviction":
        raise Misconfigured(
            f"store: {where} would evict keys when full (maxmemory-policy {policy}), and URLs with them:"
            " run  CONFIG SET maxmemory-policy noeviction  there"
        )


def persistence_advice(info: Mapping[str, str], *, save: str | None) -> str | None:
    """Return what a restart of the server would lose; None: next to nothing."""
    if info.get("aof_enabled") == "1":
        return None
    fix = "set  appendonly yes  and  appendfsync everysec"
    if save == "":
        return f"the server keeps its data in memory only, and a restart loses every crawl: {fix}"
    return f"the server keeps snapshots only, and a crash loses everything since the last one: {fix}"


async def config(connection: RedisConnection, name: str) -> str | None:
    """Read one configuration value; None: the user may not, or the server does not have it."""
    try:
        answer = await connection.call("CONFIG", "GET", name)
    except (CallFailed, ScriptFault):
        if not connection.alive:
            raise
        return None
    return answer[1].decode() if answer else None
