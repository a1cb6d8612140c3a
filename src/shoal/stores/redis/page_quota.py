"""How many pages a crawl may still get, shared out among the workers that fetch them.

Each worker has a part: as many pages as it may have in hand at once. A part grows only while the pages that
the crawl has and the parts of all workers together stay within the limit. So however many workers there are,
the crawl gets no page more; and no page fewer, because what a worker does not use of its part is given up
with its next question. The part of one that was killed runs out, later than its leases.

The pages that a crawl has are counted over all shards, at no one instant. What workers let go of while that
goes on may be in the count or not; it is added to it.
"""

from collections.abc import Awaitable, Callable

from shoal.redis_client import RedisClient, key_names
from shoal.redis_client.script import load_script

BEYOND = 1.25  # times the length of a lease that a part is good for
_SCRIPT = load_script("shoal.stores.redis", "page_quota")


class SharedPageQuota:
    """The part of one worker in what a crawl may still get.

    `lease` is how long a lease lasts, in seconds; `count` says how many pages the crawl has, those included
    that are fetched and not parsed yet.
    """

    def __init__(
        self,
        store: RedisClient,
        crawl: int,
        *,
        worker: str,
        limit: int,
        lease: float,
        count: Callable[[], Awaitable[int]],
    ) -> None:
        self._store = store
        self._tag = store.tag(crawl % store.shards)
        self._crawl = crawl
        self._worker = worker
        self._limit = limit
        self._ttl_ms = int(lease * BEYOND * 1000)
        self._count = count

    async def take(self, held: int, wanted: int) -> int:
        """Say how many pages this worker may take in hand besides those that it has; ask once a second.

        `held` is what it has in hand now, or has handed in and the store has not confirmed.
        """
        # In this order: what is let go after the first answer is added to the second.
        before = int(await self._store.do(self._tag, "HGET", self._key, "let go") or 0)
        there = await self._count() if wanted else 0
        asked = (self._worker, held, wanted, self._ttl_ms, self._limit, there, before)
        return int(await self._store.run(_SCRIPT, self._tag, (self._crawl, *asked)))

    async def leave(self) -> None:
        """Let others have this worker's part at once."""
        await self.take(0, 0)

    @property
    def _key(self) -> str:
        return key_names.page_quota(self._tag, self._crawl)
