"""The first calls to a store: check every master, and read or fix the number of shards.

A host belongs to one shard forever, so the first client writes the number of shards to `{namespace}:meta`
and every later one reads it.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from shoal.model.errors import Misconfigured
from shoal.redis_client import durability, health
from shoal.redis_client.connection import Argument, RedisConnection
from shoal.redis_client.dsn import Address, Dsn
from shoal.redis_client.fan_out import fan_out
from shoal.redis_client.key_names import shard_meta, shard_tag, store_meta, store_tag
from shoal.redis_client.servers import Servers

SHARDS = 16
CLUSTER_SHARDS = 64  # enough to spread over a dozen masters and to be moved one by one
SCHEMA = 2  # version of the data: lanes are lists and are scheduled in one sorted set


class Commands(Protocol):
    """The part of the client that fixing the shards needs."""

    async def do(self, tag: str, *command: Argument) -> Any: ...
    async def do_always(self, tag: str, *command: Argument) -> Any: ...
    async def pipeline(self, tag: str, commands: Sequence[Sequence[Argument]]) -> list[Any]: ...


async def check_masters(servers: Servers, *, advise: bool) -> list[tuple[Address, str]]:
    """Raise `Misconfigured` for a master that would lose data; return advice about the others."""
    advice: list[tuple[Address, str]] = []
    for address in await servers.masters():
        connection = await servers.dial(address)
        try:
            found = await health.check(connection)
            if advise:
                found += await _disk_advice(servers, connection)
                advice += [(address, one) for one in found]
        finally:
            connection.close()
    return advice


async def _disk_advice(servers: Servers, connection: RedisConnection) -> list[str]:
    """Return what keeps writes from being on the disks of a master and its replicas."""
    info = health.parse_info(await connection.call("INFO", "server", "persistence", "replication"))
    if info.get("aof_enabled") != "1":
        return []  # worse, and `health.check` has reported it
    if advice := await durability.advice(connection, info):
        return advice
    replicas = health.online_replicas(info)
    aofs = await servers.replica_aofs(replicas)
    return [
        one
        for replica, aof in zip(replicas, aofs, strict=True)
        for one in durability.advice_on_replica(str(replica), aof)
    ]


async def fix_shards(client: Commands, dsn: Dsn, *, wanted: int | None = None) -> int:
    """Return the number of shards, after writing `wanted` where no client has; check the schema."""
    meta, tag = store_meta(dsn.namespace), store_tag(dsn.namespace)
    wanted = wanted or (CLUSTER_SHARDS if dsn.cluster else SHARDS)
    shards, schema = await client.do(tag, "HMGET", meta, "shards", "schema")
    if shards is None or schema is None:  # otherwise nothing is written: the server may be full
        await client.pipeline(tag, [("HSETNX", meta, "shards", wanted), ("HSETNX", meta, "schema", SCHEMA)])
        shards, schema = await client.do(tag, "HMGET", meta, "shards", "schema")
    if int(schema) > SCHEMA:
        raise Misconfigured(f"store: {dsn} was written by a newer Shoal: upgrade Shoal")
    if int(schema) < SCHEMA:
        raise Misconfigured(
            f"store: {dsn} was written by an older Shoal: finish its crawls with that version, "
            "or start in another namespace with ?namespace="
        )
    tags = [shard_tag(dsn.namespace, shard) for shard in range(int(shards))]
    # The key that every script declares has to exist: while a cluster moves a slot, it answers ASK for a
    # missing key, but runs the script and aborts it half way if the key is there.
    await fan_out(client.do_always(tag, "HSETNX", shard_meta(tag), "schema", SCHEMA) for tag in tags)
    return int(shards)
