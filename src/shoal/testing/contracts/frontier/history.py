"""The history of requests, hosts as the reader returns them, and statistics of crawls."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec import structs

from shoal.frontier.contract import Frontier, FrontierReader
from shoal.frontier.results import HostQueue, RequestHistory
from shoal.model.failure import FailureClass
from shoal.model.outcome import (
    Acknowledgement,
    Dead,
    Done,
    Fetched,
    Filtered,
    Gone,
    Outcome,
    Retry,
    Settlement,
)
from shoal.model.pace import Pace
from shoal.model.request import Link, Request
from shoal.testing.contracts.frontier.bench import (
    BROKEN,
    START,
    TIMEOUT,
    UNLIMITED,
    FrontierBench,
    link,
    page,
    take,
)

FOUND = Link.to(Request(url="https://a.test/1", found_on=99))


async def attempt(bench: FrontierBench, outcome: Outcome) -> None:
    """Lease the one waiting request and settle it after a second."""
    [lease] = await take(bench.frontier, ttl=10.0)
    bench.clock.advance(1.0)
    await bench.frontier.settle([Settlement(lease, outcome, elapsed=0.5)])


class HistoryContract:
    """Holds for stores that record each attempt and each page. A fleet's store does not."""

    @asynccontextmanager
    async def open_reader(self, bench: FrontierBench) -> AsyncIterator[FrontierReader]:
        """Yield the reader that is tested: the owner's, unless a test class overrides it."""
        yield bench.frontier.reader

    async def read_history(self, bench: FrontierBench) -> RequestHistory:
        async with self.open_reader(bench) as reader:
            history = await reader.history("c", FOUND.fingerprint)
        assert history is not None
        return history

    async def test_the_history_follows_a_request_from_its_acceptance_to_its_page(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        assert await bench.frontier.reader.history("c", FOUND.fingerprint) is None
        await bench.frontier.add("c", [FOUND])
        assert (await self.read_history(bench)).state == "waiting"
        [lease] = await take(bench.frontier, holder="me", ttl=10.0)
        leased = await self.read_history(bench)
        assert (leased.state, leased.holder, leased.leased_at) == ("leased", "me", START)

        bench.clock.advance(1.0)
        await bench.frontier.settle([Settlement(lease, Retry(TIMEOUT, delay=8.0), elapsed=0.5)])
        delayed = await self.read_history(bench)
        assert (delayed.state, delayed.due) == ("delayed", START + 9.0)
        [tried] = delayed.tried
        assert (tried.at, tried.elapsed, tried.kind, tried.reason) == (
            START + 1,
            0.5,
            TIMEOUT.failure_class,
            "no answer",
        )

        bench.clock.advance(20.0)
        await attempt(bench, Done(page(3, items=2, links=5)))
        done = await self.read_history(bench)
        assert (done.state, done.page, done.ended_at) == ("done", page(3, items=2, links=5), START + 22.0)
        assert done.tried == [tried]
        assert done.request is None

    @pytest.mark.parametrize(
        ("outcome", "state", "rule", "tries"),
        [
            (Gone(404), "gone", "", 0),
            (Filtered(FailureClass.ROBOTS, "disallowed"), "filtered", "robots", 0),
            (Dead(TIMEOUT), "dead", "timeout", 1),
            (Fetched(page()), "parsing", "", 0),
        ],
    )
    async def test_the_history_of_an_ended_request_has_where_it_was_found(
        self, bench: FrontierBench, frontier: Frontier, outcome: Outcome, state: str, rule: str, tries: int
    ) -> None:
        await bench.frontier.add("c", [FOUND])
        await attempt(bench, outcome)

        history = await self.read_history(bench)
        assert (history.state, history.rule, history.found_on, len(history.tried)) == (state, rule, 99, tries)

    async def test_crashes_and_failed_parses_are_attempts_too(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await bench.frontier.add("c", [FOUND])
        await take(bench.frontier, ttl=10.0)
        bench.clock.advance(30.0)
        await bench.frontier.reclaim()
        await take(bench.frontier, ttl=10.0)
        await bench.kill()
        await bench.frontier.crawls.open("c")
        await attempt(bench, Fetched(page()))
        await bench.kill()
        await bench.frontier.crawls.open("c")
        dead = Dead(BROKEN, page())
        await bench.frontier.acknowledge([Acknowledgement("c", FOUND.fingerprint, dead)])

        assert [tried.reason for tried in (await self.read_history(bench)).tried] == [
            "its holder died or overran",
            "its holder died or overran",
            "the process died while parsing it",
            "the spider raised",
        ]

    async def test_deleting_a_crawl_deletes_its_attempts(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await bench.frontier.add("c", [FOUND])
        await attempt(bench, Retry(TIMEOUT, delay=0.0))
        await bench.kill()
        await bench.frontier.crawls.delete("c")
        await bench.frontier.crawls.open("c", pace=UNLIMITED)
        await bench.frontier.add("c", [FOUND])

        assert (await self.read_history(bench)).tried == []

    async def test_the_reader_returns_a_host_with_the_pace_that_applies(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await bench.frontier.crawls.open("slow", pace=Pace(2.0, 1, 3))
        await bench.frontier.add("c", [link(str(number)) for number in range(3)])
        await bench.frontier.add("slow", [link("1")])
        await take(bench.frontier, limit=1)
        await bench.frontier.hosts.set("a.test", rest_until=START + 60, paused=True)

        async with self.open_reader(bench) as reader:
            stored, unknown = await reader.host("a.test"), await reader.host("b.test")
        owned = await bench.frontier.hosts.get("a.test")
        assert stored is not None
        assert owned is not None
        assert (stored.waiting, stored.inflight) == (owned.waiting, owned.inflight) == (3, 1)
        assert (stored.interval, stored.concurrency, stored.paused) == (2.0, 3, True)
        assert (owned.interval, owned.rest_until) == (stored.interval, stored.rest_until)
        assert unknown is None

    async def test_stats_have_averages_over_pages_and_the_queue_of_each_host(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link(str(number)) for number in range(5)] + [link("1", host="b.test")])
        await frontier.hosts.set("b.test", interval=4.0, paused=True)
        for number, lease in enumerate(await take(frontier, limit=2)):
            bench.clock.advance(10.0)
            fetched = structs.replace(page(number), elapsed=1.0 + number, wire_bytes=1000 * number)
            await frontier.settle([Settlement(lease, Done(fetched))])
        [lease] = await take(frontier, limit=1)
        await frontier.settle([Settlement(lease, Gone(404))])

        stats = await frontier.reader.stats("c")
        assert (stats.pages, stats.latency, stats.wire_bytes, stats.span) == (2, 1.5, 500.0, 10.0)
        assert stats.hosts == [
            HostQueue("a.test", 2, 0.0, 1000, False),
            HostQueue("b.test", 1, 4.0, 1000, True),
        ]
