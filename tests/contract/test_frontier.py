"""The frontier's contract, sentence by sentence, over every backend."""

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contract.frontiers import BACKENDS, START, UNLIMITED, AnyFrontier, Bench, link, page

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
    Lease,
    Outcome,
    Released,
    Retry,
    Settlement,
)
from shoal.model.pace import Pace
from shoal.model.request import Link
from shoal.model.slowdown import SlowdownRules

TIMEOUT = Failure(FailureClass.TIMEOUT, "no answer")
BLOCKED = Failure(FailureClass.IP_BLOCKED, "403", status=403)
BROKEN = Failure(FailureClass.PARSE_ERROR, "the spider raised", status=200)


@pytest.fixture(params=sorted(BACKENDS))
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    """One backend, with whose accounts every test must leave in order."""
    async with BACKENDS[request.param](tmp_path) as opened:
        yield opened
        for crawl in await opened.frontier.crawls():
            assert (await opened.frontier.audit(crawl)).problems == []
            counts = await opened.frontier.counts(crawl)
            assert counts.accepted == sum(counts.by_state().values())


@pytest.fixture
async def frontier(bench: Bench) -> AnyFrontier:
    """A frontier with one open crawl, `c`, that no host slows down."""
    await bench.frontier.open_crawl("c", pace=UNLIMITED)
    return bench.frontier


async def taken(
    frontier: AnyFrontier,
    limit: int = 100,
    *,
    holder: str = "w",
    ttl: float = 60.0,
    pools: Sequence[str] = ("http",),
    crawls: Sequence[str] | None = None,
) -> list[Lease]:
    grant = await frontier.lease(holder=holder, limit=limit, ttl=ttl, pools=pools, crawls=crawls)
    return list(grant.leases)


def paths(leases: Sequence[Lease]) -> list[str]:
    return [lease.request.url.removeprefix("https://") for lease in leases]


async def settle(frontier: AnyFrontier, lease: Lease, outcome: Outcome, *links: Link, **how: bool) -> None:
    committed = await frontier.settle([Settlement(lease, outcome, links, **how)])
    assert not committed.stale


async def states(frontier: AnyFrontier, crawl: str = "c") -> dict[str, int]:
    """Name only the states that something is in."""
    counts = await frontier.counts(crawl)
    return {state: count for state, count in counts.by_state().items() if count}


# --- adding --------------------------------------------------------------------------------------


async def test_a_link_is_accepted_once(frontier: AnyFrontier) -> None:
    first = await frontier.add("c", [link("1"), link("2"), link("1")])
    again = await frontier.add("c", [link("2"), link("3")])

    assert (first.new, first.duplicate) == (2, 1)
    assert (again.new, again.duplicate) == (1, 1)
    counts = await frontier.counts("c")
    assert (counts.accepted, counts.duplicate, counts.waiting) == (3, 2, 3)
    assert paths(await taken(frontier)) == ["a.test/1", "a.test/2", "a.test/3"]


async def test_repeating_an_add_changes_nothing(frontier: AnyFrontier) -> None:
    links = [link(str(number)) for number in range(5)]
    await frontier.add("c", links)
    [lease, *_] = await taken(frontier)
    await settle(frontier, lease, Done(page()))

    assert (await frontier.add("c", links)).new == 0
    assert await states(frontier) == {"leased": 4, "done": 1}


async def test_crawls_see_for_themselves(frontier: AnyFrontier) -> None:
    await frontier.open_crawl("other", pace=UNLIMITED)
    await frontier.add("c", [link("1")])

    assert (await frontier.add("other", [link("1")])).new == 1
    assert sorted(lease.crawl for lease in await taken(frontier)) == ["c", "other"]


async def test_a_crawl_has_to_be_opened(bench: Bench) -> None:
    with pytest.raises(Misconfigured, match="nope"):
        await bench.frontier.add("nope", [link("1")])
    with pytest.raises(Misconfigured, match="nope"):
        await bench.frontier.counts("nope")


async def test_opening_says_whether_the_crawl_is_new(bench: Bench) -> None:
    assert not (await bench.frontier.open_crawl("c", state={"version": b"1"})).resumed
    assert (await bench.frontier.open_crawl("c", state={"version": b"2"})).resumed
    assert await bench.frontier.crawl_get("c", "version") == b"1"
    assert await bench.frontier.crawls() == ["c"]


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
    await frontier.open_crawl("c", pace=Pace(interval=1.0, burst=1, concurrency=10))
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


async def test_the_order_of_acceptance_is_never_mixed_up(frontier: AnyFrontier) -> None:
    """Releases and retries come back among those that have not been served yet."""
    await frontier.add("c", [link(str(number)) for number in range(6)])
    leases = await taken(frontier, 4)
    await frontier.settle([Settlement(leases[number], Released(), sent=False) for number in (3, 0, 2)])
    await frontier.add("c", [link("6")])

    assert paths(await taken(frontier)) == [f"a.test/{number}" for number in (0, 2, 3, 4, 5, 6)]


# --- pace ----------------------------------------------------------------------------------------


async def test_a_host_is_asked_once_per_interval(bench: Bench) -> None:
    frontier, clock = bench.frontier, bench.clock
    await frontier.open_crawl("c", pace=Pace(interval=2.0, burst=1, concurrency=10))
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
    await frontier.open_crawl("c", pace=Pace(interval=1.0, burst=3, concurrency=100))
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
    await frontier.open_crawl("c", pace=Pace(interval=0.0, burst=1, concurrency=2))
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


async def test_a_host_that_is_not_due_holds_nobody_up(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.open_crawl("c", pace=Pace(interval=10.0, burst=1, concurrency=10))
    await frontier.add("c", [link(str(number), priority=1) for number in range(100)])
    await frontier.add("c", [link("1", host="b.test", priority=9)])

    assert paths(await taken(frontier)) == ["a.test/0", "b.test/1"]


async def test_all_lanes_of_a_host_share_its_pace(bench: Bench) -> None:
    frontier, clock = bench.frontier, bench.clock
    await frontier.open_crawl("c", pace=Pace(interval=1.0, burst=1, concurrency=10))
    await frontier.open_crawl("d", pace=Pace(interval=1.0, burst=1, concurrency=10))
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
    await frontier.open_crawl("c", pace=Pace(interval=0.0, burst=9, concurrency=9))
    await frontier.open_crawl("d", pace=Pace(interval=4.0, burst=2, concurrency=3))
    await frontier.add("c", [link("1")])
    await frontier.add("d", [link("1")])

    [view] = await frontier.hosts()
    assert (view.interval, view.burst, view.concurrency) == (4.0, 2, 3)


async def test_a_crawl_that_is_opened_again_may_change_its_pace(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.open_crawl("c", pace=Pace(interval=10.0, burst=1, concurrency=1))
    await frontier.add("c", [link("1"), link("2")])
    await taken(frontier)
    await frontier.open_crawl("c", pace=UNLIMITED)

    assert len(await taken(frontier)) == 1


async def test_a_lease_tells_the_pace_it_was_given_under(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.open_crawl("c", pace=Pace(interval=0.5, burst=2, concurrency=4))
    await frontier.add("c", [link("1")])
    [lease] = await taken(frontier, ttl=30.0)

    assert (lease.interval, lease.burst, lease.leased_until) == (0.5, 2, START + 30.0)
    assert (lease.crawl, lease.host, lease.attempt, lease.crashes, lease.rests) == ("c", "a.test", 1, 0, 0)


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
    await frontier.open_crawl("d", pace=UNLIMITED)
    await frontier.add("c", [link("1")])
    await frontier.add("d", [link("2")])

    assert paths(await taken(frontier, crawls=["d"])) == ["a.test/2"]
    assert paths(await taken(frontier, crawls=["d", "c"])) == ["a.test/1"]


async def test_a_paused_crawl_is_left_alone(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    await frontier.pause("c")
    assert await frontier.lease(holder="w", limit=1, ttl=60.0) == Grant([], math.inf)
    await bench.kill()
    await bench.frontier.open_crawl("c")
    assert await taken(bench.frontier) == []
    await bench.frontier.resume("c")
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
    await bench.frontier.open_crawl("c")
    assert await taken(bench.frontier) == []


async def test_links_arrive_with_their_page(frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    [lease] = await taken(frontier)
    committed = await frontier.settle([Settlement(lease, Done(page()), [link("2"), link("1"), link("2")])])

    assert (committed.new, committed.duplicate) == (1, 2)
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
    assert (await frontier.counts("c")).accepted == 1  # a refused settlement brings no links


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
    await frontier.open_crawl("c", pace=Pace(interval=10.0, burst=2, concurrency=10))
    await frontier.add("c", [link(str(number)) for number in range(4)])
    first, second = await taken(frontier)
    await settle(frontier, first, Filtered(FailureClass.ROBOTS), sent=False)
    await settle(frontier, second, Done(page()))

    assert len(await taken(frontier)) == 1
    assert await taken(frontier) == []


async def test_a_turn_is_not_given_back_once_a_later_one_was_taken(bench: Bench) -> None:
    frontier, clock = bench.frontier, bench.clock
    await frontier.open_crawl("c", pace=Pace(interval=10.0, burst=1, concurrency=10))
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
    assert await bench.frontier.checkpoint("items.jsonl") == b"42"
    assert await bench.frontier.checkpoint("other") is None
    assert await bench.frontier.crawl_get("c", "cookies") == b"{}"
    assert await bench.frontier.crawl_get("c", "other") is None


async def test_values_of_a_crawl_can_be_replaced(frontier: AnyFrontier) -> None:
    await frontier.crawl_set("c", "spider", b"1")
    await frontier.crawl_set("c", "spider", b"2")

    assert await frontier.crawl_get("c", "spider") == b"2"


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
    assert (await frontier.counts("c")).retries == 1


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
    await bench.frontier.open_crawl("c")

    bench.clock.advance(49.0)
    assert await taken(bench.frontier) == []
    bench.clock.advance(1.0)
    assert len(await taken(bench.frontier)) == 3


async def test_a_delay_survives_a_restart(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    [lease] = await taken(frontier)
    await settle(frontier, lease, Retry(TIMEOUT, delay=4.0))
    await bench.kill()
    await bench.frontier.open_crawl("c")

    assert await states(bench.frontier) == {"delayed": 1}
    bench.clock.advance(4.0)
    [again] = await taken(bench.frontier)
    assert again.attempt == 2


# --- pages that wait to be parsed ----------------------------------------------------------------


async def test_a_fetched_page_ends_with_its_acknowledgement(frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1"), link("2")])
    first, second = await taken(frontier)
    await frontier.settle([Settlement(first, Fetched(page(1))), Settlement(second, Fetched(page(2)))])
    done = Acknowledgement("c", first.fingerprint, Done(page(1)), [link("3")])
    dead = Acknowledgement("c", second.fingerprint, Dead(BROKEN))
    await frontier.acknowledge([done, dead])

    assert await states(frontier) == {"waiting": 1, "done": 1, "dead": 1}
    [letter] = [letter async for letter in frontier.dead_letters("c")]
    assert letter.page == page(2)  # kept, so that it can be parsed again
    again = await frontier.acknowledge([done])
    assert again.refused == [done]
    assert again.new + again.duplicate == 0


async def test_a_page_may_be_fetched_and_acknowledged_in_one_commit(frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1"), link("2")])
    first, second = await taken(frontier)
    await frontier.commit(
        [Settlement(first, Fetched(page(1))), Settlement(second, Fetched(page(2)))],
        [
            Acknowledgement("c", first.fingerprint, Done(page(1))),
            Acknowledgement("c", second.fingerprint, Dead(BROKEN)),
        ],
    )

    assert await states(frontier) == {"done": 1, "dead": 1}


async def test_only_pages_can_be_acknowledged(frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    await taken(frontier)
    wrong = [
        Acknowledgement("c", link("1").fingerprint, Done(page())),
        Acknowledgement("c", 12345, Done(page())),
        Acknowledgement("nope", 1, Done(page())),
    ]

    assert (await frontier.acknowledge(wrong)).refused == wrong
    assert await states(frontier) == {"leased": 1}


async def test_pages_of_a_dead_process_are_handed_out_with_all_that_parsing_needs(
    bench: Bench, frontier: AnyFrontier
) -> None:
    await frontier.add("c", [link("1", depth=3)])
    [lease] = await taken(frontier)
    await settle(frontier, lease, Fetched(page(1)))
    assert [found async for found in frontier.parsing("c")] == []  # whoever fetched it is parsing it
    await bench.kill()
    await bench.frontier.open_crawl("c")

    [found] = [found async for found in bench.frontier.parsing("c")]
    assert (found.fingerprint, found.request, found.page) == (lease.fingerprint, lease.request, page(1))
    assert found.strikes == 1
    assert [found async for found in bench.frontier.parsing("c")] == []
    await bench.frontier.acknowledge([Acknowledgement("c", lease.fingerprint, Done(page(1)))])
    assert await states(bench.frontier) == {"done": 1}


async def test_pages_with_a_strike_are_handed_out_one_at_a_time(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link(str(number)) for number in range(3)])
    leases = await taken(frontier)
    await frontier.settle([Settlement(lease, Fetched(page())) for lease in leases])
    await bench.kill()
    frontier = bench.frontier
    await frontier.open_crawl("c")

    pages = frontier.parsing("c")
    first = await anext(pages)
    later = asyncio.ensure_future(anext(pages))
    await asyncio.sleep(0)
    assert not later.done()
    await frontier.acknowledge([Acknowledgement("c", first.fingerprint, Done(page()))])
    second = await later
    assert second.fingerprint != first.fingerprint
    await frontier.acknowledge([Acknowledgement("c", second.fingerprint, Done(page()))])
    third = await anext(pages)
    assert third.strikes == 1


async def test_only_what_was_being_parsed_is_charged_when_the_process_dies(
    bench: Bench, frontier: AnyFrontier
) -> None:
    await frontier.add("c", [link("1"), link("2")])
    await frontier.settle([Settlement(lease, Fetched(page())) for lease in await taken(frontier)])
    for _ in range(5):  # the first death charges both; the others find nobody parsing
        await bench.kill()
        await bench.frontier.open_crawl("c", max_crashes=3)

    found = await anext(bench.frontier.parsing("c"))
    assert found.strikes == 1
    await bench.kill()
    await bench.frontier.open_crawl("c")
    assert (await bench.frontier.counts("c")).crashes == 3


async def test_a_page_that_keeps_killing_its_process_is_poison(bench: Bench) -> None:
    await bench.frontier.open_crawl("c", pace=UNLIMITED, max_crashes=3)
    await bench.frontier.add("c", [link("1")])
    [lease] = await taken(bench.frontier)
    await settle(bench.frontier, lease, Fetched(page(1)))
    for strikes in (1, 2):
        await bench.kill()
        await bench.frontier.open_crawl("c")
        assert (await anext(bench.frontier.parsing("c"))).strikes == strikes
    await bench.kill()
    await bench.frontier.open_crawl("c")

    assert await states(bench.frontier) == {"dead": 1}
    [letter] = [letter async for letter in bench.frontier.dead_letters("c")]
    assert (letter.kind, letter.page) == (FailureClass.POISON, page(1))
    assert letter.reason == "the process died 3 times while parsing it"


# --- leases that run out -------------------------------------------------------------------------


async def test_an_expired_lease_is_handed_out_again(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    [lost] = await taken(frontier, ttl=10.0)
    bench.clock.advance(10.0)
    [again] = await taken(frontier)

    assert again.request == lost.request
    assert (again.attempt, again.crashes) == (2, 1)
    assert again.token > lost.token
    late = await frontier.settle([Settlement(lost, Done(page()), [link("2")])])
    assert late.stale == [lost]
    assert await states(frontier) == {"leased": 1}
    assert (await frontier.counts("c")).crashes == 1


async def test_a_late_settlement_counts_as_long_as_nobody_reclaimed_the_lease(
    bench: Bench, frontier: AnyFrontier
) -> None:
    await frontier.add("c", [link("1"), link("2")])
    first, second = await taken(frontier, ttl=10.0)
    bench.clock.advance(11.0)

    assert frontier.holds(first)
    await settle(frontier, first, Done(page()))
    assert await frontier.reclaim() == 1
    assert not frontier.holds(second)


async def test_a_reclaimed_request_waits_one_class_lower(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1", priority=5)])
    await taken(frontier, ttl=10.0)
    bench.clock.advance(10.0)
    assert await frontier.reclaim() == 1
    await frontier.add("c", [link("2", priority=5), link("3", priority=7)])

    assert paths(await taken(frontier)) == ["a.test/2", "a.test/1", "a.test/3"]


async def test_an_extended_lease_does_not_run_out(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1"), link("2")])
    first, second = await taken(frontier, ttl=10.0)
    bench.clock.advance(8.0)
    [renewed] = await frontier.extend([first], 10.0)
    assert renewed.leased_until == START + 18.0
    bench.clock.advance(2.0)

    assert await frontier.reclaim() == 1
    assert [frontier.holds(first), frontier.holds(second)] == [True, False]
    assert await frontier.extend([second, renewed], 10.0) == [replace(renewed, leased_until=START + 20.0)]
    await settle(frontier, renewed, Done(page()))  # under either copy of the lease


async def test_extending_never_brings_a_deadline_nearer(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    [lease] = await taken(frontier, ttl=100.0)
    [same] = await frontier.extend([lease], 1.0)

    assert same.leased_until == START + 100.0


async def test_a_request_that_outlives_its_holders_is_poison(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.open_crawl("c", pace=UNLIMITED, max_crashes=3)
    await frontier.add("c", [link("1")])
    for _ in range(3):
        await taken(frontier, ttl=10.0, holder="worker-7")
        bench.clock.advance(10.0)
    assert await taken(frontier) == []

    assert await states(frontier) == {"dead": 1}
    assert (await frontier.counts("c")).dead_by_class == {"poison": 1}
    [letter] = [letter async for letter in frontier.dead_letters("c")]
    assert (letter.kind, letter.attempts, letter.crashes) == (FailureClass.POISON, 3, 3)
    assert (letter.first_at, letter.died_at, letter.holder) == (START, START + 30.0, "worker-7")


async def test_a_holder_has_one_suspect_at_a_time(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link(str(number)) for number in range(4)])
    await taken(frontier, ttl=10.0)
    bench.clock.advance(10.0)
    await frontier.add("c", [link("fresh", priority=9)])

    mine = await taken(frontier)
    assert paths(mine) == ["a.test/0", "a.test/fresh"]
    assert await taken(frontier) == []
    [other] = await taken(frontier, holder="somebody else")
    assert paths([other]) == ["a.test/1"]
    await settle(frontier, mine[0], Done(page()))
    assert paths(await taken(frontier)) == ["a.test/2"]


async def test_a_poisonous_request_does_not_take_its_neighbours_along(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.open_crawl("c", pace=UNLIMITED, max_crashes=3)
    await frontier.add("c", [link(f"{number}{'-poison' if number == 7 else ''}") for number in range(20)])

    for _ in range(200):
        leases = await taken(frontier, 8, ttl=10.0)
        if any(lease.request.url.endswith("poison") for lease in leases):
            bench.clock.advance(10.0)  # the holder dies, and everything that it held runs out
        elif leases:
            await frontier.settle([Settlement(lease, Done(page())) for lease in leases])
        elif (await frontier.counts("c")).open == 0:
            break

    assert await states(frontier) == {"done": 19, "dead": 1}
    [letter] = [letter async for letter in frontier.dead_letters("c")]
    assert letter.request.url.endswith("7-poison")


# --- hosts ---------------------------------------------------------------------------------------


async def test_a_host_can_be_paused_and_stays_so(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1"), link("1", host="b.test")])
    assert (await frontier.host_set("a.test", paused=True)).paused
    assert paths(await taken(frontier)) == ["b.test/1"]
    await bench.kill()
    await bench.frontier.open_crawl("c")
    assert paths(await taken(bench.frontier)) == ["b.test/1"]
    await bench.frontier.host_set("a.test", paused=False)
    assert paths(await taken(bench.frontier)) == ["a.test/1"]


async def test_a_host_can_be_rested(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    await frontier.host_set("a.test", rest_until=START + 5.0)

    assert (await frontier.lease(holder="w", limit=1, ttl=60.0)).wait == 5.0
    await frontier.host_set("a.test", rest_until=0.0)
    assert len(await taken(frontier)) == 1


async def test_a_host_can_have_a_pace_of_its_own(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.host_set("a.test", interval=3.0, burst=2, concurrency=5)  # before anybody has heard of it
    await frontier.add("c", [link(str(number)) for number in range(9)])
    assert len(await taken(frontier)) == 2
    await bench.kill()
    await bench.frontier.open_crawl("c", pace=UNLIMITED)
    view = await bench.frontier.host_get("a.test")
    assert view is not None
    assert (view.interval, view.burst, view.concurrency) == (3.0, 2, 5)


async def test_a_crawl_delay_is_obeyed_only_if_it_is_slower(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.open_crawl("c", pace=Pace(interval=2.0, burst=3, concurrency=9))
    await frontier.add("c", [link(str(number)) for number in range(9)])

    assert (await frontier.host_set("a.test", crawl_delay=1.0)).interval == 2.0
    view = await frontier.host_set("a.test", crawl_delay=10.0)
    assert (view.interval, view.burst, view.crawl_delay) == (10.0, 1, 10.0)
    await bench.kill()
    await bench.frontier.open_crawl("c")
    [view] = await bench.frontier.hosts()
    assert (view.interval, view.burst) == (10.0, 1)


async def test_a_host_that_pushes_back_is_asked_less_often(bench: Bench) -> None:
    frontier, clock = bench.frontier, bench.clock
    rules = SlowdownRules(threshold=0.02, reach=9.0, at_least=4, window=8)
    await frontier.open_crawl("c", pace=Pace(interval=1.0, burst=2, concurrency=9), slowdown=rules)
    await frontier.add("c", [link(str(number)) for number in range(60)])

    async def answers(count: int, *, blocked: bool) -> None:
        for _ in range(count):
            clock.advance(20.0)
            [lease, *_] = await taken(frontier, 1)
            outcome = Dead(BLOCKED) if blocked else Done(page())
            await settle(frontier, lease, outcome, blocked=blocked)

    await answers(3, blocked=False)
    [view] = await frontier.hosts()
    assert view.slow == 1.0
    await answers(1, blocked=True)
    [view] = await frontier.hosts()
    assert 9.9 < view.slow <= 10.0
    assert view.interval == pytest.approx(view.slow)
    assert view.burst == 1
    assert view.failures == 1

    await bench.kill()
    frontier = bench.frontier
    await frontier.open_crawl("c")
    [kept] = await frontier.hosts()
    assert kept.slow == view.slow
    await answers(3, blocked=False)  # too few to say that it is over
    assert (await frontier.hosts())[0].slow == view.slow
    await answers(1, blocked=False)
    [recovered] = await frontier.hosts()
    assert (recovered.slow, recovered.interval, recovered.burst) == (1.0, 1.0, 2)


async def test_silence_is_not_push_back(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.open_crawl("c", pace=UNLIMITED, slowdown=SlowdownRules(at_least=2, window=4))
    await frontier.add("c", [link(str(number)) for number in range(9)])
    first, second, third, *others = await taken(frontier)
    await settle(frontier, first, Dead(BLOCKED), blocked=True)
    for lease in others:
        await settle(frontier, lease, Retry(TIMEOUT, delay=1.0))
    assert (await frontier.hosts())[0].slow == 1.0  # one answer in all
    await settle(frontier, second, Released(), sent=False)
    assert (await frontier.hosts())[0].slow == 1.0
    await settle(frontier, third, Gone(404))
    assert (await frontier.hosts())[0].slow > 1.0  # one of two answers was a block


async def test_a_change_of_pace_leaves_no_credit(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link(str(number)) for number in range(9)])
    await frontier.host_set("a.test", interval=1.0, burst=5)
    await taken(frontier, 1)
    await frontier.host_set("a.test", interval=10.0, burst=5)

    assert (await frontier.lease(holder="w", limit=9, ttl=60.0)).wait == 10.0
    bench.clock.advance(10.0)
    assert len(await taken(frontier)) == 1


async def test_after_a_restart_every_host_rests_one_interval(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.open_crawl("c", pace=Pace(interval=2.0, burst=3, concurrency=9))
    await frontier.add("c", [link(str(number)) for number in range(9)])
    await bench.kill()
    frontier = bench.frontier
    await frontier.open_crawl("c")

    assert (await frontier.lease(holder="w", limit=9, ttl=60.0)).wait == 2.0
    bench.clock.advance(2.0)
    assert len(await taken(frontier)) == 1
    bench.clock.advance(100.0)
    assert len(await taken(frontier, ttl=1000.0)) == 3


async def test_a_view_of_the_hosts_shows_what_goes_on(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.open_crawl("c", pace=Pace(interval=2.0, burst=1, concurrency=4))
    await frontier.add("c", [link("1"), link("2"), link("3", pool="browser"), link("1", host="b.test")])
    [lease, *_] = await taken(frontier)
    await settle(frontier, lease, Retry(TIMEOUT, delay=1.0))

    views = {view.host: view for view in await frontier.hosts()}
    assert sorted(views) == ["a.test", "b.test"]
    assert (views["a.test"].waiting, views["a.test"].inflight, views["a.test"].failures) == (2, 0, 1)
    assert views["a.test"].next_turn == START + 2.0
    assert views["b.test"].inflight == 1
    assert await frontier.host_get("c.test") is None


# --- the death of the owner ----------------------------------------------------------------------


async def test_what_was_leased_waits_again_with_a_crash_on_its_account(
    bench: Bench, frontier: AnyFrontier
) -> None:
    await frontier.add("c", [link(str(number)) for number in range(4)])
    leases = await taken(frontier, 3)
    await settle(frontier, leases[0], Done(page()))
    await settle(frontier, leases[1], Released(), sent=False)
    await bench.kill()
    frontier = bench.frontier
    assert (await frontier.open_crawl("c")).resumed

    assert await states(frontier) == {"waiting": 3, "done": 1}
    assert (await frontier.counts("c")).crashes == 1  # what was released was in nobody's hands
    again = await taken(frontier)
    assert paths(again) == ["a.test/1", "a.test/3", "a.test/2"]
    assert [lease.crashes for lease in again] == [0, 0, 1]


async def test_leases_of_an_earlier_life_are_refused(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    [old] = await taken(frontier)
    await bench.kill()
    frontier = bench.frontier
    await frontier.open_crawl("c")
    assert not frontier.holds(old)
    [new] = await taken(frontier)

    assert new.token > old.token
    assert (await frontier.settle([Settlement(old, Done(page()))])).stale == [old]
    assert await frontier.extend([old], 60.0) == []
    frontier.landed([old])
    await settle(frontier, new, Done(page()))


async def test_a_crash_is_charged_once(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    await taken(frontier)
    for _ in range(4):
        await bench.kill()
    await bench.frontier.open_crawl("c")

    [again] = await taken(bench.frontier)
    assert (again.attempt, again.crashes) == (2, 1)


async def test_owners_that_keep_dying_make_a_request_poison(bench: Bench) -> None:
    await bench.frontier.open_crawl("c", pace=UNLIMITED, max_crashes=2)
    await bench.frontier.add("c", [link("1")])
    for _ in range(2):
        await taken(bench.frontier, holder="w")
        await bench.kill()
        await bench.frontier.open_crawl("c")

    assert await states(bench.frontier) == {"dead": 1}
    [letter] = [letter async for letter in bench.frontier.dead_letters("c")]
    assert (letter.kind, letter.attempts, letter.crashes, letter.holder) == (FailureClass.POISON, 2, 2, "w")


async def test_what_was_seen_stays_seen(bench: Bench, frontier: AnyFrontier) -> None:
    links = [link(str(number)) for number in range(2000)]
    await frontier.add("c", links)
    await bench.kill()
    await bench.frontier.open_crawl("c")

    added = await bench.frontier.add("c", [*links, link("new")])
    assert (added.new, added.duplicate) == (1, 2000)
    counts = await bench.frontier.counts("c")
    assert (counts.accepted, counts.duplicate) == (2001, 2000)


# --- dead letters --------------------------------------------------------------------------------


async def test_a_dead_letter_tells_everything(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1", depth=2)])
    [lease] = await taken(frontier, holder="w1")
    await settle(frontier, lease, Retry(TIMEOUT, delay=1.0))
    bench.clock.advance(5.0)
    [lease] = await taken(frontier, holder="w2")
    bench.clock.advance(1.0)
    await settle(frontier, lease, Dead(BLOCKED))

    [letter] = [letter async for letter in frontier.dead_letters("c")]
    assert (letter.crawl, letter.host, letter.request) == ("c", "a.test", lease.request)
    assert (letter.kind, letter.reason, letter.status) == (FailureClass.IP_BLOCKED, "403", 403)
    assert (letter.attempts, letter.crashes, letter.holder, letter.page) == (2, 0, "w2", None)
    assert (letter.first_at, letter.died_at) == (START, START + 6.0)
    assert letter.trace == f"{lease.fingerprint:016x}"


async def test_dead_letters_can_be_chosen_and_come_latest_first(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link(str(number), host=f"{number % 2}.test") for number in range(600)])
    leases = sorted(await taken(frontier, 600), key=lambda lease: int(lease.request.url.rsplit("/")[-1]))
    for number, lease in enumerate(leases):
        await settle(frontier, lease, Dead(TIMEOUT if number < 300 else BLOCKED))
        bench.clock.advance(0.5)

    everything = [letter async for letter in frontier.dead_letters("c")]
    assert [letter.fingerprint for letter in everything] == [lease.fingerprint for lease in reversed(leases)]
    chosen = frontier.dead_letters("c", kinds=[FailureClass.TIMEOUT], host="1.test", limit=3)
    assert [letter.request.url async for letter in chosen] == [
        f"https://1.test/{number}" for number in (299, 297, 295)
    ]
    assert (await frontier.counts("c")).dead_by_class == {"timeout": 300, "ip_blocked": 300}


async def test_replayed_letters_wait_with_a_clean_slate(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link(str(number)) for number in range(4)])
    leases = await taken(frontier, ttl=10.0)
    await settle(frontier, leases[0], Dead(BLOCKED))
    for lease in leases[1:]:
        await settle(frontier, lease, Retry(TIMEOUT, delay=0.0))
    for lease in await taken(frontier):
        await settle(frontier, lease, Dead(TIMEOUT))
    assert await frontier.replay("c", kinds=[FailureClass.TIMEOUT], limit=2) == 2

    assert await states(frontier) == {"waiting": 2, "dead": 2}
    assert (await frontier.counts("c")).dead_by_class == {"timeout": 1, "ip_blocked": 1}
    again = await taken(frontier)
    assert paths(again) == ["a.test/1", "a.test/2"]
    assert {(lease.attempt, lease.crashes) for lease in again} == {(1, 0)}
    assert await frontier.replay("c", fingerprints=[leases[0].fingerprint]) == 1
    assert await frontier.replay("c", host="elsewhere.test") == 0
    for lease in (*again, *await taken(frontier)):
        await settle(frontier, lease, Done(page()))
    await bench.kill()
    await bench.frontier.open_crawl("c")
    assert await states(bench.frontier) == {"done": 3, "dead": 1}


async def test_a_letter_that_died_twice_has_one_grave(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    for _ in range(3):
        [lease] = await taken(frontier)
        await settle(frontier, lease, Dead(TIMEOUT))
        assert await states(frontier) == {"dead": 1}
        await frontier.replay("c")

    assert await states(frontier) == {"waiting": 1}
    assert (await frontier.counts("c")).dead_by_class == {}


async def test_a_letter_whose_page_is_kept_is_parsed_again(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1"), link("2"), link("3")])
    first, second, third = await taken(frontier)
    await settle(frontier, first, Dead(BROKEN, page(1)))
    await settle(frontier, second, Dead(Failure(FailureClass.POISON, "killed its parser"), page(2)))
    await settle(frontier, third, Dead(Failure(FailureClass.POISON, "killed its worker")))
    assert await frontier.replay("c") == 3

    assert await states(frontier) == {"waiting": 1, "parsing": 2}
    found = [found async for found in frontier.parsing("c")]
    assert [(one.fingerprint, one.page, one.strikes) for one in found] == [
        (first.fingerprint, page(1), 0),
        (second.fingerprint, page(2), 0),
    ]
    await frontier.acknowledge([Acknowledgement("c", one.fingerprint, Done(one.page)) for one in found])
    assert await states(frontier) == {"waiting": 1, "done": 2}


# --- generations ---------------------------------------------------------------------------------


async def crawled(bench: Bench, outcomes: dict[str, Outcome]) -> None:
    """Crawl these paths as crawl `c` and let the owner go."""
    await bench.frontier.open_crawl("c", pace=UNLIMITED)
    await bench.frontier.add("c", [link(path) for path in outcomes])
    for lease in await taken(bench.frontier):
        path = lease.request.url.removeprefix("https://a.test/")
        await settle(bench.frontier, lease, outcomes[path])
    await bench.kill()


async def test_a_dropped_crawl_begins_anew(bench: Bench) -> None:
    await crawled(bench, {"1": Done(page(1)), "2": Dead(TIMEOUT), "3": Fetched(page(3))})
    await bench.frontier.commit(checkpoints={"items.jsonl": b"9", "other": b"1"})
    assert await bench.frontier.drop_crawl("c", forget=["items.jsonl"])
    assert not await bench.frontier.drop_crawl("c")
    assert await bench.frontier.crawls() == []

    assert not (await bench.frontier.open_crawl("c", pace=UNLIMITED, state={"version": b"2"})).resumed
    assert (await bench.frontier.counts("c")).accepted == 0
    assert [letter async for letter in bench.frontier.dead_letters("c")] == []
    assert (await bench.frontier.add("c", [link("1"), link("2"), link("3")])).new == 3
    assert paths(await taken(bench.frontier)) == ["a.test/1", "a.test/2", "a.test/3"]
    assert await bench.frontier.checkpoint("items.jsonl") is None
    assert await bench.frontier.checkpoint("other") == b"1"
    assert await bench.frontier.crawl_get("c", "version") == b"2"


async def test_an_open_crawl_cannot_be_dropped(frontier: AnyFrontier) -> None:
    with pytest.raises(Misconfigured, match="open"):
        await frontier.drop_crawl("c")


async def test_the_next_generation_can_ask_what_has_changed(bench: Bench) -> None:
    await crawled(bench, {"1": Done(page(1)), "2": Done(page(2)), "3": Gone(404)})
    await bench.frontier.drop_crawl("c")
    await bench.frontier.open_crawl("c")

    fps = [link(path).fingerprint for path in ("1", "2", "3", "4")]
    found = await bench.frontier.validators("c", fps)
    assert set(found) == set(fps[:2])
    kept = found[fps[0]]
    assert (kept.etag, kept.modified, kept.digest, kept.ref) == (
        '"1"',
        page().modified,
        "sha1:1",
        page(1).ref,
    )
    await bench.frontier.open_crawl("other")
    assert await bench.frontier.validators("other", fps) == {}


async def test_a_finished_generation_replaces_the_one_before(bench: Bench) -> None:
    await crawled(bench, {"1": Done(page(1)), "2": Done(page(2))})
    await bench.frontier.drop_crawl("c")
    await crawled(bench, {"2": Done(page(20))})
    await bench.frontier.drop_crawl("c")
    await bench.frontier.open_crawl("c")

    found = await bench.frontier.validators("c", [link("1").fingerprint, link("2").fingerprint])
    assert {fp: kept.etag for fp, kept in found.items()} == {link("2").fingerprint: '"20"'}


async def test_a_generation_that_was_cut_short_adds_to_the_one_before(bench: Bench) -> None:
    await crawled(bench, {"1": Done(page(1)), "2": Done(page(2))})
    await bench.frontier.drop_crawl("c")
    await crawled(bench, {"2": Done(page(20)), "3": Released()})
    await bench.frontier.drop_crawl("c")
    await bench.frontier.open_crawl("c")

    found = await bench.frontier.validators("c", [link("1").fingerprint, link("2").fingerprint])
    assert sorted(kept.etag for kept in found.values()) == ['"1"', '"20"']


async def test_pages_can_be_listed(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link(str(number)) for number in range(700)])
    for number, lease in enumerate(await taken(frontier, 700)):
        outcomes: list[Outcome] = [
            Done(page(number, items=2, links=3)),
            Fetched(page(number)),
            Dead(BROKEN, page(number)),
            Gone(404),
        ]
        await settle(frontier, lease, outcomes[number % 4])

    pages = {fp: record async for fp, record in frontier.pages("c")}
    assert len(pages) == 525
    assert pages[link("400").fingerprint] == page(400, items=2, links=3)


# --- robots --------------------------------------------------------------------------------------


async def test_robots_txt_is_remembered_until_it_expires(bench: Bench) -> None:
    await bench.frontier.robots_set("a.test", expires=START + 10.0, status=200, body=b"Disallow: /")
    await bench.kill()

    known = await bench.frontier.robots_get("a.test")
    assert known is not None
    assert (known.expires, known.status, known.body) == (START + 10.0, 200, b"Disallow: /")
    assert await bench.frontier.robots_get("b.test") is None
    bench.clock.advance(10.0)
    assert await bench.frontier.robots_get("a.test") is None
    await bench.frontier.robots_set("a.test", expires=START + 99.0, status=404, body=b"")
    again = await bench.frontier.robots_get("a.test")
    assert again is not None
    assert again.status == 404


# --- the clock -----------------------------------------------------------------------------------


async def test_a_clock_that_is_set_back_holds_nobody_up_for_longer_than_a_turn(bench: Bench) -> None:
    frontier, clock = bench.frontier, bench.clock
    await frontier.open_crawl("c", pace=Pace(interval=2.0, burst=1, concurrency=9))
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
    await frontier.open_crawl("c", pace=Pace(interval=2.0, burst=1, concurrency=9))
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
