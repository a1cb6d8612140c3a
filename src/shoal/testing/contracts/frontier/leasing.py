"""Leasing: which request is next, how long to wait, pools, crawls, pauses."""

import math

from shoal.frontier.contract import Frontier
from shoal.model.outcome import (
    Done,
    Gone,
    Grant,
    Released,
    Retry,
    Settlement,
)
from shoal.model.pace import Pace
from shoal.testing.contracts.frontier.bench import (
    TIMEOUT,
    UNLIMITED,
    FrontierBench,
    link,
    page,
    paths,
    settle,
    take,
)


class LeasingContract:
    async def test_the_best_priority_goes_first_across_hosts(self, frontier: Frontier) -> None:
        await frontier.add("c", [link("5", priority=5), link("9", priority=9), link("1", priority=1)])
        await frontier.add("c", [link("2", host="b.test", priority=2), link("7", host="b.test", priority=7)])

        assert paths(await take(frontier)) == ["a.test/1", "b.test/2", "a.test/5", "b.test/7", "a.test/9"]

    async def test_a_link_of_better_priority_overtakes_waiting_ones(self, frontier: Frontier) -> None:
        await frontier.add("c", [link("slow", priority=5), link("other", host="b.test", priority=5)])
        await frontier.add("c", [link("quick", host="b.test", priority=1)])

        assert paths(await take(frontier, 1)) == ["b.test/quick"]

    async def test_within_a_lane_the_first_accepted_goes_first(self, frontier: Frontier) -> None:
        await frontier.add("c", [link(str(number)) for number in range(50)])

        assert paths(await take(frontier)) == [f"a.test/{number}" for number in range(50)]

    async def test_hosts_of_one_priority_take_turns(self, frontier: Frontier) -> None:
        for host in ("a.test", "b.test", "c.test"):
            await frontier.add("c", [link(str(number), host=host) for number in range(3)])

        assert paths(await take(frontier, 5)) == ["a.test/0", "b.test/0", "c.test/0", "a.test/1", "b.test/1"]
        assert paths(await take(frontier, 4)) == ["c.test/1", "a.test/2", "b.test/2", "c.test/2"]

    async def test_hundreds_of_crawls_share_a_host(self, frontier: Frontier) -> None:
        crawls = 260  # more than a byte counts
        names = [f"crawl {number}" for number in range(crawls)]
        for number, name in enumerate(names):
            await frontier.crawls.open(name, pace=UNLIMITED)
            await frontier.add(name, [link(f"{number}/1"), link(f"{number}/2")])

        leased = []
        while leases := await take(frontier):
            leased += leases
            await frontier.settle([Settlement(lease, Done(page())) for lease in leases])
        assert sorted(paths(leased)) == sorted(
            f"a.test/{number}/{part}" for number in range(crawls) for part in (1, 2)
        )

    async def test_a_host_with_the_best_links_does_not_starve_the_others(self, bench: FrontierBench) -> None:
        frontier = bench.frontier
        await frontier.crawls.open("c", pace=Pace(interval=1.0, burst=1, concurrency=10))
        await frontier.add("c", [link(str(number), host="big.test", priority=1) for number in range(200)])
        for host in range(30):
            await frontier.add(
                "c", [link(str(number), host=f"{host}.test", priority=9) for number in range(9)]
            )

        served: set[str] = set()
        for _ in range(6):
            for lease in await take(frontier, 10):
                served.add(lease.host)
                await settle(frontier, lease, Done(page()))
            bench.clock.advance(1.0)

        assert len(served) == 31

    async def test_the_host_that_has_been_due_for_longest_goes_first(
        self, frontier: Frontier, bench: FrontierBench
    ) -> None:
        await frontier.hosts.set("slow.test", interval=10.0)
        await frontier.hosts.set("quick.test", interval=1.0)
        for number in range(2):
            await frontier.add("c", [link(str(number), host=host) for host in ("slow.test", "quick.test")])
        assert paths(await take(frontier)) == ["slow.test/0", "quick.test/0"]
        bench.clock.advance(11.0)

        assert paths(await take(frontier, 1)) == [
            "quick.test/1"
        ]  # due for ten seconds, the other one for one
        assert paths(await take(frontier, 1)) == ["slow.test/1"]

    async def test_crawls_take_turns_on_a_host(self, frontier: Frontier, bench: FrontierBench) -> None:
        await frontier.crawls.open("d", pace=UNLIMITED)
        await frontier.hosts.set("a.test", interval=1.0)
        for crawl in ("c", "d"):
            await frontier.add(crawl, [link(f"{crawl}{number}") for number in range(3)])

        served = []
        for _ in range(6):
            served += paths(await take(frontier))
            bench.clock.advance(1.0)
        assert served == [f"a.test/{crawl}{number}" for number in range(3) for crawl in ("c", "d")]

    async def test_released_requests_keep_the_order_of_acceptance(self, frontier: Frontier) -> None:
        """They return to their place among those that were not leased yet."""
        await frontier.add("c", [link(str(number)) for number in range(6)])
        leases = await take(frontier, 4)
        await frontier.settle([Settlement(leases[number], Released(), sent=False) for number in (3, 0, 2)])
        await frontier.add("c", [link("6")])

        assert paths(await take(frontier)) == [f"a.test/{number}" for number in (0, 2, 3, 4, 5, 6)]

    async def test_an_empty_frontier_returns_an_infinite_wait(self, frontier: Frontier) -> None:
        assert await frontier.lease(holder="w", limit=1, ttl=60.0) == Grant([], math.inf)

    async def test_a_full_grant_has_no_wait(self, frontier: Frontier) -> None:
        await frontier.add("c", [link("1"), link("2")])

        assert (await frontier.lease(holder="w", limit=1, ttl=60.0)).wait == 0.0

    async def test_the_wait_ends_with_the_first_delay(self, frontier: Frontier) -> None:
        await frontier.add("c", [link("1"), link("2")])
        first, second = await take(frontier)
        await settle(frontier, first, Retry(TIMEOUT, delay=9.0))
        await settle(frontier, second, Retry(TIMEOUT, delay=7.0))

        assert (await frontier.lease(holder="w", limit=1, ttl=60.0)).wait == 7.0

    async def test_the_wait_ends_with_the_first_deadline(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1"), link("2")])
        [first] = await take(frontier, 1, ttl=20.0)
        [second] = await take(frontier, 1, ttl=30.0)
        assert (await frontier.lease(holder="w", limit=1, ttl=60.0)).wait == 20.0
        await frontier.extend([first], 100.0)
        assert (await frontier.lease(holder="w", limit=1, ttl=60.0)).wait == 30.0
        await settle(frontier, second, Done(page()))
        bench.clock.advance(40.0)
        assert (await frontier.lease(holder="w", limit=1, ttl=60.0)).wait == 60.0

    async def test_a_lease_returns_only_requests_of_its_pools(self, frontier: Frontier) -> None:
        await frontier.add("c", [link("1"), link("2", pool="browser"), link("3", pool="http-eu")])

        assert paths(await take(frontier, pools=("browser",))) == ["a.test/2"]
        assert paths(await take(frontier, pools=("http", "http-eu"))) == ["a.test/1", "a.test/3"]

    async def test_waiting_requests_are_counted_by_pool(self, frontier: Frontier) -> None:
        await frontier.add("c", [link("1"), link("2", pool="browser"), link("3", pool="browser")])
        assert await frontier.reader.waiting_by_pool("c") == {"http": 1, "browser": 2}

        grant = await take(frontier, pools=("browser",), limit=1)
        assert await frontier.reader.waiting_by_pool("c") == {"http": 1, "browser": 1}

        retry = Retry(TIMEOUT, delay=60.0)
        await frontier.settle([Settlement(lease, retry) for lease in grant])
        assert await frontier.reader.waiting_by_pool("c") == {"http": 1, "browser": 2}

        await frontier.settle([Settlement(lease, Gone(404)) for lease in await take(frontier)])
        assert await frontier.reader.waiting_by_pool("c") == {"browser": 2}

    async def test_a_lease_can_be_restricted_to_some_crawls(self, frontier: Frontier) -> None:
        await frontier.crawls.open("d", pace=UNLIMITED)
        await frontier.add("c", [link("1")])
        await frontier.add("d", [link("2")])

        assert paths(await take(frontier, crawls=["d"])) == ["a.test/2"]
        assert paths(await take(frontier, crawls=["d", "c"])) == ["a.test/1"]

    async def test_a_crawl_that_is_not_open_can_be_paused(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1")])
        await bench.kill()
        await bench.frontier.crawls.pause("c")
        assert await bench.frontier.reader.paused("c")

        await bench.frontier.crawls.open("c")
        assert await take(bench.frontier) == []
        await bench.frontier.crawls.resume("c")
        assert not await bench.frontier.reader.paused("c")
        assert paths(await take(bench.frontier)) == ["a.test/1"]

    async def test_a_paused_crawl_is_not_leased_from(self, bench: FrontierBench, frontier: Frontier) -> None:
        await frontier.add("c", [link("1")])
        await frontier.crawls.pause("c")
        assert await frontier.lease(holder="w", limit=1, ttl=60.0) == Grant([], math.inf)
        await bench.kill()
        await bench.frontier.crawls.open("c")
        assert await take(bench.frontier) == []
        await bench.frontier.crawls.resume("c")
        assert paths(await take(bench.frontier)) == ["a.test/1"]
