"""The pace of hosts: intervals, bursts, concurrency, and a clock that is set back or jumps."""

from shoal.frontier.contract import Frontier
from shoal.model.outcome import (
    Done,
    Settlement,
)
from shoal.model.pace import Pace
from shoal.testing.contracts.frontier.bench import (
    START,
    UNLIMITED,
    FrontierBench,
    link,
    page,
    paths,
    settle,
    states,
    take,
)


class PaceContract:
    async def test_a_host_gets_one_request_per_interval(self, bench: FrontierBench) -> None:
        frontier, clock = bench.frontier, bench.clock
        await frontier.crawls.open("c", pace=Pace(interval=2.0, burst=1, concurrency=10))
        await frontier.add("c", [link(str(number)) for number in range(5)])

        assert len(await take(frontier)) == 1
        grant = await frontier.lease(holder="w", limit=5, ttl=60.0)
        assert (grant.leases, grant.wait) == ([], 2.0)
        clock.advance(1.5)
        assert (await frontier.lease(holder="w", limit=5, ttl=60.0)).wait == 0.5
        clock.advance(0.5)
        assert len(await take(frontier)) == 1

    async def test_a_rested_host_gets_its_burst_and_then_its_rate(self, bench: FrontierBench) -> None:
        frontier, clock = bench.frontier, bench.clock
        await frontier.crawls.open("c", pace=Pace(interval=1.0, burst=3, concurrency=100))
        await frontier.add("c", [link(str(number)) for number in range(50)])

        assert len(await take(frontier)) == 3
        clock.advance(1.0)
        assert len(await take(frontier)) == 1
        clock.advance(2.0)
        assert len(await take(frontier)) == 2
        clock.advance(100.0)
        assert len(await take(frontier, ttl=600.0)) == 3

    async def test_requests_in_flight_are_bounded(self, bench: FrontierBench) -> None:
        frontier = bench.frontier
        await frontier.crawls.open("c", pace=Pace(interval=0.0, burst=1, concurrency=2))
        await frontier.add("c", [link(str(number)) for number in range(6)])

        first, second = await take(frontier)
        assert (
            await frontier.lease(holder="w", limit=1, ttl=60.0)
        ).wait == 60.0  # only a deadline can end it
        frontier.mark_landed([first])
        frontier.mark_landed([first])  # reported twice, counted once
        assert len(await take(frontier)) == 1
        await settle(frontier, first, Done(page()))  # landed before
        assert await take(frontier) == []
        await settle(frontier, second, Done(page()))
        assert len(await take(frontier)) == 1

    async def test_burst_and_concurrency_can_be_very_large(self, bench: FrontierBench) -> None:
        await bench.frontier.crawls.open("c", pace=Pace(0.0, 70_000, 70_000))
        await bench.frontier.add("c", [link(str(number)) for number in range(5)])

        assert len(await take(bench.frontier)) == 5
        await bench.frontier.hosts.set("a.test", burst=70_000, concurrency=70_000)
        await bench.frontier.add("c", [link(str(number)) for number in range(10)])
        assert len(await take(bench.frontier)) == 5

    async def test_a_host_that_is_not_due_does_not_delay_other_hosts(self, bench: FrontierBench) -> None:
        frontier = bench.frontier
        await frontier.crawls.open("c", pace=Pace(interval=10.0, burst=1, concurrency=10))
        await frontier.add("c", [link(str(number), priority=1) for number in range(100)])
        await frontier.add("c", [link("1", host="b.test", priority=9)])

        assert paths(await take(frontier)) == ["a.test/0", "b.test/1"]

    async def test_all_lanes_of_a_host_share_its_pace(self, bench: FrontierBench) -> None:
        frontier, clock = bench.frontier, bench.clock
        await frontier.crawls.open("c", pace=Pace(interval=1.0, burst=1, concurrency=10))
        await frontier.crawls.open("d", pace=Pace(interval=1.0, burst=1, concurrency=10))
        for crawl in ("c", "d"):
            await frontier.add(crawl, [link("1"), link("2"), link("3", pool="browser")])

        seen = []
        for _ in range(6):
            [lease] = await take(frontier, pools=("http", "browser"))
            seen.append((lease.crawl, lease.request.pool))
            clock.advance(1.0)

        assert set(seen[:4]) == {("c", "http"), ("c", "browser"), ("d", "http"), ("d", "browser")}
        assert await states(frontier, "c") == {"leased": 3}

    async def test_the_slowest_crawl_sets_the_pace(self, bench: FrontierBench) -> None:
        frontier = bench.frontier
        await frontier.crawls.open("c", pace=Pace(interval=0.0, burst=9, concurrency=9))
        await frontier.crawls.open("d", pace=Pace(interval=4.0, burst=2, concurrency=3))
        await frontier.add("c", [link("1")])
        await frontier.add("d", [link("1")])

        [view] = await frontier.hosts.all()
        assert (view.interval, view.burst, view.concurrency) == (4.0, 2, 3)

    async def test_reopening_a_crawl_can_change_its_pace(self, bench: FrontierBench) -> None:
        frontier = bench.frontier
        await frontier.crawls.open("c", pace=Pace(interval=10.0, burst=1, concurrency=1))
        await frontier.add("c", [link("1"), link("2")])
        await take(frontier)
        await frontier.crawls.open("c", pace=UNLIMITED)

        assert len(await take(frontier)) == 1

    async def test_a_lease_contains_the_pace_it_was_granted_under(self, bench: FrontierBench) -> None:
        frontier = bench.frontier
        await frontier.crawls.open("c", pace=Pace(interval=0.5, burst=2, concurrency=4))
        await frontier.add("c", [link("1")])
        [lease] = await take(frontier, ttl=30.0)

        assert (lease.interval, lease.burst, lease.leased_until) == (0.5, 2, START + 30.0)
        assert (lease.crawl, lease.host, lease.attempt, lease.crashes, lease.rests) == (
            "c",
            "a.test",
            1,
            0,
            0,
        )

    async def test_a_clock_that_is_set_back_delays_a_host_by_at_most_one_turn(
        self, bench: FrontierBench
    ) -> None:
        frontier, clock = bench.frontier, bench.clock
        await frontier.crawls.open("c", pace=Pace(interval=2.0, burst=1, concurrency=9))
        await frontier.add("c", [link(str(number)) for number in range(9)])
        await take(frontier, ttl=30.0)
        clock.advance(-86_400.0)

        grant = await frontier.lease(holder="w", limit=9, ttl=30.0)
        assert grant.leases == []
        assert 0 < grant.wait <= 2.0
        clock.advance(2.0)
        assert len(await take(frontier, ttl=30.0)) == 1
        clock.advance(28.0)
        assert await frontier.reclaim() == 1  # the first lease has had its thirty seconds

    async def test_a_clock_that_jitters_changes_nothing(self, bench: FrontierBench) -> None:
        frontier, clock = bench.frontier, bench.clock
        await frontier.crawls.open("c", pace=Pace(interval=2.0, burst=1, concurrency=9))
        await frontier.add("c", [link(str(number)) for number in range(9)])
        await take(frontier)
        clock.advance(1.0)
        assert (await frontier.lease(holder="w", limit=9, ttl=30.0)).wait == 1.0
        clock.advance(-0.5)
        assert (await frontier.lease(holder="w", limit=9, ttl=30.0)).wait == 1.0
        clock.advance(0.5)
        assert (await frontier.lease(holder="w", limit=9, ttl=30.0)).wait == 1.0

    async def test_a_clock_that_jumps_forward_grants_one_turn_early(self, bench: FrontierBench) -> None:
        frontier, clock = bench.frontier, bench.clock
        await frontier.crawls.open("c", pace=Pace(interval=2.0, burst=1, concurrency=9))
        await frontier.add("c", [link(str(number)) for number in range(9)])
        assert len(await take(frontier, ttl=1e6)) == 1
        clock.advance(3600.0)  # the time that seems to have passed is no credit

        assert len(await take(frontier, ttl=1e6)) == 1
        assert (await frontier.lease(holder="w", limit=9, ttl=1e6)).wait == 2.0

    async def test_a_clock_that_jumps_forward_costs_attempts_and_nothing_else(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1")])
        [early] = await take(frontier)
        bench.clock.advance(1e9)
        [again] = await take(frontier)

        assert (await frontier.settle([Settlement(early, Done(page()))])).stale == [early]
        await settle(frontier, again, Done(page()))
        assert await states(frontier) == {"done": 1}
