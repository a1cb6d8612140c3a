"""The frontier's contract, sentence by sentence, over every backend: adding, leasing, settling."""

import math

import pytest
from tests.contract.frontiers import (
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

from shoal.model.errors import Misconfigured
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import (
    Acknowledgement,
    Dead,
    Done,
    Fetched,
    Filtered,
    Gone,
    Grant,
    Outcome,
    Released,
    Retry,
    Settlement,
)
from shoal.model.pace import Pace

# --- adding --------------------------------------------------------------------------------------


async def test_a_link_is_accepted_once(frontier: AnyFrontier) -> None:
    first = await frontier.add("c", [link("1"), link("2"), link("1")])
    again = await frontier.add("c", [link("2"), link("3")])

    assert (first.new, first.duplicate) == (2, 1)
    assert (again.new, again.duplicate) == (1, 1)
    counts = await frontier.reader.counts("c")
    assert (counts.accepted, counts.duplicate, counts.waiting) == (3, 2, 3)
    assert paths(await taken(frontier)) == ["a.test/1", "a.test/2", "a.test/3"]


async def test_repeating_an_add_changes_nothing(frontier: AnyFrontier) -> None:
    links = [link(str(number)) for number in range(5)]
    await frontier.add("c", links)
    [lease, *_] = await taken(frontier)
    await settle(frontier, lease, Done(page()))

    assert (await frontier.add("c", links)).new == 0
    assert await states(frontier) == {"leased": 4, "done": 1}


async def test_a_host_brings_no_more_than_its_budget_and_what_is_beyond_is_counted(bench: Bench) -> None:
    await bench.frontier.crawls.open("c", pace=UNLIMITED, host_budget=2)
    await bench.frontier.add("c", [link("1"), link("1"), link("2"), link("3")])
    await bench.kill()
    await bench.frontier.crawls.open("c")
    after = await bench.frontier.add("c", [link("1"), link("3"), link("1", host="b.test")])

    assert (after.new, after.duplicate) == (1, 1)
    counts = await bench.frontier.reader.counts("c")
    assert (counts.accepted, counts.duplicate, counts.over_budget) == (3, 2, 2)
    assert sorted(paths(await taken(bench.frontier))) == ["a.test/1", "a.test/2", "b.test/1"]

    await bench.frontier.crawls.open("c", host_budget=0)
    assert (await bench.frontier.add("c", [link("3"), link("4")])).new == 2


async def test_crawls_see_for_themselves(frontier: AnyFrontier) -> None:
    await frontier.crawls.open("other", pace=UNLIMITED)
    await frontier.add("c", [link("1")])

    assert (await frontier.add("other", [link("1")])).new == 1
    assert sorted(lease.crawl for lease in await taken(frontier)) == ["c", "other"]


async def test_a_crawl_has_to_be_opened(bench: Bench) -> None:
    with pytest.raises(Misconfigured, match="nope"):
        await bench.frontier.add("nope", [link("1")])
    with pytest.raises(Misconfigured, match="nope"):
        await bench.frontier.reader.counts("nope")


async def test_opening_says_whether_the_crawl_is_new(bench: Bench) -> None:
    assert not (await bench.frontier.crawls.open("c", state={"version": b"1"})).resumed
    assert (await bench.frontier.crawls.open("c", state={"version": b"2"})).resumed
    assert await bench.frontier.reader.value("c", "version") == b"1"
    assert await bench.frontier.reader.crawls() == ["c"]


# --- which goes next -----------------------------------------------------------------------------


async def test_the_best_priority_goes_first_on_whichever_host(frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("5", priority=5), link("9", priority=9), link("1", priority=1)])
    await frontier.add("c", [link("2", host="b.test", priority=2), link("7", host="b.test", priority=7)])

    assert paths(await taken(frontier)) == ["a.test/1", "b.test/2", "a.test/5", "b.test/7", "a.test/9"]


async def test_a_better_link_overtakes_those_that_wait(frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("slow", priority=5), link("other", host="b.test", priority=5)])
    await frontier.add("c", [link("quick", host="b.test", priority=1)])

    assert paths(await taken(frontier, 1)) == ["b.test/quick"]


async def test_within_a_lane_the_first_accepted_goes_first(frontier: AnyFrontier) -> None:
    await frontier.add("c", [link(str(number)) for number in range(50)])

    assert paths(await taken(frontier)) == [f"a.test/{number}" for number in range(50)]


async def test_hosts_of_one_priority_take_turns(frontier: AnyFrontier) -> None:
    for host in ("a.test", "b.test", "c.test"):
        await frontier.add("c", [link(str(number), host=host) for number in range(3)])

    assert paths(await taken(frontier, 5)) == ["a.test/0", "b.test/0", "c.test/0", "a.test/1", "b.test/1"]
    assert paths(await taken(frontier, 4)) == ["c.test/1", "a.test/2", "b.test/2", "c.test/2"]


async def test_a_host_with_the_best_links_does_not_starve_the_others(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.crawls.open("c", pace=Pace(interval=1.0, burst=1, concurrency=10))
    await frontier.add("c", [link(str(number), host="big.test", priority=1) for number in range(200)])
    for host in range(30):
        await frontier.add("c", [link(str(number), host=f"{host}.test", priority=9) for number in range(9)])

    served: set[str] = set()
    for _ in range(6):
        for lease in await taken(frontier, 10):
            served.add(lease.host)
            await settle(frontier, lease, Done(page()))
        bench.clock.advance(1.0)

    assert len(served) == 31


async def test_of_two_hosts_the_one_goes_first_that_could_have_gone_for_longer(
    frontier: AnyFrontier, bench: Bench
) -> None:
    await frontier.hosts.set("slow.test", interval=10.0)
    await frontier.hosts.set("quick.test", interval=1.0)
    for number in range(2):
        await frontier.add("c", [link(str(number), host=host) for host in ("slow.test", "quick.test")])
    assert paths(await taken(frontier)) == ["slow.test/0", "quick.test/0"]
    bench.clock.advance(11.0)

    assert paths(await taken(frontier, 1)) == ["quick.test/1"]  # for ten seconds; the other one for one
    assert paths(await taken(frontier, 1)) == ["slow.test/1"]


async def test_crawls_take_turns_on_a_host(frontier: AnyFrontier, bench: Bench) -> None:
    await frontier.crawls.open("d", pace=UNLIMITED)
    await frontier.hosts.set("a.test", interval=1.0)
    for crawl in ("c", "d"):
        await frontier.add(crawl, [link(f"{crawl}{number}") for number in range(3)])

    served = []
    for _ in range(6):
        served += paths(await taken(frontier))
        bench.clock.advance(1.0)
    assert served == [f"a.test/{crawl}{number}" for number in range(3) for crawl in ("c", "d")]


async def test_the_order_of_acceptance_is_never_mixed_up(frontier: AnyFrontier) -> None:
    """Releases and retries come back among those that have not been served yet."""
    await frontier.add("c", [link(str(number)) for number in range(6)])
    leases = await taken(frontier, 4)
    await frontier.settle([Settlement(leases[number], Released(), sent=False) for number in (3, 0, 2)])
    await frontier.add("c", [link("6")])

    assert paths(await taken(frontier)) == [f"a.test/{number}" for number in (0, 2, 3, 4, 5, 6)]


# --- what to wait for ----------------------------------------------------------------------------


async def test_an_empty_frontier_says_not_to_wait_for_time(frontier: AnyFrontier) -> None:
    assert await frontier.lease(holder="w", limit=1, ttl=60.0) == Grant([], math.inf)


async def test_a_full_grant_does_not_ask_to_wait(frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1"), link("2")])

    assert (await frontier.lease(holder="w", limit=1, ttl=60.0)).wait == 0.0


async def test_a_wait_ends_with_the_first_delay(frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1"), link("2")])
    first, second = await taken(frontier)
    await settle(frontier, first, Retry(TIMEOUT, delay=9.0))
    await settle(frontier, second, Retry(TIMEOUT, delay=7.0))

    assert (await frontier.lease(holder="w", limit=1, ttl=60.0)).wait == 7.0


async def test_a_wait_ends_with_the_first_deadline(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1"), link("2")])
    [first] = await taken(frontier, 1, ttl=20.0)
    [second] = await taken(frontier, 1, ttl=30.0)
    assert (await frontier.lease(holder="w", limit=1, ttl=60.0)).wait == 20.0
    await frontier.extend([first], 100.0)
    assert (await frontier.lease(holder="w", limit=1, ttl=60.0)).wait == 30.0
    await settle(frontier, second, Done(page()))
    bench.clock.advance(40.0)
    assert (await frontier.lease(holder="w", limit=1, ttl=60.0)).wait == 60.0


# --- pools and crawls ----------------------------------------------------------------------------


async def test_a_worker_gets_only_what_its_pools_may_take(frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1"), link("2", pool="browser"), link("3", pool="http-eu")])

    assert paths(await taken(frontier, pools=("browser",))) == ["a.test/2"]
    assert paths(await taken(frontier, pools=("http", "http-eu"))) == ["a.test/1", "a.test/3"]


async def test_a_worker_may_ask_for_some_crawls_only(frontier: AnyFrontier) -> None:
    await frontier.crawls.open("d", pace=UNLIMITED)
    await frontier.add("c", [link("1")])
    await frontier.add("d", [link("2")])

    assert paths(await taken(frontier, crawls=["d"])) == ["a.test/2"]
    assert paths(await taken(frontier, crawls=["d", "c"])) == ["a.test/1"]


async def test_a_crawl_that_is_not_open_can_be_paused(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    await bench.kill()
    await bench.frontier.crawls.pause("c")
    assert await bench.frontier.reader.paused("c")

    await bench.frontier.crawls.open("c")
    assert await taken(bench.frontier) == []
    await bench.frontier.crawls.resume("c")
    assert not await bench.frontier.reader.paused("c")
    assert paths(await taken(bench.frontier)) == ["a.test/1"]


async def test_a_paused_crawl_is_left_alone(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    await frontier.crawls.pause("c")
    assert await frontier.lease(holder="w", limit=1, ttl=60.0) == Grant([], math.inf)
    await bench.kill()
    await bench.frontier.crawls.open("c")
    assert await taken(bench.frontier) == []
    await bench.frontier.crawls.resume("c")
    assert paths(await taken(bench.frontier)) == ["a.test/1"]


# --- settling ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Done(page()), "done"),
        (Fetched(page()), "parsing"),
        (Gone(404), "gone"),
        (Dead(TIMEOUT), "dead"),
        (Filtered(FailureClass.ROBOTS, "/private"), "filtered"),
        (Retry(TIMEOUT, delay=1.0), "delayed"),
        (Retry(TIMEOUT, delay=0.0), "waiting"),
        (Released(), "waiting"),
        (Released(delay=1.0), "delayed"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_an_outcome_leads_to_its_state(frontier: AnyFrontier, outcome: Outcome, state: str) -> None:
    await frontier.add("c", [link("1")])
    [lease] = await taken(frontier)
    assert await states(frontier) == {"leased": 1}
    await settle(frontier, lease, outcome)

    assert await states(frontier) == {state: 1}


async def test_what_has_ended_is_never_handed_out_again(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link(str(number)) for number in range(5)])
    outcomes: list[Outcome] = [
        Done(page()),
        Fetched(page()),
        Gone(410),
        Dead(TIMEOUT),
        Filtered(FailureClass.ROBOTS),
    ]
    for lease, outcome in zip(await taken(frontier), outcomes, strict=True):
        await settle(frontier, lease, outcome)
    bench.clock.advance(1e6)

    assert await frontier.lease(holder="w", limit=9, ttl=60.0) == Grant([], math.inf)
    await bench.kill()
    await bench.frontier.crawls.open("c")
    assert await taken(bench.frontier) == []


async def test_links_arrive_with_their_page(frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    [lease] = await taken(frontier)
    committed = await frontier.settle([Settlement(lease, Done(page()), [link("2"), link("1"), link("2")])])

    assert (committed.new, committed.duplicate) == (1, 2)
    assert paths(await taken(frontier)) == ["a.test/2"]


@pytest.mark.parametrize("outcome", [Dead(TIMEOUT), Gone(404)])
async def test_links_arrive_with_the_end_of_a_request_that_failed(
    frontier: AnyFrontier, outcome: Outcome
) -> None:
    await frontier.add("c", [link("1")])
    [lease] = await taken(frontier)
    committed = await frontier.settle([Settlement(lease, outcome, [link("2"), link("1")])])

    assert (committed.new, committed.duplicate) == (1, 1)
    assert paths(await taken(frontier)) == ["a.test/2"]


async def test_links_arrive_with_the_end_of_a_page_that_could_not_be_parsed(frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    [lease] = await taken(frontier)
    await settle(frontier, lease, Fetched(page()))
    unparsable = Dead(Failure(FailureClass.PARSE_ERROR, "it raised"), page())
    committed = await frontier.acknowledge([Acknowledgement("c", lease.fingerprint, unparsable, [link("2")])])

    assert committed.new == 1
    assert paths(await taken(frontier)) == ["a.test/2"]


async def test_a_settlement_is_accepted_once(frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    [lease] = await taken(frontier)
    assert frontier.holds(lease)
    twice = await frontier.settle(
        [Settlement(lease, Done(page())), Settlement(lease, Gone(404), [link("2")])]
    )
    late = await frontier.settle([Settlement(lease, Dead(TIMEOUT), [link("3")])])

    assert not frontier.holds(lease)
    assert (twice.stale, late.stale) == ([lease], [lease])
    assert await states(frontier) == {"done": 1}
    assert (await frontier.reader.counts("c")).accepted == 1  # a refused settlement brings no links


async def test_a_batch_can_be_settled_piece_by_piece(frontier: AnyFrontier) -> None:
    await frontier.add("c", [link(str(number)) for number in range(4)])
    leases = await taken(frontier)
    assert len({lease.token for lease in leases}) == 1
    for lease in reversed(leases):
        await settle(frontier, lease, Done(page()))

    assert await states(frontier) == {"done": 4}


async def test_a_released_request_loses_nothing(frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1"), link("2", priority=6), link("3", priority=6)])
    first, second, third = await taken(frontier)
    await settle(frontier, third, Released(), sent=False)
    await settle(frontier, second, Released(), sent=False)
    await settle(frontier, first, Released(), sent=False)

    again = await taken(frontier)
    assert paths(again) == ["a.test/1", "a.test/2", "a.test/3"]
    assert {(lease.attempt, lease.crashes, lease.rests) for lease in again} == {(1, 0, 0)}
    assert not frontier.holds(first)


async def test_a_request_that_never_left_gives_its_turn_back(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.crawls.open("c", pace=Pace(interval=10.0, burst=2, concurrency=10))
    await frontier.add("c", [link(str(number)) for number in range(4)])
    first, second = await taken(frontier)
    await settle(frontier, first, Filtered(FailureClass.ROBOTS), sent=False)
    await settle(frontier, second, Done(page()))

    assert len(await taken(frontier)) == 1
    assert await taken(frontier) == []


async def test_a_turn_is_not_given_back_once_a_later_one_was_taken(bench: Bench) -> None:
    frontier, clock = bench.frontier, bench.clock
    await frontier.crawls.open("c", pace=Pace(interval=10.0, burst=1, concurrency=10))
    await frontier.add("c", [link(str(number)) for number in range(4)])
    [first] = await taken(frontier)
    clock.advance(10.0)
    [_] = await taken(frontier)
    await settle(frontier, first, Released(), sent=False)

    assert await taken(frontier) == []  # or two requests would go at the same instant


async def test_one_commit_settles_acknowledges_and_records(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1"), link("2")])
    first, second = await taken(frontier)
    await settle(frontier, first, Fetched(page(1)))
    committed = await frontier.commit(
        [Settlement(second, Done(page(2)), [link("3")])],
        [Acknowledgement("c", first.fingerprint, Done(page(1)), [link("4"), link("3")])],
        {"items.jsonl": b"42"},
        {"c": {"cookies": b"{}"}},
    )

    assert (committed.new, committed.duplicate) == (2, 1)
    assert await states(frontier) == {"waiting": 2, "done": 2}
    await bench.kill()
    assert await bench.frontier.reader.checkpoint("items.jsonl") == b"42"
    assert await bench.frontier.reader.checkpoint("other") is None
    assert await bench.frontier.reader.value("c", "cookies") == b"{}"
    assert await bench.frontier.reader.value("c", "other") is None


async def test_values_of_a_crawl_can_be_replaced(frontier: AnyFrontier) -> None:
    await frontier.crawls.set_value("c", "spider", b"1")
    await frontier.crawls.set_value("c", "spider", b"2")

    assert await frontier.reader.value("c", "spider") == b"2"


# --- retries -------------------------------------------------------------------------------------


async def test_a_retry_waits_for_its_delay_and_counts_attempts(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    [lease] = await taken(frontier)
    await settle(frontier, lease, Retry(TIMEOUT, delay=4.0))

    bench.clock.advance(3.9)
    assert await taken(frontier) == []
    bench.clock.advance(0.1)
    assert await states(frontier) == {"waiting": 1}  # a delay ends by itself
    [again] = await taken(frontier)
    assert (again.attempt, again.rests, again.crashes) == (2, 0, 0)
    assert again.token != lease.token
    assert (await frontier.reader.counts("c")).retries == 1


async def test_each_attempt_costs_one_priority_class(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1", priority=5)])
    [lease] = await taken(frontier)
    await settle(frontier, lease, Retry(TIMEOUT, delay=1.0))
    await frontier.add("c", [link("same", priority=6), link("better", priority=5)])
    bench.clock.advance(1.0)

    # Within class 6 the retry goes first: it was accepted before the other.
    assert paths(await taken(frontier)) == ["a.test/better", "a.test/1", "a.test/same"]


async def test_a_rest_is_not_charged(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1"), link("2"), link("x", host="b.test")])
    [first, *_] = await taken(frontier, 1)
    busy = Failure(FailureClass.RATE_LIMITED, "429", status=429, retry_after=30.0)
    await settle(frontier, first, Retry(busy, delay=30.0, charged=False, rest=30.0))

    assert paths(await taken(frontier)) == ["b.test/x"]  # the host rests as a whole
    assert (await frontier.lease(holder="w", limit=1, ttl=60.0)).wait == 30.0
    bench.clock.advance(30.0)
    again, other = await taken(frontier)
    assert paths([again, other]) == ["a.test/1", "a.test/2"]
    assert (again.attempt, again.rests) == (1, 1)


async def test_a_rest_survives_a_restart_and_is_never_cut_short(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1"), link("2"), link("3")])
    first, second, _ = await taken(frontier)
    busy = Failure(FailureClass.RATE_LIMITED, "429", status=429)
    await settle(frontier, first, Retry(busy, delay=50.0, charged=False, rest=50.0))
    await settle(frontier, second, Retry(busy, delay=20.0, charged=False, rest=20.0))
    await bench.kill()
    await bench.frontier.crawls.open("c")

    bench.clock.advance(49.0)
    assert await taken(bench.frontier) == []
    bench.clock.advance(1.0)
    assert len(await taken(bench.frontier)) == 3


async def test_a_delay_survives_a_restart(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    [lease] = await taken(frontier)
    await settle(frontier, lease, Retry(TIMEOUT, delay=4.0))
    await bench.kill()
    await bench.frontier.crawls.open("c")

    assert await states(bench.frontier) == {"delayed": 1}
    bench.clock.advance(4.0)
    [again] = await taken(bench.frontier)
    assert again.attempt == 2
