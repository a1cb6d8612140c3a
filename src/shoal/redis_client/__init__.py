"""A Redis and Valkey client: connections, topology, retries, scripts, replication and durability.

    async with RedisClient.open("redis://127.0.0.1/0") as store:
        await store.run(script, store.tag_of("shop.example"), [...])

The package knows nothing about crawling. From the wire upwards:

    dsn           parse the address of a store
    connection    one pipelined RESP2 connection, shared by many callers
    tls           TLS contexts, and what a failed handshake means
    topology      find the master of a key: single server, Sentinel, Cluster
    servers       one set of connections per master
    errors        the table of error replies and what to do about each
    health        reject servers that would lose data, warn about weak settings
    durability    WAITAOF: wait until a write is on disk
    retry         repeat a call until it succeeds, wait for replicas
    outage_log    log an outage once a minute, however many calls wait
    script        Lua scripts: assemble the text, load and run it
    key_names     the keys that more than one package uses
    store_setup   check the servers and fix the number of shards
    client        `RedisClient`, which puts all of this together
    streams       the stream of one name in every shard, read as one
    fan_out       several calls at once
    quarantine    entries that cannot be read, moved out of the way
    inspect       describe the servers of a store, for diagnosis
"""

from shoal.redis_client.client import RedisClient
from shoal.redis_client.dsn import Dsn, parse
from shoal.redis_client.errors import Full, ScriptFault
from shoal.redis_client.script import EPOCH, Script, ScriptArgument

__all__ = [
    "EPOCH",
    "Dsn",
    "Full",
    "RedisClient",
    "Script",
    "ScriptArgument",
    "ScriptFault",
    "parse",
]
