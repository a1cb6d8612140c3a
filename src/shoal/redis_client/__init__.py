"""Redis and Valkey, as far as they have nothing to do with crawling.

    async with RedisStore.open("redis://127.0.0.1/0") as store:
        await store.run(script, store.tag_of("shop.example"), [...])

`dsn` says where a store is, `link` is one connection, `topology` knows who the master is (alone, by
sentinels, in a cluster), `failures` is the table of what can go wrong, `health` looks a server over, and
`store` puts them together.
"""

from shoal.redis_client.client import EPOCH, RedisClient, Script, ScriptArgument
from shoal.redis_client.dsn import Dsn, parse
from shoal.redis_client.errors import Full, ScriptFault

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
