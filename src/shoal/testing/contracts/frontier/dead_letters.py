"""Dead letters: listing, replaying and purging them."""

import math

from shoal.frontier.contract import Frontier
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import (
    Acknowledgement,
    Dead,
    Done,
    Fetched,
    Retry,
    Settlement,
)
from shoal.testing.contracts.frontier.bench import (
    BLOCKED,
    BROKEN,
    START,
    TIMEOUT,
    FrontierBench,
    link,
    page,
    paths,
    settle,
    states,
    take,
)


class DeadLettersContract:
    async def test_a_dead_letter_has_all_facts_about_its_request(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1", depth=2)])
        [lease] = await take(frontier, holder="w1")
        await settle(frontier, lease, Retry(TIMEOUT, delay=1.0))
        bench.clock.advance(5.0)
        [lease] = await take(frontier, holder="w2")
        bench.clock.advance(1.0)
        await settle(frontier, lease, Dead(BLOCKED))

        [letter] = [letter async for letter in frontier.reader.dead_letters("c")]
        assert (letter.crawl, letter.host, letter.request) == ("c", "a.test", lease.request)
        assert (letter.kind, letter.reason, letter.status) == (FailureClass.IP_BLOCKED, "403", 403)
        assert (letter.attempts, letter.crashes, letter.holder, letter.page) == (2, 0, "w2", None)
        assert (letter.first_at, letter.died_at) == (START, START + 6.0)
        assert letter.trace == f"{lease.fingerprint:016x}"

    async def test_a_dead_letter_keeps_its_reason_on_one_line_and_the_traceback_beside_it(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1")])
        [lease] = await take(frontier)
        traceback = "books.py:3 in book: x\nTraceback (most recent call last):\n  ..."
        await settle(
            frontier, lease, Dead(Failure(FailureClass.PARSE_ERROR, "no price", 200, detail=traceback))
        )

        [letter] = [letter async for letter in frontier.reader.dead_letters("c")]
        assert (letter.reason, letter.detail) == ("no price", traceback)

    async def test_requests_that_have_not_ended_and_dead_ones_are_listed_in_their_state(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link(str(number)) for number in range(700)])
        retried, dead, fetched, done, held = (await take(frontier, 5))[:5]
        await settle(frontier, retried, Retry(TIMEOUT, delay=60.0))
        await settle(frontier, dead, Dead(BLOCKED))
        await settle(frontier, fetched, Fetched(page()))
        await settle(frontier, done, Done(page()))

        open_states = ("waiting", "delayed", "leased", "parsing", "dead")
        listed = [one async for one in frontier.reader.requests("c", open_states)]

        found = {one.fingerprint: one for one in listed}
        assert len(found) == len(listed) == 699
        assert [found[lease.fingerprint].state for lease in (retried, dead, fetched, held)] == [
            "delayed",
            "dead",
            "parsing",
            "leased",
        ]
        assert sum(one.state == "waiting" for one in listed) == 695
        assert found[held.fingerprint].url == held.request.url
        assert (found[dead.fingerprint].host, found[dead.fingerprint].attempts) == ("a.test", 1)
        assert found[retried.fingerprint].attempts == 1
        only = [one.fingerprint async for one in frontier.reader.requests("c", ["delayed"])]
        assert only == [retried.fingerprint]

    async def test_dead_letters_can_be_filtered_and_come_latest_first(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link(str(number), host=f"{number % 2}.test") for number in range(600)])
        leases = sorted(await take(frontier, 600), key=lambda lease: int(lease.request.url.rsplit("/")[-1]))
        for number, lease in enumerate(leases):
            await settle(frontier, lease, Dead(TIMEOUT if number < 300 else BLOCKED))
            bench.clock.advance(0.5)

        everything = [letter async for letter in frontier.reader.dead_letters("c")]
        assert [letter.fingerprint for letter in everything] == [
            lease.fingerprint for lease in reversed(leases)
        ]
        chosen = frontier.reader.dead_letters("c", classes=[FailureClass.TIMEOUT], host="1.test", limit=3)
        assert [letter.request.url async for letter in chosen] == [
            f"https://1.test/{number}" for number in (299, 297, 295)
        ]
        assert (await frontier.reader.counts("c")).dead_by_class == {"timeout": 300, "ip_blocked": 300}

    async def test_the_list_of_dead_letters_continues_after_any_of_them(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        """Also after one of many that died at the same instant, as those of one batch do."""
        await frontier.add("c", [link(str(number), host=f"{number % 3}.test") for number in range(500)])
        leases = await take(frontier, 500)
        for start in range(0, 500, 250):
            await frontier.settle([Settlement(lease, Dead(TIMEOUT)) for lease in leases[start : start + 250]])
            bench.clock.advance(1.0)

        everything = [letter async for letter in frontier.reader.dead_letters("c")]
        assert len(everything) == 500
        for number in (0, 1, 30, 249, 250, 498, 499):
            rest = frontier.reader.dead_letters("c", before=everything[number].position)
            assert [letter async for letter in rest] == everything[number + 1 :]
        instant = everything[-1].died_at
        assert len([one async for one in frontier.reader.dead_letters("c", before=(instant, 0.0, 0))]) == 0
        at_it = frontier.reader.dead_letters("c", before=(instant, math.inf, 0))
        assert len([letter async for letter in at_it]) == 250

    async def test_replayed_requests_wait_with_all_counts_reset(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link(str(number)) for number in range(4)])
        leases = await take(frontier, ttl=10.0)
        await settle(frontier, leases[0], Dead(BLOCKED))
        for lease in leases[1:]:
            await settle(frontier, lease, Retry(TIMEOUT, delay=0.0))
        for lease in await take(frontier):
            await settle(frontier, lease, Dead(TIMEOUT))
        assert await frontier.dead_letters.replay("c", classes=[FailureClass.TIMEOUT], limit=2) == 2

        assert await states(frontier) == {"waiting": 2, "dead": 2}
        assert (await frontier.reader.counts("c")).dead_by_class == {"timeout": 1, "ip_blocked": 1}
        again = await take(frontier)
        assert paths(again) == ["a.test/1", "a.test/2"]
        assert {(lease.attempt, lease.crashes) for lease in again} == {(1, 0)}
        assert await frontier.dead_letters.replay("c", fingerprints=[leases[0].fingerprint]) == 1
        assert await frontier.dead_letters.replay("c", host="elsewhere.test") == 0
        for lease in (*again, *await take(frontier)):
            await settle(frontier, lease, Done(page()))
        await bench.kill()
        await bench.frontier.crawls.open("c")
        assert await states(bench.frontier) == {"done": 3, "dead": 1}

    async def test_a_request_that_dies_again_has_one_dead_letter(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1")])
        for _ in range(3):
            [lease] = await take(frontier)
            await settle(frontier, lease, Dead(TIMEOUT))
            assert await states(frontier) == {"dead": 1}
            await frontier.dead_letters.replay("c")

        assert await states(frontier) == {"waiting": 1}
        assert (await frontier.reader.counts("c")).dead_by_class == {}

    async def test_a_purged_request_stays_dead_and_seen_and_cannot_be_replayed(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1"), link("2"), link("3", host="b.test")])
        first, *others = await take(frontier)
        await settle(frontier, first, Dead(BROKEN, page(1)))
        for lease in others:
            await settle(frontier, lease, Dead(TIMEOUT))
        assert await frontier.dead_letters.purge("c", fingerprints=[first.fingerprint]) == 1
        assert await frontier.dead_letters.purge("c", classes=[FailureClass.TIMEOUT], limit=1) == 1
        assert await frontier.dead_letters.purge("c", host="elsewhere.test") == 0

        [letter] = [letter async for letter in frontier.reader.dead_letters("c")]
        assert letter.host == "b.test"
        assert [found async for found in frontier.reader.pages("c")] == []
        assert (await frontier.add("c", [link("1")])).new == 0
        await bench.kill()
        await bench.frontier.crawls.open("c")
        assert (await bench.frontier.reader.counts("c")).dead_by_class == {"parse_error": 1, "timeout": 2}
        assert await bench.frontier.dead_letters.replay("c") == 1
        assert await states(bench.frontier) == {"waiting": 1, "dead": 2}

    async def test_a_replayed_letter_whose_archived_page_was_at_fault_is_parsed_again(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1"), link("2"), link("3")])
        first, second, third = await take(frontier)
        await settle(frontier, first, Dead(BROKEN, page(1)))
        await settle(frontier, second, Dead(Failure(FailureClass.POISON, "killed its parser"), page(2)))
        await settle(frontier, third, Dead(Failure(FailureClass.POISON, "killed its worker")))
        assert await frontier.dead_letters.replay("c") == 3

        assert await states(frontier) == {"waiting": 1, "parsing": 2}
        found = [found async for found in frontier.parsing("c")]
        assert [(one.fingerprint, one.page, one.strikes) for one in found] == [
            (first.fingerprint, page(1), 0),
            (second.fingerprint, page(2), 0),
        ]
        await frontier.acknowledge([Acknowledgement("c", one.fingerprint, Done(one.page)) for one in found])
        assert await states(frontier) == {"waiting": 1, "done": 2}
