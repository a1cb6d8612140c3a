"""The frontier's contract: hosts are asked as often as they may be, and no more."""

import pytest
from tests.contract.clock import START
from tests.contract.frontiers import (
    BLOCKED,
    TIMEOUT,
    UNLIMITED,
    AnyFrontier,
    Bench,
    link,
    page,
    paths,
    settle,
    states,
    taken,
)

from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.outcome import (
    Dead,
    Done,
    Gone,
    Grant,
    Released,
    Retry,
    Settlement,
)
from shoal.model.pace import Pace

# --- pace ----------------------------------------------------------------------------------------


async def test_a_host_is_asked_once_per_interval(bench: Bench) -> None:
    frontier, clock = bench.frontier, bench.clock
    await frontier.crawls.open("c", pace=Pace(interval=2.0, burst=1, concurrency=10))
    await frontier.add("c", [link(str(number)) for number in range(5)])

    assert len(await taken(frontier)) == 1
    grant = await frontier.lease(holder="w", limit=5, ttl=60.0)
    assert (grant.leases, grant.wait) == ([], 2.0)
    clock.advance(1.5)
    assert (await frontier.lease(holder="w", limit=5, ttl=60.0)).wait == 0.5
    clock.advance(0.5)
    assert len(await taken(frontier)) == 1


async def test_a_rested_host_gets_its_burst_and_then_its_rate(bench: Bench) -> None:
    frontier, clock = bench.frontier, bench.clock
    await frontier.crawls.open("c", pace=Pace(interval=1.0, burst=3, concurrency=100))
    await frontier.add("c", [link(str(number)) for number in range(50)])

    assert len(await taken(frontier)) == 3
    clock.advance(1.0)
    assert len(await taken(frontier)) == 1
    clock.advance(2.0)
    assert len(await taken(frontier)) == 2
    clock.advance(100.0)
    assert len(await taken(frontier, ttl=600.0)) == 3


async def test_requests_out_at_once_are_bounded(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.crawls.open("c", pace=Pace(interval=0.0, burst=1, concurrency=2))
    await frontier.add("c", [link(str(number)) for number in range(6)])

    first, second = await taken(frontier)
    assert (await frontier.lease(holder="w", limit=1, ttl=60.0)).wait == 60.0  # only a deadline could help
    frontier.landed([first])
    frontier.landed([first])  # said twice, counts once
    assert len(await taken(frontier)) == 1
    await settle(frontier, first, Done(page()))  # landed before
    assert await taken(frontier) == []
    await settle(frontier, second, Done(page()))
    assert len(await taken(frontier)) == 1


async def test_as_many_as_one_likes_may_be_out_at_once(bench: Bench) -> None:
    await bench.frontier.crawls.open("c", pace=Pace(0.0, 70_000, 70_000))
    await bench.frontier.add("c", [link(str(number)) for number in range(5)])

    assert len(await taken(bench.frontier)) == 5
    await bench.frontier.hosts.set("a.test", burst=70_000, concurrency=70_000)
    await bench.frontier.add("c", [link(str(number)) for number in range(10)])
    assert len(await taken(bench.frontier)) == 5


async def test_a_host_that_is_not_due_holds_nobody_up(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.crawls.open("c", pace=Pace(interval=10.0, burst=1, concurrency=10))
    await frontier.add("c", [link(str(number), priority=1) for number in range(100)])
    await frontier.add("c", [link("1", host="b.test", priority=9)])

    assert paths(await taken(frontier)) == ["a.test/0", "b.test/1"]


async def test_all_lanes_of_a_host_share_its_pace(bench: Bench) -> None:
    frontier, clock = bench.frontier, bench.clock
    await frontier.crawls.open("c", pace=Pace(interval=1.0, burst=1, concurrency=10))
    await frontier.crawls.open("d", pace=Pace(interval=1.0, burst=1, concurrency=10))
    for crawl in ("c", "d"):
        await frontier.add(crawl, [link("1"), link("2"), link("3", pool="browser")])

    seen = []
    for _ in range(6):
        [lease] = await taken(frontier, pools=("http", "browser"))
        seen.append((lease.crawl, lease.request.pool))
        clock.advance(1.0)

    assert set(seen[:4]) == {("c", "http"), ("c", "browser"), ("d", "http"), ("d", "browser")}
    assert await states(frontier, "c") == {"leased": 3}


async def test_the_slowest_crawl_sets_the_pace(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.crawls.open("c", pace=Pace(interval=0.0, burst=9, concurrency=9))
    await frontier.crawls.open("d", pace=Pace(interval=4.0, burst=2, concurrency=3))
    await frontier.add("c", [link("1")])
    await frontier.add("d", [link("1")])

    [view] = await frontier.hosts.all()
    assert (view.interval, view.burst, view.concurrency) == (4.0, 2, 3)


async def test_a_crawl_that_is_opened_again_may_change_its_pace(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.crawls.open("c", pace=Pace(interval=10.0, burst=1, concurrency=1))
    await frontier.add("c", [link("1"), link("2")])
    await taken(frontier)
    await frontier.crawls.open("c", pace=UNLIMITED)

    assert len(await taken(frontier)) == 1


async def test_a_lease_tells_the_pace_it_was_given_under(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.crawls.open("c", pace=Pace(interval=0.5, burst=2, concurrency=4))
    await frontier.add("c", [link("1")])
    [lease] = await taken(frontier, ttl=30.0)

    assert (lease.interval, lease.burst, lease.leased_until) == (0.5, 2, START + 30.0)
    assert (lease.crawl, lease.host, lease.attempt, lease.crashes, lease.rests) == ("c", "a.test", 1, 0, 0)


# --- hosts ---------------------------------------------------------------------------------------


async def test_a_host_can_be_paused_and_stays_so(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1"), link("1", host="b.test")])
    assert (await frontier.hosts.set("a.test", paused=True)).paused
    assert paths(await taken(frontier)) == ["b.test/1"]
    await bench.kill()
    await bench.frontier.crawls.open("c")
    assert paths(await taken(bench.frontier)) == ["b.test/1"]
    await bench.frontier.hosts.set("a.test", paused=False)
    assert paths(await taken(bench.frontier)) == ["a.test/1"]


async def test_a_host_can_be_rested(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    await frontier.hosts.set("a.test", rest_until=START + 5.0)

    assert (await frontier.lease(holder="w", limit=1, ttl=60.0)).wait == 5.0
    await frontier.hosts.set("a.test", rest_until=0.0)
    assert len(await taken(frontier)) == 1


async def test_a_host_can_have_a_pace_of_its_own(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.hosts.set("a.test", interval=3.0, burst=2, concurrency=5)  # before anybody has heard of it
    await frontier.add("c", [link(str(number)) for number in range(9)])
    assert len(await taken(frontier)) == 2
    await bench.kill()
    await bench.frontier.crawls.open("c", pace=UNLIMITED)
    view = await bench.frontier.hosts.get("a.test")
    assert view is not None
    assert (view.interval, view.burst, view.concurrency) == (3.0, 2, 5)


async def test_a_pace_of_its_own_can_be_taken_back(bench: Bench) -> None:
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


async def test_a_crawl_may_name_hosts_with_another_pace_and_what_was_given_to_a_host_goes_before(
    bench: Bench,
) -> None:
    frontier = bench.frontier
    await frontier.crawls.open("c", pace=Pace(interval=2.0), hosts={"b.test": Pace(interval=7.0)})
    await frontier.add("c", [link("1"), link("1", host="b.test")])

    async def intervals() -> dict[str, float]:
        return {view.host: view.interval for view in await bench.frontier.hosts.all()}

    assert await intervals() == {"a.test": 2.0, "b.test": 7.0}
    await bench.kill()
    await bench.frontier.crawls.open("c")  # what is not given stays as it was
    assert await intervals() == {"a.test": 2.0, "b.test": 7.0}
    await bench.frontier.hosts.set("b.test", interval=1.0)
    await bench.frontier.crawls.open("c", hosts={"b.test": Pace(interval=9.0)})
    assert await intervals() == {"a.test": 2.0, "b.test": 1.0}
    await bench.frontier.hosts.clear("b.test")
    assert await intervals() == {"a.test": 2.0, "b.test": 9.0}
    await bench.frontier.crawls.open("c", hosts={})
    assert await intervals() == {"a.test": 2.0, "b.test": 2.0}


async def test_a_crawl_delay_is_obeyed_only_if_it_is_slower(bench: Bench) -> None:
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


SENSITIVE = SlowdownRules(threshold=0.02, reach=9.0, at_least=4, window=8)


async def answers(bench: Bench, count: int, *, blocked: bool) -> None:
    """Let a host answer so many requests, or push them back."""
    for _ in range(count):
        bench.clock.advance(20.0)
        [lease, *_] = await taken(bench.frontier, 1)
        outcome = Dead(BLOCKED) if blocked else Done(page())
        await settle(bench.frontier, lease, outcome, blocked=blocked)


async def test_a_host_that_pushes_back_is_asked_less_often_until_its_window_is_clear(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.crawls.open("c", pace=Pace(interval=1.0, burst=2, concurrency=9), slowdown=SENSITIVE)
    await frontier.add("c", [link(str(number)) for number in range(60)])

    await answers(bench, 3, blocked=False)
    [view] = await frontier.hosts.all()
    assert view.slow == 1.0
    await answers(bench, 1, blocked=True)
    [view] = await frontier.hosts.all()
    assert 9.9 < view.slow <= 10.0
    assert view.interval == pytest.approx(view.slow)
    assert view.burst == 1
    assert view.failures == 1

    await answers(bench, 7, blocked=False)
    assert (await frontier.hosts.all())[0].slow > 9.0  # the block is still in sight
    await answers(bench, 1, blocked=False)
    [recovered] = await frontier.hosts.all()
    assert (recovered.slow, recovered.interval, recovered.burst) == (1.0, 1.0, 2)


async def test_a_slow_down_survives_whoever_noticed_it(bench: Bench) -> None:
    await bench.frontier.crawls.open("c", pace=Pace(interval=1.0), slowdown=SENSITIVE)
    await bench.frontier.add("c", [link(str(number)) for number in range(60)])
    await answers(bench, 4, blocked=True)
    [view] = await bench.frontier.hosts.all()
    await bench.kill()
    await bench.frontier.crawls.open("c")

    [kept] = await bench.frontier.hosts.all()
    assert kept.slow == view.slow == 10.0


@pytest.mark.embedded("the window of a host's answers outlives the worker that saw them")
async def test_a_new_owner_slows_a_host_down_until_it_has_answers_of_its_own(bench: Bench) -> None:
    await bench.frontier.crawls.open("c", pace=Pace(interval=1.0, burst=2), slowdown=SENSITIVE)
    await bench.frontier.add("c", [link(str(number)) for number in range(60)])
    await answers(bench, 4, blocked=True)
    [view] = await bench.frontier.hosts.all()
    await bench.kill()
    await bench.frontier.crawls.open("c")

    await answers(bench, 3, blocked=False)  # too few to say that it is over
    assert (await bench.frontier.hosts.all())[0].slow == view.slow
    await answers(bench, 1, blocked=False)
    [recovered] = await bench.frontier.hosts.all()
    assert (recovered.slow, recovered.interval, recovered.burst) == (1.0, 1.0, 2)


async def test_silence_is_not_push_back(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.crawls.open("c", pace=UNLIMITED, slowdown=SlowdownRules(at_least=2, window=4))
    await frontier.add("c", [link(str(number)) for number in range(9)])
    first, second, third, *others = await taken(frontier)
    await settle(frontier, first, Dead(BLOCKED), blocked=True)
    for lease in others:
        await settle(frontier, lease, Retry(TIMEOUT, delay=1.0))
    assert (await frontier.hosts.all())[0].slow == 1.0  # one answer in all
    await settle(frontier, second, Released(), sent=False)
    assert (await frontier.hosts.all())[0].slow == 1.0
    await settle(frontier, third, Gone(404))
    assert (await frontier.hosts.all())[0].slow > 1.0  # one of two answers was a block


async def test_a_change_of_pace_leaves_no_credit(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link(str(number)) for number in range(9)])
    await frontier.hosts.set("a.test", interval=1.0, burst=5)
    await taken(frontier, 1)
    await frontier.hosts.set("a.test", interval=10.0, burst=5)

    assert (await frontier.lease(holder="w", limit=9, ttl=60.0)).wait == 10.0
    bench.clock.advance(10.0)
    assert len(await taken(frontier)) == 1


@pytest.mark.embedded(
    "no owner restarts; a store that was replaced is another matter (test_frontier_redis.py)"
)
async def test_after_a_restart_every_host_rests_one_interval(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.crawls.open("c", pace=Pace(interval=2.0, burst=3, concurrency=9))
    await frontier.add("c", [link(str(number)) for number in range(9)])
    await bench.kill()
    frontier = bench.frontier
    await frontier.crawls.open("c")

    assert await frontier.lease(holder="w", limit=9, ttl=60.0) == Grant([], 2.0)
    bench.clock.advance(2.0)
    assert len(await taken(frontier)) == 1
    bench.clock.advance(100.0)
    assert len(await taken(frontier, ttl=1000.0)) == 3


async def test_a_view_of_the_hosts_shows_what_goes_on(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.crawls.open("c", pace=Pace(interval=2.0, burst=1, concurrency=4))
    await frontier.add("c", [link("1"), link("2"), link("3", pool="browser"), link("1", host="b.test")])
    [lease, *_] = await taken(frontier)
    await settle(frontier, lease, Retry(TIMEOUT, delay=1.0))

    views = {view.host: view for view in await frontier.hosts.all()}
    assert sorted(views) == ["a.test", "b.test"]
    assert (views["a.test"].waiting, views["a.test"].inflight, views["a.test"].failures) == (2, 0, 1)
    assert views["a.test"].next_turn == START + 2.0
    assert views["b.test"].inflight == 1
    assert await frontier.hosts.get("c.test") is None


# --- robots --------------------------------------------------------------------------------------


async def test_robots_txt_is_remembered_until_it_expires(bench: Bench) -> None:
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


# --- the clock -----------------------------------------------------------------------------------


async def test_a_clock_that_is_set_back_holds_nobody_up_for_longer_than_a_turn(bench: Bench) -> None:
    frontier, clock = bench.frontier, bench.clock
    await frontier.crawls.open("c", pace=Pace(interval=2.0, burst=1, concurrency=9))
    await frontier.add("c", [link(str(number)) for number in range(9)])
    await taken(frontier, ttl=30.0)
    clock.advance(-86_400.0)

    grant = await frontier.lease(holder="w", limit=9, ttl=30.0)
    assert grant.leases == []
    assert 0 < grant.wait <= 2.0
    clock.advance(2.0)
    assert len(await taken(frontier, ttl=30.0)) == 1
    clock.advance(28.0)
    assert await frontier.reclaim() == 1  # the first lease has had its thirty seconds


async def test_a_clock_that_trembles_changes_nothing(bench: Bench) -> None:
    frontier, clock = bench.frontier, bench.clock
    await frontier.crawls.open("c", pace=Pace(interval=2.0, burst=1, concurrency=9))
    await frontier.add("c", [link(str(number)) for number in range(9)])
    await taken(frontier)
    clock.advance(1.0)
    assert (await frontier.lease(holder="w", limit=9, ttl=30.0)).wait == 1.0
    clock.advance(-0.5)
    assert (await frontier.lease(holder="w", limit=9, ttl=30.0)).wait == 1.0
    clock.advance(0.5)
    assert (await frontier.lease(holder="w", limit=9, ttl=30.0)).wait == 1.0


async def test_a_clock_that_jumps_forward_costs_attempts_and_nothing_else(
    bench: Bench, frontier: AnyFrontier
) -> None:
    await frontier.add("c", [link("1")])
    [early] = await taken(frontier)
    bench.clock.advance(1e9)
    [again] = await taken(frontier)

    assert (await frontier.settle([Settlement(early, Done(page()))])).stale == [early]
    await settle(frontier, again, Done(page()))
    assert await states(frontier) == {"done": 1}
