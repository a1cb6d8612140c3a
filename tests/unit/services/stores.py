"""Stores with something in them."""

from collections.abc import Sequence

from shoal.frontier.sqlite import SqliteFrontier
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Dead, Settlement
from shoal.model.pace import Pace
from shoal.model.request import Link, Request
from shoal.stores.folder.directory import StoreFolder

NO_LIMIT = Pace(interval=0.0, burst=100, concurrency=100)


async def store_with_dead(folder: StoreFolder, crawls: dict[str, Sequence[tuple[str, FailureClass]]]) -> None:
    """Create a store in which every request is dead."""
    with folder.owned():
        async with SqliteFrontier.open(folder.database) as frontier:
            for crawl, letters in crawls.items():
                await frontier.crawls.open(crawl, pace=NO_LIMIT)
                for url, kind in letters:
                    await frontier.add(crawl, [Link.to(Request(url=url))])
                    grant = await frontier.lease(holder="test", limit=1, ttl=60.0)
                    [lease] = grant.leases
                    await frontier.settle([Settlement(lease, Dead(Failure(kind, "because")))])


async def four_letters(folder: StoreFolder) -> None:
    """Create three dead letters of crawl `one` and then one of crawl `two`."""
    dns, timeout = FailureClass.DNS, FailureClass.TIMEOUT
    await store_with_dead(
        folder,
        {
            "one": [("http://a.test/1", dns), ("http://a.test/2", timeout), ("http://b.test/", timeout)],
            "two": [("http://a.test/1", timeout)],
        },
    )
