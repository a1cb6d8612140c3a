"""The lease feed: how much it takes, and when it ends."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import cast

import pytest
from tests.unit.engine.leased import AtHundred, NoOutputs, ScriptedFrontier, SentLinksCounter, lease

from shoal.engine.attempts import PREFETCH, Slots
from shoal.engine.commit import COMMIT_BATCH, Committer
from shoal.engine.embedded import EmbeddedPageQuota
from shoal.engine.fetchers import Pools
from shoal.engine.lease_feed import LEASES_PER_REQUEST, PARSE_BACKLOG, LeaseFeed
from shoal.engine.leases import Leases
from shoal.engine.plan import Stop
from shoal.engine.stations import Stations
from shoal.frontier import Counts
from shoal.model.outcome import Gone, Grant, Lease, Settlement
from shoal.model.settings import CrawlSettings, Settings

SLOTS = 4


class Endless(ScriptedFrontier):
    """Grants as many leases as are asked for, up to `left`."""

    def __init__(self, left: int = 1_000_000) -> None:
        super().__init__()
        self.left = left
        self.granted = 0

    async def lease(
        self,
        *,
        holder: str,
        limit: int,
        ttl: float,
        crawls: Sequence[str] | None = None,
        pools: Sequence[str] = ("http",),
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
    """A feed and its frontier; an attempt lasts until `answer` is set, except the `quick` first ones."""

    def __init__(self, frontier: Endless, *, quick: int = 0) -> None:
        self.quick = quick
        self.frontier = frontier
        self.wake = asyncio.Event()
        self.answer = asyncio.Event()
        self.stop = Stop()
        self.backlog = SimpleNamespace(pages=0, bytes=0)
        sent_links = SentLinksCounter()
        self.committer = Committer(frontier, NoOutputs(), wake=self.wake, sent_links=sent_links)
        ownership = AtHundred()
        self.leases = Leases(
            frontier,
            self.committer,
            ownership,
            crawl="c",
            holder="h",
            ttl=60.0,
            pools=Pools(),
            sent_links=sent_links,
        )
        self.stations = SimpleNamespace(
            crawl="c",
            settings=Settings(crawl=CrawlSettings(concurrency=SLOTS)),
            frontier=frontier,
            ownership=ownership,
            parser=SimpleNamespace(backlog=self.backlog),
            quota=None,
            ledger=None,
            no_exit=None,
            share=SimpleNamespace(capacity=None),
        )
        self.slots = Slots(SLOTS, self._attempt, self.wake)
        self.feed = LeaseFeed(cast(Stations, self.stations), self.leases, self.slots, self.wake)

    async def _attempt(self, lease: Lease) -> None:
        if not self.quick:
            await self.answer.wait()
        self.quick = max(self.quick - 1, 0)
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


@pytest.mark.parametrize(("quick", "queued"), [(0, 0), (SLOTS, PREFETCH)])
async def test_busy_slots_have_a_queue_of_leases_that_they_soon_start(quick: int, queued: int) -> None:
    crawl = Crawling(Endless(), quick=quick)
    async with crawl.running():
        assert crawl.frontier.granted == quick + SLOTS + queued


async def test_no_worker_is_idle_while_another_one_holds_more_slow_pages_than_it_has_slots() -> None:
    frontier = Endless(left=3 * SLOTS)
    workers = [Crawling(frontier) for _ in range(3)]
    async with AsyncExitStack() as stack:
        for worker in workers:
            await stack.enter_async_context(worker.running())
        assert [worker.slots.active for worker in workers] == [SLOTS] * 3


async def test_no_leases_are_taken_while_the_store_does_not_commit() -> None:
    crawl = Crawling(Endless())
    crawl.answer.set()
    async with crawl.running():
        assert crawl.frontier.granted == SLOTS + COMMIT_BATCH
        await crawl.committer.flush()
        await settled_down()
        assert crawl.frontier.granted == 2 * (SLOTS + COMMIT_BATCH)


@pytest.mark.parametrize("why", ["parse backlog", "later stages"])
async def test_no_leases_are_taken_while_later_stages_are_full(why: str) -> None:
    crawl = Crawling(Endless())
    if why == "later stages":
        crawl.stations.share.capacity = SimpleNamespace(
            later_stages_full=True, max_requests=SLOTS, longest_sleep_s=1.0
        )
    else:
        crawl.backlog.pages = PARSE_BACKLOG
    async with crawl.running():
        assert crawl.frontier.granted == 0


async def test_no_more_is_in_progress_than_the_page_quota_allows() -> None:
    crawl = Crawling(Endless())
    crawl.stations.quota = EmbeddedPageQuota(crawl.frontier.reader, "c", 3)
    async with crawl.running():
        assert crawl.frontier.granted == 3
        crawl.answer.set()  # all of them end as gone, without a page
        await settled_down()
        await crawl.committer.flush()
        await settled_down()
        assert crawl.frontier.granted == 6


async def test_leases_that_no_slot_has_started_are_released_when_the_crawl_stops() -> None:
    crawl = Crawling(Endless(), quick=SLOTS)
    async with crawl.running():
        pass
    await crawl.committer.flush()

    released = [settlement for settlement in crawl.frontier.settled if not settlement.sent]
    assert len(released) == PREFETCH
    assert not crawl.leases


async def test_it_ends_when_no_lease_is_held_and_nothing_is_left() -> None:
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


async def test_a_crawl_that_shares_its_worker_takes_only_its_share() -> None:
    crawl = Crawling(Endless())
    crawl.stations.share.capacity = SimpleNamespace(
        later_stages_full=False, max_requests=1, longest_sleep_s=1.0
    )
    crawl.answer.set()
    async with crawl.running():
        assert crawl.frontier.granted == 1 + LEASES_PER_REQUEST
