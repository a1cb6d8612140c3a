"""Adding links to a crawl."""

import pytest

from shoal.frontier.contract import Frontier
from shoal.model.errors import Misconfigured
from shoal.model.outcome import (
    Done,
)
from shoal.testing.contracts.frontier.bench import (
    UNLIMITED,
    FrontierBench,
    link,
    page,
    paths,
    settle,
    states,
    take,
)


class AddingContract:
    async def test_a_link_is_accepted_once(self, frontier: Frontier) -> None:
        first = await frontier.add("c", [link("1"), link("2"), link("1")])
        again = await frontier.add("c", [link("2"), link("3")])

        assert (first.new, first.duplicate) == (2, 1)
        assert (again.new, again.duplicate) == (1, 1)
        counts = await frontier.reader.counts("c")
        assert (counts.accepted, counts.duplicate, counts.waiting) == (3, 2, 3)
        assert paths(await take(frontier)) == ["a.test/1", "a.test/2", "a.test/3"]

    async def test_repeating_an_add_changes_nothing(self, frontier: Frontier) -> None:
        links = [link(str(number)) for number in range(5)]
        await frontier.add("c", links)
        [lease, *_] = await take(frontier)
        await settle(frontier, lease, Done(page()))

        assert (await frontier.add("c", links)).new == 0
        assert await states(frontier) == {"leased": 4, "done": 1}

    async def test_links_beyond_the_budget_of_a_host_are_counted_but_not_accepted(
        self, bench: FrontierBench
    ) -> None:
        await bench.frontier.crawls.open("c", pace=UNLIMITED, host_budget=2)
        await bench.frontier.add("c", [link("1"), link("1"), link("2"), link("3")])
        await bench.kill()
        await bench.frontier.crawls.open("c")
        after = await bench.frontier.add("c", [link("1"), link("3"), link("1", host="b.test")])

        assert (after.new, after.duplicate) == (1, 1)
        counts = await bench.frontier.reader.counts("c")
        assert (counts.accepted, counts.duplicate, counts.over_budget) == (3, 2, 2)
        assert sorted(paths(await take(bench.frontier))) == ["a.test/1", "a.test/2", "b.test/1"]

        await bench.frontier.crawls.open("c", host_budget=0)
        assert (await bench.frontier.add("c", [link("3"), link("4")])).new == 2

    async def test_each_crawl_has_a_separate_seen_set(self, frontier: Frontier) -> None:
        await frontier.crawls.open("other", pace=UNLIMITED)
        await frontier.add("c", [link("1")])

        assert (await frontier.add("other", [link("1")])).new == 1
        assert sorted(lease.crawl for lease in await take(frontier)) == ["c", "other"]

    async def test_adding_to_a_crawl_that_is_not_open_raises_misconfigured(
        self, bench: FrontierBench
    ) -> None:
        with pytest.raises(Misconfigured, match="nope"):
            await bench.frontier.add("nope", [link("1")])
        with pytest.raises(Misconfigured, match="nope"):
            await bench.frontier.reader.counts("nope")

    async def test_opening_returns_whether_the_crawl_was_resumed(self, bench: FrontierBench) -> None:
        assert not (await bench.frontier.crawls.open("c", state={"version": b"1"})).resumed
        assert (await bench.frontier.crawls.open("c", state={"version": b"2"})).resumed
        assert await bench.frontier.reader.value("c", "version") == b"1"
        assert await bench.frontier.reader.crawls() == ["c"]
