"""Pages that wait to be parsed: acknowledgements, strikes."""

import asyncio

from shoal.frontier.contract import Frontier
from shoal.model.failure import FailureClass
from shoal.model.outcome import (
    Acknowledgement,
    Dead,
    Done,
    Fetched,
    Settlement,
)
from shoal.testing.contracts.frontier.bench import (
    BROKEN,
    UNLIMITED,
    FrontierBench,
    link,
    page,
    settle,
    states,
    take,
)


class ParsingContract:
    async def test_acknowledging_a_fetched_page_ends_its_request(self, frontier: Frontier) -> None:
        await frontier.add("c", [link("1"), link("2")])
        first, second = await take(frontier)
        await frontier.settle([Settlement(first, Fetched(page(1))), Settlement(second, Fetched(page(2)))])
        done = Acknowledgement("c", first.fingerprint, Done(page(1)), [link("3")])
        dead = Acknowledgement("c", second.fingerprint, Dead(BROKEN))
        await frontier.acknowledge([done, dead])

        assert await states(frontier) == {"waiting": 1, "done": 1, "dead": 1}
        [letter] = [letter async for letter in frontier.reader.dead_letters("c")]
        assert letter.page == page(2)  # stored, so that it can be parsed again
        again = await frontier.acknowledge([done])
        assert again.refused == [done]
        assert again.new + again.duplicate == 0

    async def test_a_page_may_be_fetched_and_acknowledged_in_one_commit(self, frontier: Frontier) -> None:
        await frontier.add("c", [link("1"), link("2")])
        first, second = await take(frontier)
        await frontier.commit(
            [Settlement(first, Fetched(page(1))), Settlement(second, Fetched(page(2)))],
            [
                Acknowledgement("c", first.fingerprint, Done(page(1))),
                Acknowledgement("c", second.fingerprint, Dead(BROKEN)),
            ],
        )

        assert await states(frontier) == {"done": 1, "dead": 1}

    async def test_a_page_that_is_acknowledged_twice_in_one_call_counts_once(
        self, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1")])
        [lease] = await take(frontier)
        await settle(frontier, lease, Fetched(page(1)))
        first, second = (Acknowledgement("c", lease.fingerprint, Done(page(number))) for number in (1, 2))

        assert (await frontier.acknowledge([first, second])).refused == [second]
        assert await states(frontier) == {"done": 1}

    async def test_only_fetched_pages_can_be_acknowledged(self, frontier: Frontier) -> None:
        await frontier.add("c", [link("1")])
        await take(frontier)
        wrong = [
            Acknowledgement("c", link("1").fingerprint, Done(page())),
            Acknowledgement("c", 12345, Done(page())),
            Acknowledgement("nope", 1, Done(page())),
        ]

        assert (await frontier.acknowledge(wrong)).refused == wrong
        assert await states(frontier) == {"leased": 1}


class EmbeddedParsingContract:
    """Holds where the frontier yields unparsed pages. In a fleet, the bus delivers them."""

    async def test_pages_of_a_dead_process_are_yielded_with_all_that_parsing_needs(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1", depth=3)])
        [lease] = await take(frontier)
        await settle(frontier, lease, Fetched(page(1)))
        assert [
            found async for found in frontier.parsing("c")
        ] == []  # the process that fetched it is parsing it
        await bench.kill()
        await bench.frontier.crawls.open("c")

        [found] = [found async for found in bench.frontier.parsing("c")]
        assert (found.fingerprint, found.request, found.page) == (lease.fingerprint, lease.request, page(1))
        assert found.strikes == 1
        assert [found async for found in bench.frontier.parsing("c")] == []
        await bench.frontier.acknowledge([Acknowledgement("c", lease.fingerprint, Done(page(1)))])
        assert await states(bench.frontier) == {"done": 1}

    async def test_pages_with_a_strike_are_yielded_one_at_a_time(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link(str(number)) for number in range(3)])
        leases = await take(frontier)
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

    async def test_only_pages_that_were_being_parsed_get_a_strike_when_the_process_dies(
        self, bench: FrontierBench, frontier: Frontier
    ) -> None:
        await frontier.add("c", [link("1"), link("2")])
        await frontier.settle([Settlement(lease, Fetched(page())) for lease in await take(frontier)])
        for _ in range(5):  # the first death charges both; later no page is being parsed
            await bench.kill()
            await bench.frontier.crawls.open("c", max_crashes=3)

        found = await anext(bench.frontier.parsing("c"))
        assert found.strikes == 1
        await bench.kill()
        await bench.frontier.crawls.open("c")
        assert (await bench.frontier.reader.counts("c")).crashes == 3

    async def test_a_page_that_keeps_killing_its_process_is_poison(self, bench: FrontierBench) -> None:
        await bench.frontier.crawls.open("c", pace=UNLIMITED, max_crashes=3)
        await bench.frontier.add("c", [link("1")])
        [lease] = await take(bench.frontier)
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
