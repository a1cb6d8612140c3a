"""Whether a server is fit to hold a frontier: what rules it out, and what is worth a warning.

Hosted servers often forbid CONFIG; what INFO says is enough for everything that rules a server out.
"""

from collections.abc import Mapping

from shoal.model.errors import Misconfigured
from shoal.redis_client.connection import RedisConnection
from shoal.redis_client.dsn import Address
from shoal.redis_client.errors import CallFailed, ScriptFault

OLDEST = (7, 0)  # the first with script flags, by which a full server can still be worked off


def facts(info: bytes) -> dict[str, str]:
    """Read the lines of INFO."""
    lines = (line.partition(":") for line in info.decode(errors="replace").splitlines())
    return {name: value for name, colon, value in lines if colon}


async def check(link: RedisConnection) -> list[str]:
    """Refuse a server that would lose a crawl; return advice about one that might."""
    told = facts(await link.call("INFO", "server", "memory", "persistence"))
    refuse(told, where=str(link.address))
    warning = persistence(told, save=await config(link, "save"))
    return [] if warning is None else [warning]


def version(told: Mapping[str, str]) -> tuple[int, ...]:
    """Tell which Redis a server is, or says that it is like."""
    return tuple(int(part) for part in told.get("redis_version", "0").split(".")[:2])


def replicas(told: Mapping[str, str]) -> tuple[Address, ...]:
    """Name the replicas of a master that are up to date, in an order that does not change."""
    found = []
    for name, value in told.items():
        if name.startswith("slave") and name[5:].isdigit():
            row = dict(part.partition("=")[::2] for part in value.split(","))
            if row.get("state") == "online":
                found.append(Address(row["ip"], int(row["port"])))
    return tuple(sorted(found, key=str))


def refuse(told: dict[str, str], *, where: str) -> None:
    if version(told) < OLDEST:
        raise Misconfigured(
            f"store: {where} is Redis {told['redis_version']}; 7.0 or newer is needed, or Valkey"
        )
    policy = told.get("maxmemory_policy", "noeviction")
    # With a limit of 0 nothing is evicted today, but the day somebody sets one, URLs would vanish.
    if policy != "noeviction":
        raise Misconfigured(
            f"store: {where} would throw keys away when full (maxmemory-policy {policy}), and URLs with them:"
            " run  CONFIG SET maxmemory-policy noeviction  there"
        )


def persistence(told: dict[str, str], *, save: str | None) -> str | None:
    """Say what a restart of the server would cost; None: next to nothing."""
    if told.get("aof_enabled") == "1":
        return None
    fix = "set  appendonly yes  and  appendfsync everysec"
    if save == "":
        return f"the server keeps its data in memory only, and a restart loses every crawl: {fix}"
    return f"the server keeps snapshots only, and a crash loses what came after the last one: {fix}"


async def config(link: RedisConnection, name: str) -> str | None:
    """Read one value; None: this user may not, or the server does not tell."""
    try:
        answer = await link.call("CONFIG", "GET", name)
    except (CallFailed, ScriptFault):
        if not link.alive:
            raise
        return None
    return answer[1].decode() if answer else None
