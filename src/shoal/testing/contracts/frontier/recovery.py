"""The frontier's contract: leases that run out, owners that die, pages and requests that keep killing them."""

import asyncio

import msgspec
import pytest
from tests.contract.clock import START
from tests.contract.frontiers import (
    BROKEN,
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

from shoal.model.failure import FailureClass
from shoal.model.outcome import (
    Acknowledgement,
    Dead,
    Done,
    Fetched,
    Released,
    Settlement,
)

BY_ITS_BUS = "its bus hands pages out, counts deliveries and notices dead parsers"

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
    assert (await frontier.reader.counts("c")).crashes == 1


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


async def test_an_extended_lease_runs_out_later(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1"), link("2")])
    first, second = await taken(frontier, ttl=10.0)
    bench.clock.advance(8.0)
    [renewed] = await frontier.extend([first], 10.0)
    assert renewed.leased_until == START + 18.0
    bench.clock.advance(2.0)

    assert await frontier.reclaim() == 1
    assert [frontier.holds(first), frontier.holds(second)] == [True, False]
    assert await frontier.extend([second, renewed], 10.0) == [
        msgspec.structs.replace(renewed, leased_until=START + 20.0)
    ]
    bench.clock.advance(9.0)
    assert await frontier.reclaim() == 0
    bench.clock.advance(1.0)
    assert await frontier.reclaim() == 1
    assert not frontier.holds(renewed)


async def test_either_copy_of_an_extended_lease_can_be_settled(frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1"), link("2")])
    first, second = await taken(frontier)
    [renewed, _] = await frontier.extend([first, second], 90.0)

    await settle(frontier, renewed, Done(page()))
    await settle(frontier, second, Done(page()))


async def test_extending_never_brings_a_deadline_nearer(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    [lease] = await taken(frontier, ttl=100.0)
    [same] = await frontier.extend([lease], 1.0)

    assert same.leased_until == START + 100.0


async def test_a_request_that_outlives_its_holders_is_poison(bench: Bench) -> None:
    frontier = bench.frontier
    await frontier.crawls.open("c", pace=UNLIMITED, max_crashes=3)
    await frontier.add("c", [link("1")])
    for _ in range(3):
        await taken(frontier, ttl=10.0, holder="worker-7")
        bench.clock.advance(10.0)
    assert await taken(frontier) == []

    assert await states(frontier) == {"dead": 1}
    assert (await frontier.reader.counts("c")).dead_by_class == {"poison": 1}
    [letter] = [letter async for letter in frontier.reader.dead_letters("c")]
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
    await frontier.crawls.open("c", pace=UNLIMITED, max_crashes=3)
    await frontier.add("c", [link(f"{number}{'-poison' if number == 7 else ''}") for number in range(20)])

    for _ in range(200):
        leases = await taken(frontier, 8, ttl=10.0)
        if any(lease.request.url.endswith("poison") for lease in leases):
            bench.clock.advance(10.0)  # the holder dies, and everything that it held runs out
        elif leases:
            await frontier.settle([Settlement(lease, Done(page())) for lease in leases])
        elif (await frontier.reader.counts("c")).open == 0:
            break

    assert await states(frontier) == {"done": 19, "dead": 1}
    [letter] = [letter async for letter in frontier.reader.dead_letters("c")]
    assert letter.request.url.endswith("7-poison")


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
    assert (await frontier.crawls.open("c")).resumed

    assert await states(frontier) == {"waiting": 3, "done": 1}
    assert (await frontier.reader.counts("c")).crashes == 1  # what was released was in nobody's hands
    again = await taken(frontier)
    assert paths(again) == ["a.test/1", "a.test/3", "a.test/2"]
    assert [lease.crashes for lease in again] == [0, 0, 1]


async def test_leases_of_an_earlier_life_are_refused(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    [old] = await taken(frontier)
    await bench.kill()
    frontier = bench.frontier
    await frontier.crawls.open("c")
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
    await bench.frontier.crawls.open("c")

    [again] = await taken(bench.frontier)
    assert (again.attempt, again.crashes) == (2, 1)


async def test_owners_that_keep_dying_make_a_request_poison(bench: Bench) -> None:
    await bench.frontier.crawls.open("c", pace=UNLIMITED, max_crashes=2)
    await bench.frontier.add("c", [link("1")])
    for _ in range(2):
        await taken(bench.frontier, holder="w")
        await bench.kill()
        await bench.frontier.crawls.open("c")

    assert await states(bench.frontier) == {"dead": 1}
    [letter] = [letter async for letter in bench.frontier.reader.dead_letters("c")]
    assert (letter.kind, letter.attempts, letter.crashes, letter.holder) == (FailureClass.POISON, 2, 2, "w")


async def test_what_was_seen_stays_seen(bench: Bench, frontier: AnyFrontier) -> None:
    links = [link(str(number)) for number in range(2000)]
    await frontier.add("c", links)
    await bench.kill()
    await bench.frontier.crawls.open("c")

    added = await bench.frontier.add("c", [*links, link("new")])
    assert (added.new, added.duplicate) == (1, 2000)
    counts = await bench.frontier.reader.counts("c")
    assert (counts.accepted, counts.duplicate) == (2001, 2000)


# --- pages that wait to be parsed ----------------------------------------------------------------


async def test_a_fetched_page_ends_with_its_acknowledgement(frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1"), link("2")])
    first, second = await taken(frontier)
    await frontier.settle([Settlement(first, Fetched(page(1))), Settlement(second, Fetched(page(2)))])
    done = Acknowledgement("c", first.fingerprint, Done(page(1)), [link("3")])
    dead = Acknowledgement("c", second.fingerprint, Dead(BROKEN))
    await frontier.acknowledge([done, dead])

    assert await states(frontier) == {"waiting": 1, "done": 1, "dead": 1}
    [letter] = [letter async for letter in frontier.reader.dead_letters("c")]
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


@pytest.mark.embedded(BY_ITS_BUS)
async def test_pages_of_a_dead_process_are_handed_out_with_all_that_parsing_needs(
    bench: Bench, frontier: AnyFrontier
) -> None:
    await frontier.add("c", [link("1", depth=3)])
    [lease] = await taken(frontier)
    await settle(frontier, lease, Fetched(page(1)))
    assert [found async for found in frontier.parsing("c")] == []  # whoever fetched it is parsing it
    await bench.kill()
    await bench.frontier.crawls.open("c")

    [found] = [found async for found in bench.frontier.parsing("c")]
    assert (found.fingerprint, found.request, found.page) == (lease.fingerprint, lease.request, page(1))
    assert found.strikes == 1
    assert [found async for found in bench.frontier.parsing("c")] == []
    await bench.frontier.acknowledge([Acknowledgement("c", lease.fingerprint, Done(page(1)))])
    assert await states(bench.frontier) == {"done": 1}


@pytest.mark.embedded(BY_ITS_BUS)
async def test_pages_with_a_strike_are_handed_out_one_at_a_time(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link(str(number)) for number in range(3)])
    leases = await taken(frontier)
    await frontier.settle([Settlement(lease, Fetched(page())) for lease in leases])
    await bench.kill()
    frontier = bench.frontier
    await frontier.crawls.open("c")

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


@pytest.mark.embedded(BY_ITS_BUS)
async def test_only_what_was_being_parsed_is_charged_when_the_process_dies(
    bench: Bench, frontier: AnyFrontier
) -> None:
    await frontier.add("c", [link("1"), link("2")])
    await frontier.settle([Settlement(lease, Fetched(page())) for lease in await taken(frontier)])
    for _ in range(5):  # the first death charges both; the others find nobody parsing
        await bench.kill()
        await bench.frontier.crawls.open("c", max_crashes=3)

    found = await anext(bench.frontier.parsing("c"))
    assert found.strikes == 1
    await bench.kill()
    await bench.frontier.crawls.open("c")
    assert (await bench.frontier.reader.counts("c")).crashes == 3


@pytest.mark.embedded(BY_ITS_BUS)
async def test_a_page_that_keeps_killing_its_process_is_poison(bench: Bench) -> None:
    await bench.frontier.crawls.open("c", pace=UNLIMITED, max_crashes=3)
    await bench.frontier.add("c", [link("1")])
    [lease] = await taken(bench.frontier)
    await settle(bench.frontier, lease, Fetched(page(1)))
    for strikes in (1, 2):
        await bench.kill()
        await bench.frontier.crawls.open("c")
        assert (await anext(bench.frontier.parsing("c"))).strikes == strikes
    await bench.kill()
    await bench.frontier.crawls.open("c")

    assert await states(bench.frontier) == {"dead": 1}
    [letter] = [letter async for letter in bench.frontier.reader.dead_letters("c")]
    assert (letter.kind, letter.page) == (FailureClass.POISON, page(1))
    assert letter.reason == "the process died 3 times while parsing it"
