"""The page quota of a crawl: its limit of pages, shared out among the workers that fetch them.

Each worker has a share: as many pages as it may have in progress at once. A share grows only while the pages
that the crawl has and the shares of all workers together stay within the limit. So the crawl gets no page
more, however many workers there are; and no page fewer, because a worker releases what it does not use of its
share with its next call. The share of a killed worker expires, later than its leases.

The pages that a crawl has are counted over all shards, not at one instant. Pages that workers release while
the count runs may or may not be in it; they are added to it.
"""

from collections.abc import Awaitable, Callable

from shoal.redis_client import RedisClient, key_names
from shoal.redis_client.script import load_script

SHARE_TTL_LEASES = 1.25  # how long a share is valid, in lengths of a lease
_SCRIPT = load_script("shoal.stores.redis", "page_quota")


class SharedPageQuota:
    """The share of one worker.

    `lease` is the length of a lease in seconds; `count` returns how many pages the crawl has, including those
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
        self._ttl_ms = int(lease * SHARE_TTL_LEASES * 1000)
        self._count = count

    async def take(self, held: int, wanted: int) -> int:
        """Return how many pages this worker may take besides the `held` ones; call once a second.

        `held` counts the pages in progress, and those that it has settled and the store has not confirmed.
        """
        # In this order: pages that are released after the first reply are added to the second.
        before = int(await self._store.do(self._tag, "HGET", self._key, "let go") or 0)
        pages = await self._count() if wanted else 0
        arguments = (self._worker, held, wanted, self._ttl_ms, self._limit, pages, before)
        return int(await self._store.run(_SCRIPT, self._tag, (self._crawl, *arguments)))

    async def leave(self) -> None:
        """Release this worker's share at once."""
        await self.take(0, 0)

    @property
    def _key(self) -> str:
        return key_names.page_quota(self._tag, self._crawl)
