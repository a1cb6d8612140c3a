"""Workers that are gone: their leases are reclaimed long before the deadline.

A worker counts as gone when its heartbeat has expired, and its leases are reclaimed when the longest request
that it may have had on the wire is over as well: its last turn was taken while it could still reach the
store. Until then its requests count as in flight, so that no host gets more than it allows. A worker that
returns after that is fenced: its settlements are rejected. A worker whose process is known to have ended has
nothing on the wire, and its leases are reclaimed at once.

Each live worker looks after some of the shards.
"""

import logging
import time
from collections.abc import Callable, Collection, Sequence

from shoal.frontier.redis.scripts import SCRIPTS
from shoal.redis_client import RedisClient
from shoal.stores.contract.fleet import HEARTBEAT_TTL_S

log = logging.getLogger(__name__)


class LostHolders:
    def __init__(self, store: RedisClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._missing_since: dict[str, float] = {}

    async def reclaim(
        self, worker: str, live: Collection[str], *, longest_s: float, ended: Collection[str] = ()
    ) -> int:
        """Reclaim the leases of holders that have ended or have no heartbeat; return how many.

        `longest_s`: how long one request may take. `ended`: holders whose process has ended.
        """
        live = set(live) - set(ended)
        gone = missing_long_enough(self._missing_since, self._clock(), longest_s) | set(ended)
        lost, holders = 0, set[str]()
        for tag in shards_of(worker, live, self._store.tags()):
            number, others = await self._store.run(SCRIPTS.reclaim_lost, tag, sorted(gone))
            lost += number
            holders |= {name.decode(errors="replace") for name in others} | (gone if number else set())
        now = self._clock()
        self._missing_since = {
            holder: self._missing_since.get(holder, now) for holder in holders - set(live) - {worker, ""}
        }
        if lost:
            log.warning("leases.reclaimed", extra={"leases": lost, "holders": ",".join(sorted(gone))})
        return lost


def missing_long_enough(since: dict[str, float], now: float, longest_s: float) -> set[str]:
    """Return the holders whose last request must be over; when first missed, each was gone for the TTL."""
    return {holder for holder, at in since.items() if now - at >= max(longest_s - HEARTBEAT_TTL_S, 0.0)}


def shards_of(worker: str, live: Collection[str], tags: Sequence[str]) -> list[str]:
    """Return the shards that a worker looks after: each shard has one of the live workers."""
    workers = sorted({*live, worker})
    first = workers.index(worker)
    return [tag for number, tag in enumerate(tags) if number % len(workers) == first]
