"""The records about levels of a fleet: a hash, and a sorted set with the order of their changes."""

from collections.abc import Mapping

from shoal.redis_client import RedisClient, key_names
from shoal.redis_client.script import load_script
from shoal.stores.contract.levels import MAX_LEVEL_RECORDS

_SWAP_LEVEL = load_script("shoal.stores.redis", "swap_level")
_BATCH = 500  # records per command


class RedisLevels:
    """See `shoal.stores.contract.levels.StoredLevels`."""

    def __init__(self, store: RedisClient) -> None:
        self._store = store
        self._tag = store.fleet_tag
        self._records = key_names.levels(self._tag)
        self._changes = key_names.level_changes(self._tag)

    async def changed(self, since: int = 0) -> tuple[int, Mapping[str, bytes | None]]:
        last = await self._store.do(self._tag, "ZREVRANGE", self._changes, "0", "0", "WITHSCORES")
        latest = int(float(last[1])) if last else 0
        if latest == since:
            return latest, {}
        keys = await self._store.do(self._tag, "ZRANGEBYSCORE", self._changes, f"({since}", str(latest))
        found: dict[str, bytes | None] = {}
        for begin in range(0, len(keys), _BATCH):
            some = keys[begin : begin + _BATCH]
            values = await self._store.do(self._tag, "HMGET", self._records, *some)
            found |= {key.decode(errors="replace"): value for key, value in zip(some, values, strict=True)}
        return latest, found

    async def get(self, key: str) -> bytes | None:
        found: bytes | None = await self._store.do(self._tag, "HGET", self._records, key)
        return found

    async def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        # No record is empty, so an empty text stands for none.
        arguments = (self._records, self._changes, key, before or b"", after or b"", str(MAX_LEVEL_RECORDS))
        return bool(await self._store.run(_SWAP_LEVEL, self._tag, arguments))
