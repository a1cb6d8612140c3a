"""Hosts: pauses, rests, overridden paces, adaptive slow-down, robots.txt."""

import random
from collections import Counter
from collections.abc import Mapping
from math import inf

import pytest

from shoal.frontier.contract import Frontier
from shoal.frontier.governor import Governor
from shoal.frontier.rules import HostRecord
from shoal.model.adaptive_delay import (
    Signal,
    SlowdownRules,
    Spike,
    next_slow_factor,
    signal_of,
    stretch_interval,
)
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import (
    Dead,
    Done,
    Grant,
    Outcome,
    Released,
    Retry,
    RetryRules,
    judge,
)
from shoal.model.pace import Pace
from shoal.testing.contracts.frontier.bench import (
    BLOCKED,
    START,
    TIMEOUT,
    UNLIMITED,
    FrontierBench,
    link,
    page,
    paths,
    settle,
    take,
)

SENSITIVE = SlowdownRules(threshold=0.02, reach=9.0, at_least=4, window=8)


async def respond(bench: FrontierBench, count: int, failure: Failure | None = None) -> None:
    """Send `count` requests to a host, which answers them normally or with a failure."""
    for _ in range(count):
        bench.clock.advance(70.0)
        [lease, *_] = await take(bench.frontier, 1)
        await settle(bench.frontier, lease, Done(page()) if failure is None else Dead(failure))


SIGNALS = "000110222220000345670" + "0" * 12 + "1222220"  # every kind, alone and in a row


LIMITED = Failure(FailureClass.RATE_LIMITED, "429", 429, retry_after=5.0)
TROUBLED_PATHS = {
    "7": LIMITED,
    "19": BLOCKED,
    "33": Failure(FailureClass.TARGET_ERROR, "500", 500),
}


async def crawl_host(
    bench: FrontierBench, crawl: str, troubled: Mapping[str, Failure], pages: int = 60
) -> tuple[float, Counter[str], float]:
    """Crawl a separate host.

    Return the seconds until its last page was served, the requests by path, and the largest slow factor.
    """
    frontier, host = bench.frontier, f"{crawl}.test"
    await frontier.crawls.open(crawl, pace=Pace(interval=0.5))
    await frontier.add(crawl, [link(str(number), host=host) for number in range(pages)])
    began, served_at, ended = bench.clock.now, 0.0, 0
    requests, slowest = Counter[str](), 1.0
    while ended < pages:
        grant = await frontier.lease(holder="w", limit=4, ttl=600.0, crawls=[crawl])
        if not grant.leases:
            bench.clock.advance(grant.wait)
        for lease in grant.leases:
            path = lease.request.url.rpartition("/")[2]
            requests[path] += 1
            outcome: Outcome = Done(page())
            if (failure := troubled.get(path)) is not None:
                rules = RetryRules()
                outcome = judge(failure, attempt=lease.charged, rests=lease.rests, rules=rules, jitter=0.5)
            else:
                served_at = bench.clock.now
            ended += not isinstance(outcome, Retry)
            await settle(frontier, lease, outcome)
        view = await frontier.hosts.get(host)
        slowest = max(slowest, view.slow if view is not None else 1.0)
    return served_at - began, requests, slowest


class HostsContract:
    async def test_a_paused_host_stays_paused_after_a_restart(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1"), link("1", host="b.test")])
        assert (await frontier.hosts.set("a.test", paused=True)).paused
        assert paths(await take(frontier)) == ["b.test/1"]
        await bench.kill()
        await bench.frontier.crawls.open("c")
        assert paths(await take(bench.frontier)) == ["b.test/1"]
        await bench.frontier.hosts.set("a.test", paused=False)
        assert paths(await take(bench.frontier)) == ["a.test/1"]

    async def test_a_host_can_be_rested(self, bench: FrontierBench, frontier: Frontier) -> None:
        await frontier.add("c", [link("1")])
        await frontier.hosts.set("a.test", rest_until=START + 5.0)

        assert (await frontier.lease(holder="w", limit=1, ttl=60.0)).wait == 5.0
        await frontier.hosts.set("a.test", rest_until=0.0)
        assert len(await take(frontier)) == 1

    async def test_a_host_can_have_another_pace_than_its_crawls(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.hosts.set("a.test", interval=3.0, burst=2, concurrency=5)  # before it has any request
        await frontier.add("c", [link(str(number)) for number in range(9)])
        assert len(await take(frontier)) == 2
        await bench.kill()
        await bench.frontier.crawls.open("c", pace=UNLIMITED)
        view = await bench.frontier.hosts.get("a.test")
        assert view is not None
        assert (view.interval, view.burst, view.concurrency) == (3.0, 2, 5)

    async def test_clearing_a_host_restores_the_pace_of_its_crawls(self, bench: FrontierBench) -> None:
        frontier = bench.frontier
        await frontier.crawls.open("c", pace=Pace(interval=2.0, burst=3, concurrency=4))
        await frontier.add("c", [link("1")])
        await frontier.hosts.set("a.test", interval=0.0, burst=1, concurrency=9, paused=True)
        view = await frontier.hosts.clear("a.test")

        assert (view.interval, view.burst, view.concurrency, view.paused) == (2.0, 3, 4, True)
        await bench.kill()
        await bench.frontier.crawls.open("c")
        [view] = await bench.frontier.hosts.all()
        assert (view.interval, view.burst, view.concurrency, view.paused) == (2.0, 3, 4, True)

    async def test_a_pace_set_for_a_host_overrides_the_paces_that_a_crawl_has_for_its_hosts(
        self,
        bench: FrontierBench,
    ) -> None:
        frontier = bench.frontier
        await frontier.crawls.open("c", pace=Pace(interval=2.0), hosts={"b.test": Pace(interval=7.0)})
        await frontier.add("c", [link("1"), link("1", host="b.test")])

        async def intervals() -> dict[str, float]:
            return {view.host: view.interval for view in await bench.frontier.hosts.all()}

        assert await intervals() == {"a.test": 2.0, "b.test": 7.0}
        await bench.kill()
        await bench.frontier.crawls.open("c")  # options that are None keep their value
        assert await intervals() == {"a.test": 2.0, "b.test": 7.0}
        await bench.frontier.hosts.set("b.test", interval=1.0)
        await bench.frontier.crawls.open("c", hosts={"b.test": Pace(interval=9.0)})
        assert await intervals() == {"a.test": 2.0, "b.test": 1.0}
        await bench.frontier.hosts.clear("b.test")
        assert await intervals() == {"a.test": 2.0, "b.test": 9.0}
        await bench.frontier.crawls.open("c", hosts={})
        assert await intervals() == {"a.test": 2.0, "b.test": 2.0}

    async def test_a_crawl_delay_is_obeyed_only_if_it_is_slower(self, bench: FrontierBench) -> None:
        frontier = bench.frontier
        await frontier.crawls.open("c", pace=Pace(interval=2.0, burst=3, concurrency=9))
        await frontier.add("c", [link(str(number)) for number in range(9)])

        assert (await frontier.hosts.set("a.test", crawl_delay=1.0)).interval == 2.0
        view = await frontier.hosts.set("a.test", crawl_delay=10.0)
        assert (view.interval, view.burst, view.crawl_delay) == (10.0, 1, 10.0)
        await bench.kill()
        await bench.frontier.crawls.open("c")
        [view] = await bench.frontier.hosts.all()
        assert (view.interval, view.burst) == (10.0, 1)

    async def test_a_host_that_turns_requests_away_is_slowed_down_and_recovers(
        self, bench: FrontierBench
    ) -> None:
        frontier = bench.frontier
        await frontier.crawls.open(
            "c", pace=Pace(interval=1.0, burst=2, concurrency=9), slowdown=SlowdownRules(at_least=4)
        )
        await frontier.add("c", [link(str(number)) for number in range(400)])

        await respond(bench, 3)
        [view] = await frontier.hosts.all()
        assert view.slow == 1.0
        await respond(bench, 1, BLOCKED)
        [view] = await frontier.hosts.all()
        assert view.slow == pytest.approx(1.05, abs=1e-4)
        assert (view.interval, view.burst, view.failures) == (view.slow, 1, 1)
        assert (view.trouble, view.spike) == ({"forbidden": 1}, None)

        await respond(bench, 6, BLOCKED)
        [view] = await frontier.hosts.all()
        assert 2.0 < view.slow < 4.0
        assert view.spike == Spike(Signal.FORBIDDEN, 7, 10)
        await respond(bench, 300)
        [recovered] = await frontier.hosts.all()
        assert (recovered.slow, recovered.interval, recovered.burst) == (1.0, 1.0, 2)

    async def test_every_backend_follows_the_rule_signal_by_signal(self, bench: FrontierBench) -> None:
        frontier = bench.frontier
        await frontier.crawls.open("c", pace=Pace(interval=1.0, concurrency=9), slowdown=SENSITIVE)
        await frontier.add("c", [link(str(number)) for number in range(len(SIGNALS))])
        slow, interval = 1.0, 1.0
        for position, digit in enumerate(SIGNALS):
            bench.clock.advance(70.0)
            [lease, *_] = await take(frontier, 1)
            await settle(frontier, lease, Done(page()), signal=Signal(int(digit)))
            window = SIGNALS[: position + 1][-SENSITIVE.window :]
            if slow > 1.0 or "1" in SIGNALS[: position + 1]:  # no window before the first trouble
                slow = next_slow_factor(slow, window, interval, SENSITIVE)
                interval = stretch_interval(1.0, slow, SENSITIVE)
            [view] = await frontier.hosts.all()
            assert view.slow == slow, position
            assert view.interval == pytest.approx(interval)
        assert slow > 1.5
        assert view.responses == SIGNALS[-SENSITIVE.window :]

    async def test_pages_that_come_late_slow_their_host_down(self, bench: FrontierBench) -> None:
        frontier = bench.frontier
        await frontier.crawls.open("c", pace=Pace(interval=1.0), slowdown=SENSITIVE)
        await frontier.add("c", [link(str(number)) for number in range(20)])
        for _ in range(20):
            bench.clock.advance(120.0)
            [lease] = await take(frontier)
            await settle(frontier, lease, Done(page()), signal=Signal.LATE)

        assert (await frontier.hosts.all())[0].slow > 1.0

    async def test_a_few_refused_requests_cost_their_host_about_a_fifth_of_its_time(
        self, bench: FrontierBench
    ) -> None:
        usual, _, _ = await crawl_host(bench, "usual", {})
        seconds, requests, slowest = await crawl_host(bench, "troubled", TROUBLED_PATHS)

        assert seconds <= 1.21 * usual  # with the one rest that the host asks for
        assert slowest < 1.2
        assert {path: requests[path] for path in TROUBLED_PATHS} == {"7": 6, "19": 4, "33": 4}
        assert requests.total() == 57 + 14
        letters = {
            letter.request.url.rpartition("/")[2]: letter.attempts
            async for letter in bench.frontier.reader.dead_letters("troubled")
        }
        assert letters == {path: requests[path] for path in TROUBLED_PATHS}

    async def test_requests_that_are_refused_again_neither_slow_nor_rest_a_host_that_serves_others(
        self, bench: FrontierBench
    ) -> None:
        frontier = bench.frontier
        await frontier.crawls.open("c", pace=Pace(interval=1.0))
        await frontier.add("c", [link(str(number)) for number in range(16)])
        await respond(bench, 9)
        refused = Retry(LIMITED, delay=5.0, charged=False, rest=5.0)
        bench.clock.advance(70.0)
        [first] = await take(frontier, 1)
        await settle(frontier, first, refused)
        [once] = await frontier.hosts.all()
        assert once.rest_until == pytest.approx(bench.clock.now + 5.0)  # it may be a limit of the host
        assert once.slow > 1.0
        attempts = []
        for _ in range(15):
            bench.clock.advance(70.0)
            [lease] = await take(frontier, 1)
            if lease.fingerprint != first.fingerprint:
                await settle(frontier, lease, Done(page()))
                continue
            attempts.append(lease.attempt)
            await settle(frontier, lease, refused)
            [view] = await frontier.hosts.all()
            assert (view.slow, view.interval) == (1.0, 1.0)  # what it did is taken back
            # The refusal is, too, once others have been served after it.
            assert view.trouble == ({"rate_limited": 1} if len(attempts) == 1 else {})
            assert view.rest_until == once.rest_until
        assert attempts[:3] == [1, 2, 3]

    @pytest.mark.parametrize("seed", range(3))
    async def test_every_backend_blames_the_same_requests(self, bench: FrontierBench, seed: int) -> None:
        """A site of bad requests and a limit: attempts, charges and the host are as the pure rules say."""
        frontier, clock, dice = bench.frontier, bench.clock, random.Random(seed)
        await frontier.crawls.open("c", pace=Pace(interval=1.0), slowdown=SENSITIVE)
        await frontier.add("c", [link(str(number)) for number in range(40)])
        pure, charges = Governor(HostRecord()), dict[int, tuple[int, int]]()
        pure.follow([Pace(interval=1.0)], SENSITIVE)
        bad = {number: dice.choice((LIMITED, BLOCKED, TIMEOUT)) for number in dice.sample(range(40), 6)}
        blamed = 0
        for _ in range(90):
            grant = await frontier.lease(holder="w", limit=1, ttl=600.0)
            if not grant.leases:
                if grant.wait == inf:
                    break
                clock.advance(grant.wait)
                continue
            [lease] = grant.leases
            failure = bad.get(int(lease.request.url.rpartition("/")[2]))
            failure = LIMITED if dice.random() < 0.04 * seed else failure
            charged, rests = charges.get(lease.fingerprint, (0, 0))
            assert (lease.attempt - 1, lease.rests) == (charged, rests)
            outcome: Outcome = Done(page())
            if failure is not None:
                outcome = judge(failure, attempt=charged + 1, rests=rests, rules=RetryRules(), jitter=0.5)
            signal = Signal.NORMAL if failure is None else signal_of(failure)
            assert signal is not None
            blames = pure.blames_request(signal, charged=charged, rests=rests)
            if blames or pure.record_response(signal):
                pure.follow([Pace(interval=1.0)], SENSITIVE)
            await settle(frontier, lease, outcome)
            if isinstance(outcome, Retry):
                blamed += blames
                charge = outcome.charged or blames
                charges[lease.fingerprint] = (charged + charge, rests + (not charge))
            [view] = await frontier.hosts.all()
            assert (view.slow, view.responses) == (pure.record.slow, pure.responses)
            assert view.interval == pytest.approx(pure.interval)
        assert blamed > 0

    async def test_refusals_of_several_requests_rest_and_slow_their_host_each_time(
        self, bench: FrontierBench
    ) -> None:
        frontier = bench.frontier
        await frontier.crawls.open("c", pace=Pace(interval=1.0))
        await frontier.add("c", [link(str(number)) for number in range(9)])
        slow = 1.0
        for _ in range(9):
            bench.clock.advance(70.0)
            [lease] = await take(frontier, 1)
            await settle(frontier, lease, Retry(LIMITED, delay=600.0, charged=False, rest=5.0))
            [view] = await frontier.hosts.all()
            assert view.slow > slow
            assert view.rest_until == pytest.approx(bench.clock.now + 5.0)
            slow = view.slow

    @pytest.mark.parametrize("change", ["rate", "default rate", "resume"])
    async def test_a_new_rate_and_the_end_of_a_pause_end_a_slow_down(
        self, bench: FrontierBench, change: str
    ) -> None:
        hosts = bench.frontier.hosts
        await bench.frontier.crawls.open("c", pace=Pace(interval=1.0), slowdown=SENSITIVE)
        await bench.frontier.add("c", [link(str(number)) for number in range(60)])
        await respond(bench, 9, BLOCKED)
        assert (await hosts.all())[0].slow > 2.0
        match change:
            case "rate":
                view = await hosts.set("a.test", interval=2.0)
            case "resume":
                view = await hosts.set("a.test", paused=False, rest_until=0.0)
            case _:
                view = await hosts.clear("a.test")
        assert (view.slow, view.interval) == (1.0, 2.0 if change == "rate" else 1.0)
        assert view.trouble == {}
        await respond(bench, 9)
        assert (await hosts.all())[0].slow == 1.0

    async def test_only_429_and_503_slow_a_host_down_beyond_its_reach(self, bench: FrontierBench) -> None:
        await bench.frontier.crawls.open("c", pace=Pace(interval=1.0), slowdown=SENSITIVE)
        await bench.frontier.add("c", [link(str(number)) for number in range(60)])
        await respond(bench, 25, BLOCKED)
        assert (await bench.frontier.hosts.all())[0].slow == 1 + SENSITIVE.reach
        await respond(bench, 10, Failure(FailureClass.TARGET_ERROR, "503", 503))
        [view] = await bench.frontier.hosts.all()
        assert view.slow > 30.0
        await respond(bench, 10, Failure(FailureClass.RATE_LIMITED, "429", 429))
        assert (await bench.frontier.hosts.all())[0].interval == SENSITIVE.ceiling

    async def test_a_slow_down_survives_a_restart(self, bench: FrontierBench) -> None:
        await bench.frontier.crawls.open("c", pace=Pace(interval=1.0), slowdown=SENSITIVE)
        await bench.frontier.add("c", [link(str(number)) for number in range(60)])
        await respond(bench, 9, BLOCKED)
        [view] = await bench.frontier.hosts.all()
        await bench.kill()
        await bench.frontier.crawls.open("c")

        [kept] = await bench.frontier.hosts.all()
        assert kept.slow == view.slow > 2.0

    async def test_what_says_nothing_about_a_host_does_not_count(self, bench: FrontierBench) -> None:
        frontier = bench.frontier
        await frontier.crawls.open("c", pace=UNLIMITED, slowdown=SlowdownRules(at_least=2, window=4))
        await frontier.add("c", [link(str(number)) for number in range(9)])
        first, second, third, *others = await take(frontier)
        await settle(frontier, first, Dead(BLOCKED))
        for lease in others:
            await settle(frontier, lease, Retry(Failure(FailureClass.DNS, "no address"), delay=1.0))
        await settle(frontier, second, Released(), sent=False)
        assert (await frontier.hosts.all())[0].slow == 1.0  # one response in all
        await settle(frontier, third, Retry(TIMEOUT, delay=1.0), sent=False)  # it accepted no connection
        assert (await frontier.hosts.all())[0].slow > 1.0

    async def test_a_change_of_pace_leaves_no_credit(self, bench: FrontierBench, frontier: Frontier) -> None:
        await frontier.add("c", [link(str(number)) for number in range(9)])
        await frontier.hosts.set("a.test", interval=1.0, burst=5)
        await take(frontier, 1)
        await frontier.hosts.set("a.test", interval=10.0, burst=5)

        assert (await frontier.lease(holder="w", limit=9, ttl=60.0)).wait == 10.0
        bench.clock.advance(10.0)
        assert len(await take(frontier)) == 1

    async def test_the_view_of_a_host_has_its_queue_and_its_requests_in_flight(
        self, bench: FrontierBench
    ) -> None:
        frontier = bench.frontier
        await frontier.crawls.open("c", pace=Pace(interval=2.0, burst=1, concurrency=4))
        await frontier.add("c", [link("1"), link("2"), link("3", pool="browser"), link("1", host="b.test")])
        [lease, *_] = await take(frontier)
        await settle(frontier, lease, Retry(TIMEOUT, delay=1.0))

        views = {view.host: view for view in await frontier.hosts.all()}
        assert sorted(views) == ["a.test", "b.test"]
        assert (views["a.test"].waiting, views["a.test"].inflight, views["a.test"].failures) == (2, 0, 1)
        assert views["a.test"].next_turn == START + 2.0
        assert views["b.test"].inflight == 1
        assert await frontier.hosts.get("c.test") is None

    async def test_robots_txt_is_stored_until_it_expires(self, bench: FrontierBench) -> None:
        await bench.frontier.hosts.set_robots("a.test", expires=START + 10.0, status=200, body=b"Disallow: /")
        await bench.kill()

        known = await bench.frontier.hosts.get_robots("a.test")
        assert known is not None
        assert (known.expires, known.status, known.body) == (START + 10.0, 200, b"Disallow: /")
        assert await bench.frontier.hosts.get_robots("b.test") is None
        bench.clock.advance(10.0)
        assert await bench.frontier.hosts.get_robots("a.test") is None
        await bench.frontier.hosts.set_robots("a.test", expires=START + 99.0, status=404, body=b"")
        again = await bench.frontier.hosts.get_robots("a.test")
        assert again is not None
        assert again.status == 404


class EmbeddedHostsContract:
    """Holds for stores with one owner: a fleet has no owner that restarts."""

    async def test_after_a_restart_every_host_rests_one_interval(self, bench: FrontierBench) -> None:
        frontier = bench.frontier
        await frontier.crawls.open("c", pace=Pace(interval=2.0, burst=3, concurrency=9))
        await frontier.add("c", [link(str(number)) for number in range(9)])
        await bench.kill()
        frontier = bench.frontier
        await frontier.crawls.open("c")

        assert await frontier.lease(holder="w", limit=9, ttl=60.0) == Grant([], 2.0)
        bench.clock.advance(2.0)
        assert len(await take(frontier)) == 1
        bench.clock.advance(100.0)
        assert len(await take(frontier, ttl=1000.0)) == 3
