"""Whether a crawl has come to its end, asked of a frontier that others change meanwhile.

A frontier in shards cannot be counted at one instant. Adding up what is open while workers go on can miss a
request: its page is still leased in a shard that is read last, its links are added to one that was read
before. So what has ended is summed up first, and what was accepted afterwards. Both sums only grow. If the
later one is no larger than the earlier one, then at every instant between the two nothing was open; and
because links are added before the page that brought them is settled, nothing was on its way either.

A replay takes requests back from their end, and can come between the two sums; then the crawl had come to its
end before it was replayed.
"""

from typing import Protocol

from shoal.frontier import Counts


class CountsReader(Protocol):
    async def counts(self, crawl: str) -> Counts: ...


async def is_finished(frontier: CountsReader, crawl: str) -> bool:
    """Tell whether everything that a crawl has accepted has ended."""
    before = await frontier.counts(crawl)
    if before.open:
        return False
    after = await frontier.counts(crawl)
    return after.accepted == before.ended
