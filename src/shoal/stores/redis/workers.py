"""Heartbeats: who is there, and what they are doing.

Nothing depends on them but what people see: work that a dead worker held comes back when its lease runs out.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from shoal.redis_client import RedisClient, key_names

TTL = 15.0  # seconds without a sign of life after which a worker is gone
EVERY = 5.0


class CrawlActivity(msgspec.Struct, frozen=True):
    """A crawl, as one worker runs it."""

    crawl: str
    version: str  # of the spider's code: two of them at once are worth a look
    in_flight: int
    pages: int  # since the worker took the crawl up
    rate: float  # pages a second
    parsing: int = 0  # pages that are with its parse processes


class OutputActivity(msgspec.Struct, frozen=True):
    """An output, as one worker attends to it."""

    crawl: str
    output: str  # without secrets
    doing: str  # "writing", "waiting" (for items), "standing by", "elsewhere", "failing", "refused"
    why: str = ""  # it does not write
    items: int = 0  # that this worker has written


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's sign of life."""

    worker: str
    host: str  # the machine
    pid: int
    roles: tuple[str, ...]
    shoal: str  # version
    started_at: float
    beaten_at: float
    doing: str  # "working", "writing", "waiting", "idle", "draining"
    why: str = ""  # it waits: "for the hosts' pace"
    crawls: tuple[CrawlActivity, ...] = ()
    outputs: tuple[OutputActivity, ...] = ()
    refused: dict[str, str] = {}  # by crawl: why it cannot be served there
    pools: tuple[str, ...] = ("http",)  # whose requests it takes; older workers do not say, and take these


def served_pools(workers: Iterable[Heartbeat]) -> set[str]:
    """Return the pools whose requests at least one of the workers takes."""
    return {pool for worker in workers if "fetch" in worker.roles for pool in worker.pools}


def unserved_pools(waiting: Mapping[str, int], served: Collection[str]) -> dict[str, int]:
    """Return the pools with waiting requests that no worker takes, and how many requests those are."""
    return {pool: count for pool, count in waiting.items() if count and pool not in served}


class Workers:
    def __init__(self, store: RedisClient) -> None:
        self._store = store
        self._tag = store.fleet_tag
        self._index = key_names.workers(self._tag)

    async def beat(self, heartbeat: Heartbeat) -> None:
        packed = msgspec.msgpack.encode(heartbeat)
        key, ttl_ms = self._key(heartbeat.worker), int(TTL * 1000)
        await self._store.do_always(self._tag, "SET", key, packed, "PX", ttl_ms)
        await self._store.do_always(self._tag, "SADD", self._index, heartbeat.worker)

    async def leave(self, worker: str) -> None:
        """Take a worker off the list at once: it has ended in good order."""
        await self._store.pipeline(self._tag, [("DEL", self._key(worker)), ("SREM", self._index, worker)])

    async def all(self) -> Sequence[Heartbeat]:
        """List who has given a sign of life lately; the others are struck off."""
        names = sorted(name.decode() for name in await self._store.do(self._tag, "SMEMBERS", self._index))
        if not names:
            return []
        packed = await self._store.do(self._tag, "MGET", *map(self._key, names))
        gone = [name for name, beat in zip(names, packed, strict=True) if beat is None]
        if gone:
            await self._store.do(self._tag, "SREM", self._index, *gone)
        return [_decode(beat) for beat in packed if beat is not None]

    def _key(self, worker: str) -> str:
        return key_names.heartbeat(self._tag, worker)


_decode = msgspec.msgpack.Decoder(Heartbeat).decode
