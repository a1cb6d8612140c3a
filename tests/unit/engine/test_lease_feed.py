"""The feed: how much is taken at most, and when it is over."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import cast

import pytest
from tests.unit.engine.leased import AtHundred, Nowhere, ToldFrontier, lease

from shoal.engine.commit import MOST, Committer
from shoal.engine.lease_feed import PARSE_BACKLOG, LeaseFeed
from shoal.engine.leases import Leases
from shoal.engine.page_quota import EmbeddedPageQuota
from shoal.engine.plan import Stop
from shoal.engine.slots import PREFETCH, Slots
from shoal.engine.stations import Stations
from shoal.frontier import Counts
from shoal.model.outcome import Gone, Grant, Lease, Settlement
from shoal.model.settings import CrawlSettings, Settings

SLOTS = 4


class Endless(ToldFrontier):
    """Has a request for everybody who asks, up to `left`."""

    def __init__(self, left: int = 1_000_000) -> None:
        super().__init__()
        self.left = left
        self.granted = 0

    async def lease(
        self, *, holder: str, limit: int, ttl: float, crawls: Sequence[str] | None = None
    ) -> Grant:
        several = [lease(self.granted + n, until=1000.0) for n in range(min(limit, self.left))]
        self.granted += len(several)
        self.left -= len(several)
        return Grant(several, 0.01)

    @property
    def reader(self) -> "Endless":
        return self

    async def counts(self, crawl: str) -> Counts:
        return Counts(accepted=self.granted, gone=len(self.settled), leased=self.granted - len(self.settled))


class Crawling:
    """A feed on its frontier; what a slot takes stays there until `answer` is set."""

    def __init__(self, frontier: Endless) -> None:
        self.frontier = frontier
        self.wake = asyncio.Event()
        self.answer = asyncio.Event()
        self.stop = Stop()
        self.backlog = SimpleNamespace(pages=0, bytes=0)
        self.committer = Committer(frontier, Nowhere(), on_commit=self.wake.set, on_stale=lambda: None)
        ownership = AtHundred()
        self.leases = Leases(
            frontier, self.committer, ownership, crawl="c", holder="h", ttl=60.0, on_lost=lambda: None
        )
        self.stations = SimpleNamespace(
            crawl="c",
            settings=Settings(crawl=CrawlSettings(concurrency=SLOTS)),
            frontier=frontier,
            ownership=ownership,
            parser=SimpleNamespace(backlog=self.backlog),
            crowded=None,
            allowance=None,
        )
        self.slots = Slots(SLOTS, self._attempt, self.wake)
        self.feed = LeaseFeed(cast(Stations, self.stations), self.leases, self.slots, self.wake)

    async def _attempt(self, lease: Lease) -> None:
        await self.answer.wait()
        self.leases.settle(Settlement(lease, Gone(404)))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            self.slots.open(group)
            group.create_task(self.feed.run(self.stop))
            await settled_down()
            yield
            self.stop.ask()
            self.wake.set()
            await settled_down()
            self.answer.set()


async def settled_down() -> None:
    for _ in range(500):
        await asyncio.sleep(0)


async def test_slots_that_are_busy_have_a_few_leases_before_them_and_no_more() -> None:
    crawl = Crawling(Endless())
    async with crawl.running():
        assert crawl.frontier.granted == SLOTS + PREFETCH


async def test_a_store_that_does_not_commit_stops_the_taking_of_leases() -> None:
    crawl = Crawling(Endless())
    crawl.answer.set()
    async with crawl.running():
        assert crawl.frontier.granted == SLOTS + MOST
        await crawl.committer.flush()
        await settled_down()
        assert crawl.frontier.granted == 2 * (SLOTS + MOST)


@pytest.mark.parametrize("why", ["parse backlog", "crowded"])
async def test_nothing_is_taken_while_later_stages_have_enough_to_do(why: str) -> None:
    crawl = Crawling(Endless())
    if why == "crowded":
        crawl.stations.crowded = lambda: True
    else:
        crawl.backlog.pages = PARSE_BACKLOG
    async with crawl.running():
        assert crawl.frontier.granted == 0


async def test_no_more_is_in_hand_than_the_crawl_may_still_get() -> None:
    crawl = Crawling(Endless())
    crawl.stations.allowance = EmbeddedPageQuota(crawl.frontier.reader, "c", 3)
    async with crawl.running():
        assert crawl.frontier.granted == 3
        crawl.answer.set()  # all of them are gone, and no pages
        await settled_down()
        await crawl.committer.flush()
        await settled_down()
        assert crawl.frontier.granted == 6


async def test_what_no_slot_has_begun_goes_back_when_the_crawl_is_stopped() -> None:
    crawl = Crawling(Endless())
    async with crawl.running():
        pass
    await crawl.committer.flush()

    given_back = [settlement for settlement in crawl.frontier.settled if not settlement.sent]
    assert len(given_back) == PREFETCH
    assert not crawl.leases


async def test_it_ends_when_nothing_is_out_and_nothing_is_left() -> None:
    crawl = Crawling(Endless(left=3))
    async with asyncio.TaskGroup() as group:
        crawl.slots.open(group)
        feeding = group.create_task(crawl.feed.run(crawl.stop))
        await settled_down()
        assert not feeding.done()
        crawl.answer.set()
        await settled_down()
        await crawl.committer.flush()
    assert crawl.frontier.granted == 3
