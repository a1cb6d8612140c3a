"""The records about exits of a fleet: one hash, changed field by field."""

from collections.abc import Callable, Mapping, Set

from shoal.redis_client import RedisClient, key_names
from shoal.redis_client.script import load_script

_SWAP_EXITS = load_script("shoal.stores.redis", "swap_exits")
SWAPS_AT_ONCE = 100  # in one run of the script


class RedisExitRecords:
    """See `shoal.stores.contract.exits.StoredExits`; schedules and records of the API are kept so, too."""

    def __init__(
        self, store: RedisClient, key: Callable[[str], str] = key_names.exits, *, replicated: bool = False
    ) -> None:
        """`replicated`: a change is on the replicas before it counts, so that no failover takes it back."""
        self._store = store
        self._tag = store.fleet_tag
        self._key = key(self._tag)
        self._replicated = replicated

    async def all(self) -> Mapping[str, bytes]:
        flat = await self._store.do(self._tag, "HGETALL", self._key)
        return {key.decode(errors="replace"): value for key, value in zip(flat[::2], flat[1::2], strict=True)}

    async def get(self, key: str) -> bytes | None:
        found: bytes | None = await self._store.do(self._tag, "HGET", self._key, key)
        return found

    async def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        return bool(await self.swap_all({key: (before, after)}))

    async def swap_all(self, changes: Mapping[str, tuple[bytes | None, bytes | None]]) -> Set[str]:
        replaced: set[str] = set()
        keys = list(changes)
        for start in range(0, len(keys), SWAPS_AT_ONCE):
            chunk = keys[start : start + SWAPS_AT_ONCE]
            # No record is empty, so an empty text stands for none.
            arguments = [part or b"" for key in chunk for part in (key, *changes[key])]
            done = await self._store.run(
                _SWAP_EXITS, self._tag, (self._key, *arguments), replicated=self._replicated
            )
            replaced.update(key for key, one in zip(chunk, done, strict=True) if one)
        return replaced
