"""Heartbeats: which workers are live, and what they are doing.

They are only for display, and for refusing to delete a crawl that is being worked on. Recovery does not
depend on them: the work of a dead worker is leased again when its leases expire.
"""

import logging
from collections.abc import Sequence

import msgspec

from shoal.redis_client import RedisClient, key_names
from shoal.stores.contract.fleet import HEARTBEAT_TTL_S
from shoal.stores.contract.heartbeat import Heartbeat

log = logging.getLogger(__name__)


class Workers:
    def __init__(self, store: RedisClient) -> None:
        self._store = store
        self._tag = store.fleet_tag
        self._index = key_names.workers(self._tag)

    async def beat(self, heartbeat: Heartbeat) -> None:
        packed = msgspec.msgpack.encode(heartbeat)
        key, ttl_ms = self._key(heartbeat.worker), int(HEARTBEAT_TTL_S * 1000)
        await self._store.do_always(self._tag, "SET", key, packed, "PX", ttl_ms)
        await self._store.do_always(self._tag, "SADD", self._index, heartbeat.worker)

    async def leave(self, worker: str) -> None:
        """Remove a worker from the list at once: it has ended in good order."""
        await self._store.pipeline(self._tag, [("DEL", self._key(worker)), ("SREM", self._index, worker)])

    async def all(self) -> Sequence[Heartbeat]:
        """Return the latest heartbeat of each live worker, and remove the others from the list."""
        members = sorted(await self._store.do(self._tag, "SMEMBERS", self._index))
        names = [name for name in members if name.isascii()]  # no worker is called otherwise
        gone = [name for name in members if not name.isascii()]
        packed = await self._store.do(self._tag, "MGET", *map(self._key, names)) if names else []
        beats = []
        for name, beat in zip(names, packed, strict=True):
            if beat is None:
                gone.append(name)
            elif (decoded := _decoded(name, beat)) is not None:
                beats.append(decoded)
        if gone:
            await self._store.do(self._tag, "SREM", self._index, *gone)
        return beats

    def _key(self, worker: str | bytes) -> str:
        name = worker.decode() if isinstance(worker, bytes) else worker
        return key_names.heartbeat(self._tag, name)


def _decoded(worker: bytes, packed: bytes) -> Heartbeat | None:
    """Return a heartbeat; None: it cannot be read. The worker's next one replaces it, or it expires."""
    try:
        return _decode(packed)
    except (msgspec.DecodeError, ValueError) as error:
        about = {"place": worker.decode(), "bytes": len(packed), "why": str(error)}
        log.error("heartbeat.unreadable", extra=about)
        return None


_decode = msgspec.msgpack.Decoder(Heartbeat).decode
