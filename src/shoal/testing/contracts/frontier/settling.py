"""Settling leases: outcomes, links, turns, commits and retries."""

import math

import msgspec
import pytest

from shoal.frontier.contract import Frontier
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
from shoal.testing.contracts.frontier.bench import (
    TIMEOUT,
    UNLIMITED,
    FrontierBench,
    link,
    page,
    paths,
    settle,
    states,
    take,
)


class SettlingContract:
    async def test_what_robots_txt_filtered_can_be_queued_again_once(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        links = [link(str(number)) for number in range(5)]
        await frontier.add("c", links)
        robots, other, gone, *kept = await take(frontier, 5)
        await settle(frontier, robots, Filtered(FailureClass.ROBOTS))
        await settle(frontier, other, Filtered(FailureClass.SCOPE))
        await settle(frontier, gone, Gone(404))
        for lease in kept:
            await settle(frontier, lease, Done(page()))

        never_seen = link("9")
        assert await frontier.readmit("c", [*links, *links, never_seen]) == 1
        assert await frontier.readmit("c", links) == 0

        assert (await frontier.add("c", [*links, never_seen])).new == 1
        counts = await frontier.reader.counts("c")
        assert (counts.accepted, counts.waiting, counts.filtered) == (6, 2, 1)
        assert counts.filtered_by_rule == {"scope": 1}
        again = next(lease for lease in await take(frontier, 5) if lease.fingerprint == robots.fingerprint)
        assert (again.request, again.attempt) == (robots.request, 1)
        await settle(frontier, again, Filtered(FailureClass.ROBOTS))
        assert await frontier.readmit("c", links) == 1

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
    async def test_an_outcome_leads_to_its_state(
        self, frontier: Frontier, outcome: Outcome, state: str
    ) -> None:
        await frontier.add("c", [link("1")])
        [lease] = await take(frontier)
        assert await states(frontier) == {"leased": 1}
        await settle(frontier, lease, outcome)

        assert await states(frontier) == {state: 1}

    async def test_an_ended_request_is_never_leased_again(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link(str(number)) for number in range(5)])
        outcomes: list[Outcome] = [
            Done(page()),
            Fetched(page()),
            Gone(410),
            Dead(TIMEOUT),
            Filtered(FailureClass.ROBOTS),
        ]
        for lease, outcome in zip(await take(frontier), outcomes, strict=True):
            await settle(frontier, lease, outcome)
        bench.clock.advance(1e6)

        assert await frontier.lease(holder="w", limit=9, ttl=60.0) == Grant([], math.inf)
        await bench.kill()
        await bench.frontier.crawls.open("c")
        assert await take(bench.frontier) == []

    @pytest.mark.parametrize(
        "outcome",
        [
            Retry(TIMEOUT, delay=0.0, charged=False),
            Retry(TIMEOUT, delay=5.0),
            Released(),
            Released(delay=5.0),
        ],
        ids=str,
    )
    async def test_a_request_can_be_tried_next_in_another_pool(
        self, bench: FrontierBench, frontier: Frontier, outcome: Retry | Released
    ) -> None:
        await frontier.add("c", [link("1"), link("2")])
        first, second = await take(frontier)
        moved = msgspec.structs.replace(first.request, pool="browser", data={"n": 1})
        await settle(frontier, first, msgspec.structs.replace(outcome, instead=moved))
        await settle(frontier, second, Done(page()))
        assert (await frontier.add("c", [link("1")])).duplicate == 1  # its identity is the same
        bench.clock.advance(10.0)

        assert await take(frontier) == []
        [lease] = await take(frontier, pools=("browser",))
        assert (lease.request, lease.fingerprint) == (moved, first.fingerprint)
        is_charged = isinstance(outcome, Retry) and outcome.charged
        assert (lease.attempt, lease.rests) == (
            1 + is_charged,
            int(isinstance(outcome, Retry) and not is_charged),
        )
        await settle(frontier, lease, Done(page()))
        assert await states(frontier) == {"done": 2}

    async def test_a_request_that_has_changed_pools_is_there_after_a_kill(self, bench: FrontierBench) -> None:
        await bench.frontier.crawls.open("c", pace=UNLIMITED)
        await bench.frontier.add("c", [link("1")])
        [lease] = await take(bench.frontier)
        moved = msgspec.structs.replace(lease.request, pool="browser")
        await settle(bench.frontier, lease, Released(instead=moved))
        await bench.kill()
        await bench.frontier.crawls.open("c", pace=UNLIMITED)
        bench.clock.advance(10.0)

        assert await take(bench.frontier) == []
        [again] = await take(bench.frontier, pools=("browser",))
        assert again.request == moved
        assert (await bench.frontier.reader.audit("c")).problems == []

    async def test_links_are_added_with_the_settlement_of_their_page(self, frontier: Frontier) -> None:
        await frontier.add("c", [link("1")])
        [lease] = await take(frontier)
        committed = await frontier.settle(
            [Settlement(lease, Done(page()), [link("2"), link("1"), link("2")])]
        )

        assert (committed.new, committed.duplicate) == (1, 2)
        assert paths(await take(frontier)) == ["a.test/2"]

    @pytest.mark.parametrize("outcome", [Dead(TIMEOUT), Gone(404)])
    async def test_links_are_added_with_the_settlement_of_a_failed_request(
        self, frontier: Frontier, outcome: Outcome
    ) -> None:
        await frontier.add("c", [link("1")])
        [lease] = await take(frontier)
        committed = await frontier.settle([Settlement(lease, outcome, [link("2"), link("1")])])

        assert (committed.new, committed.duplicate) == (1, 1)
        assert paths(await take(frontier)) == ["a.test/2"]

    async def test_links_are_added_with_the_acknowledgement_of_an_unparsable_page(
        self, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1")])
        [lease] = await take(frontier)
        await settle(frontier, lease, Fetched(page()))
        unparsable = Dead(Failure(FailureClass.PARSE_ERROR, "it raised"), page())
        committed = await frontier.acknowledge(
            [Acknowledgement("c", lease.fingerprint, unparsable, [link("2")])]
        )

        assert committed.new == 1
        assert paths(await take(frontier)) == ["a.test/2"]

    async def test_a_settlement_is_accepted_once(self, frontier: Frontier) -> None:
        await frontier.add("c", [link("1")])
        [lease] = await take(frontier)
        assert frontier.holds(lease)
        twice = await frontier.settle(
            [Settlement(lease, Done(page())), Settlement(lease, Gone(404), [link("2")])]
        )
        late = await frontier.settle([Settlement(lease, Dead(TIMEOUT), [link("3")])])

        assert not frontier.holds(lease)
        assert (twice.stale, late.stale) == ([lease], [lease])
        assert await states(frontier) == {"done": 1}
        assert (await frontier.reader.counts("c")).accepted == 1  # a rejected settlement adds no links

    async def test_the_leases_of_a_batch_can_be_settled_one_by_one(self, frontier: Frontier) -> None:
        await frontier.add("c", [link(str(number)) for number in range(4)])
        leases = await take(frontier)
        assert len({lease.token for lease in leases}) == 1
        for lease in reversed(leases):
            await settle(frontier, lease, Done(page()))

        assert await states(frontier) == {"done": 4}

    async def test_a_released_request_keeps_its_place_and_its_attempts(self, frontier: Frontier) -> None:
        await frontier.add("c", [link("1"), link("2", priority=6), link("3", priority=6)])
        first, second, third = await take(frontier)
        await settle(frontier, third, Released(), sent=False)
        await settle(frontier, second, Released(), sent=False)
        await settle(frontier, first, Released(), sent=False)

        again = await take(frontier)
        assert paths(again) == ["a.test/1", "a.test/2", "a.test/3"]
        assert {(lease.attempt, lease.crashes, lease.rests) for lease in again} == {(1, 0, 0)}
        assert not frontier.holds(first)

    async def test_a_request_that_was_never_sent_returns_its_turn(self, bench: FrontierBench) -> None:
        frontier = bench.frontier
        await frontier.crawls.open("c", pace=Pace(interval=10.0, burst=2, concurrency=10))
        await frontier.add("c", [link(str(number)) for number in range(4)])
        first, second = await take(frontier)
        await settle(frontier, first, Filtered(FailureClass.ROBOTS), sent=False)
        await settle(frontier, second, Done(page()))

        assert len(await take(frontier)) == 1
        assert await take(frontier) == []

    async def test_a_turn_is_not_returned_after_a_later_one_was_taken(self, bench: FrontierBench) -> None:
        frontier, clock = bench.frontier, bench.clock
        await frontier.crawls.open("c", pace=Pace(interval=10.0, burst=1, concurrency=10))
        await frontier.add("c", [link(str(number)) for number in range(4)])
        [first] = await take(frontier)
        clock.advance(10.0)
        [_] = await take(frontier)
        await settle(frontier, first, Released(), sent=False)

        assert await take(frontier) == []  # otherwise two requests would be sent at the same instant

    async def test_one_commit_settles_acknowledges_and_stores_checkpoints(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1"), link("2")])
        first, second = await take(frontier)
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

    async def test_values_of_a_crawl_can_be_replaced(self, frontier: Frontier) -> None:
        await frontier.crawls.set_value("c", "spider", b"1")
        await frontier.crawls.set_value("c", "spider", b"2")

        assert await frontier.reader.value("c", "spider") == b"2"

    async def test_a_retry_waits_for_its_delay_and_counts_attempts(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1")])
        [lease] = await take(frontier)
        await settle(frontier, lease, Retry(TIMEOUT, delay=4.0))

        bench.clock.advance(3.9)
        assert await take(frontier) == []
        bench.clock.advance(0.1)
        assert await states(frontier) == {"waiting": 1}  # a delay ends without a call
        [again] = await take(frontier)
        assert (again.attempt, again.rests, again.crashes) == (2, 0, 0)
        assert again.token != lease.token
        assert (await frontier.reader.counts("c")).retries == 1

    async def test_each_attempt_costs_one_priority_class(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1", priority=5)])
        [lease] = await take(frontier)
        await settle(frontier, lease, Retry(TIMEOUT, delay=1.0))
        await frontier.add("c", [link("same", priority=6), link("better", priority=5)])
        bench.clock.advance(1.0)

        # Within class 6 the retry goes first: it was accepted before the other.
        assert paths(await take(frontier)) == ["a.test/better", "a.test/1", "a.test/same"]

    async def test_an_uncharged_retry_rests_the_host_and_costs_no_attempt(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1"), link("2"), link("x", host="b.test")])
        [first, *_] = await take(frontier, 1)
        busy = Failure(FailureClass.RATE_LIMITED, "429", status=429, retry_after=30.0)
        await settle(frontier, first, Retry(busy, delay=30.0, charged=False, rest=30.0))

        assert paths(await take(frontier)) == ["b.test/x"]  # all requests of the host wait
        assert (await frontier.lease(holder="w", limit=1, ttl=60.0)).wait == 30.0
        bench.clock.advance(30.0)
        [other] = await take(frontier)  # too little is known of the host: others go first
        bench.clock.advance(3.0)
        [again] = await take(frontier)
        assert paths([other, again]) == ["a.test/2", "a.test/1"]
        assert (again.attempt, again.rests) == (1, 1)

    async def test_a_rest_survives_a_restart_and_is_never_shortened(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1"), link("2"), link("3")])
        first, second, _ = await take(frontier)
        busy = Failure(FailureClass.RATE_LIMITED, "429", status=429)
        await settle(frontier, first, Retry(busy, delay=50.0, charged=False, rest=50.0))
        await settle(frontier, second, Retry(busy, delay=20.0, charged=False, rest=20.0))
        await bench.kill()
        await bench.frontier.crawls.open("c")

        bench.clock.advance(49.0)
        assert await take(bench.frontier) == []
        bench.clock.advance(1.0)
        assert len(await take(bench.frontier)) == 1
        bench.clock.advance(1.0)  # 429 also slows a host down
        assert len(await take(bench.frontier)) == 1

    async def test_a_delay_survives_a_restart(self, bench: FrontierBench, frontier: Frontier) -> None:
        await frontier.add("c", [link("1")])
        [lease] = await take(frontier)
        await settle(frontier, lease, Retry(TIMEOUT, delay=4.0))
        await bench.kill()
        await bench.frontier.crawls.open("c")

        assert await states(bench.frontier) == {"delayed": 1}
        bench.clock.advance(4.0)
        [again] = await take(bench.frontier)
        assert again.attempt == 2
