"""The figures and alerts of a fleet: one hash."""

from collections.abc import Mapping

from shoal.redis_client import RedisClient, key_names
from shoal.redis_client.fan_out import fan_out
from shoal.redis_client.health import parse_info
from shoal.stores.contract.monitoring import StoreRoom
from shoal.stores.redis.exits import RedisExitRecords


class RedisMonitoring(RedisExitRecords):
    """See `StoredMonitoring`."""

    def __init__(self, store: RedisClient) -> None:
        super().__init__(store, key_names.monitoring)

    async def get(self, key: str) -> bytes | None:
        found: bytes | None = await self._store.do(self._tag, "HGET", self._key, key)
        return found

    # On a full server, too: that it is full is one of the alerts.
    async def put(self, records: Mapping[str, bytes | None]) -> None:
        removed = [key for key, record in records.items() if record is None]
        kept = [part for key, record in records.items() if record is not None for part in (key, record)]
        if kept:
            await self._store.do_always(self._tag, "HSET", self._key, *kept)
        if removed:
            await self._store.do(self._tag, "HDEL", self._key, *removed)

    async def room(self) -> StoreRoom:
        """Return the memory of the fullest server. Every shard is asked: several may share a server."""
        tags = (self._tag, *self._store.tags())
        found = await fan_out(self._store.do(tag, "INFO", "memory") for tag in tags)
        rooms = [_room(tag, parse_info(info)) for tag, info in zip(tags, found, strict=True)]
        return max(rooms, key=lambda room: room.used / room.limit if room.limit else 0.0)


def _room(tag: str, facts: Mapping[str, str]) -> StoreRoom:
    used, limit = (int(facts.get(name, "0")) for name in ("used_memory", "maxmemory"))
    return StoreRoom(used, limit, f"the server of {tag}", is_memory=True)
