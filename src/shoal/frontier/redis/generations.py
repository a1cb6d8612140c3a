"""The earlier generations of crawls on Redis.

Each generation of a crawl has another number in the names of keys, and `T:hy:C` of every shard outlives
it. One record per crawl, in shard 0, names the generations that are kept, what they yielded, and the key of
the crawl's fingerprints, by which their pages are found. A number that the record does not name, and that is
being deleted, loses its histories with everything else: so a deletion that was interrupted is repeated.
"""

import msgspec

from shoal.frontier.generations import Generation, split_generations
from shoal.frontier.redis import keys
from shoal.frontier.redis.shard_client import ShardClient


class KeptGenerations(msgspec.Struct, frozen=True, array_like=True):
    last: int = 0  # number of the last generation that has ended
    key: bytes = b""  # of the fingerprints
    earlier: tuple[Generation, ...] = ()
    yields: bytes = b""  # what the accepted ones yielded (`model/yields`)


_encode = msgspec.msgpack.Encoder().encode
unpack_generations = msgspec.msgpack.Decoder(KeptGenerations).decode


class RedisGenerations:
    def __init__(self, client: ShardClient) -> None:
        self._client = client
        self._store = client.store
        self._home = client.home

    async def read(self, crawl: str) -> KeptGenerations:
        """Return the earlier generations of a crawl; what cannot be read counts as none."""
        packed = await self._store.do(self._home, "HGET", keys.generations(self._home), crawl)
        try:
            return KeptGenerations() if packed is None else unpack_generations(packed)
        except msgspec.DecodeError:
            return KeptGenerations()

    async def numbers_kept(self) -> set[int]:
        """Return the numbers of crawls whose histories are kept."""
        found = await self._store.do(self._home, "HVALS", keys.generations(self._home))
        numbers: set[int] = set()
        for packed in found:
            try:
                numbers.update(generation.crawl for generation in unpack_generations(packed).earlier)
            except msgspec.DecodeError:
                continue
        return numbers

    async def end(
        self, crawl: str, ended: Generation, *, key: bytes, keep: int, yields: bytes = b""
    ) -> list[int]:
        """Record that a generation has ended; return the numbers whose histories are not kept any more."""
        known = await self.read(crawl)
        if any(one.crawl == ended.crawl for one in known.earlier):
            return []  # an interrupted call has recorded it
        numbered = msgspec.structs.replace(ended, number=known.last + 1)
        kept, dropped = split_generations([*known.earlier, numbered], keep)
        after = KeptGenerations(numbered.number, key or known.key, tuple(kept), yields or known.yields)
        numbers = [one.crawl for one in dropped]
        if numbers:  # before the record: what it does not name is deleted with the crawl
            await self._store.do_always(self._home, "SADD", keys.dropped(self._home), *numbers)
        await self._store.do_always(
            self._home, "HSET", keys.generations(self._home), crawl, _encode(after), replicated=True
        )
        return numbers

    async def forget(self, crawl: str) -> None:
        """Drop all generations of a crawl."""
        known = await self.read(crawl)
        if known.earlier:
            numbers = [one.crawl for one in known.earlier]
            await self._store.do_always(self._home, "SADD", keys.dropped(self._home), *numbers)
        await self._store.do(self._home, "HDEL", keys.generations(self._home), crawl)
