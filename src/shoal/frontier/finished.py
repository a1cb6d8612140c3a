"""Is a crawl finished? Works on a frontier that other processes change at the same time.

A sharded frontier cannot be counted at one instant. Summing the open requests while workers run can miss
one: its page is still leased in a shard that is read last, and its links are added to a shard that was read
before. So this sums the ended requests first and the accepted ones afterwards. Both sums only grow. If the
second is not larger than the first, nothing was open at any instant between the two. Because links are added
before their page is settled, no link was on its way either.

A replay reopens ended requests and can come between the two sums. In that case the crawl was finished before
the replay.
"""

from typing import Protocol

from shoal.frontier import Counts


class CountsReader(Protocol):
    async def counts(self, crawl: str) -> Counts: ...


async def is_finished(reader: CountsReader, crawl: str) -> bool:
    """Return True if every request that a crawl has accepted has ended."""
    before = await reader.counts(crawl)
    if before.open:
        return False
    after = await reader.counts(crawl)
    return after.accepted == before.ended
