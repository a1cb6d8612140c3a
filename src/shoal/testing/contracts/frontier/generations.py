"""Generations: deleting a crawl, validators for the next one, archived pages."""

import pytest

from shoal.frontier.contract import Frontier
from shoal.model.errors import Misconfigured
from shoal.model.outcome import (
    Dead,
    Done,
    Fetched,
    Gone,
    Outcome,
    Released,
)
from shoal.testing.contracts.frontier.bench import (
    BROKEN,
    TIMEOUT,
    UNLIMITED,
    FrontierBench,
    link,
    page,
    paths,
    settle,
    take,
)


async def crawl_paths(bench: FrontierBench, outcomes: dict[str, Outcome]) -> None:
    """Crawl these paths as crawl `c`, and end the owner."""
    await bench.frontier.crawls.open("c", pace=UNLIMITED)
    await bench.frontier.add("c", [link(path) for path in outcomes])
    for lease in await take(bench.frontier):
        path = lease.request.url.removeprefix("https://a.test/")
        await settle(bench.frontier, lease, outcomes[path])
    await bench.kill()


class GenerationsContract:
    async def test_a_deleted_crawl_starts_empty(self, bench: FrontierBench) -> None:
        await crawl_paths(bench, {"1": Done(page(1)), "2": Dead(TIMEOUT), "3": Fetched(page(3))})
        await bench.frontier.commit(checkpoints={"items.jsonl": b"9", "other": b"1"})
        assert await bench.frontier.crawls.delete("c", checkpoints=["items.jsonl"])
        assert not await bench.frontier.crawls.delete("c")
        assert await bench.frontier.reader.crawls() == []

        assert not (await bench.frontier.crawls.open("c", pace=UNLIMITED, state={"version": b"2"})).resumed
        assert (await bench.frontier.reader.counts("c")).accepted == 0
        assert [letter async for letter in bench.frontier.reader.dead_letters("c")] == []
        assert (await bench.frontier.add("c", [link("1"), link("2"), link("3")])).new == 3
        assert paths(await take(bench.frontier)) == ["a.test/1", "a.test/2", "a.test/3"]
        assert await bench.frontier.reader.checkpoint("items.jsonl") is None
        assert await bench.frontier.reader.checkpoint("other") == b"1"
        assert await bench.frontier.reader.value("c", "version") == b"2"

    async def test_an_open_crawl_cannot_be_deleted(self, frontier: Frontier) -> None:
        with pytest.raises(Misconfigured, match="open"):
            await frontier.crawls.delete("c")

    async def test_a_crawl_that_was_deleted_entirely_leaves_no_validators(self, bench: FrontierBench) -> None:
        await crawl_paths(bench, {"1": Done(page(1)), "2": Done(page(2))})
        await bench.frontier.crawls.delete("c")
        await crawl_paths(bench, {"2": Done(page(20)), "3": Released()})
        assert await bench.frontier.crawls.delete("c", entirely=True)
        assert await bench.frontier.reader.crawls() == []

        assert not (await bench.frontier.crawls.open("c", pace=UNLIMITED)).resumed
        assert await bench.frontier.validators("c", [link("1").fingerprint, link("2").fingerprint]) == {}
        assert (await bench.frontier.add("c", [link("1"), link("2"), link("3")])).new == 3
        assert (await bench.frontier.reader.audit("c")).problems == []


class EmbeddedGenerationsContract:
    """Holds for stores that keep a record of each page that is done. In a fleet, the archive has it."""

    async def test_the_next_generation_has_validators_for_conditional_requests(
        self, bench: FrontierBench
    ) -> None:
        await crawl_paths(bench, {"1": Done(page(1)), "2": Done(page(2)), "3": Gone(404)})
        await bench.frontier.crawls.delete("c")
        await bench.frontier.crawls.open("c")

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
        await bench.frontier.crawls.open("other")
        assert await bench.frontier.validators("other", fps) == {}

    async def test_validators_of_a_finished_generation_replace_the_earlier_ones(
        self, bench: FrontierBench
    ) -> None:
        await crawl_paths(bench, {"1": Done(page(1)), "2": Done(page(2))})
        await bench.frontier.crawls.delete("c")
        await crawl_paths(bench, {"2": Done(page(20))})
        await bench.frontier.crawls.delete("c")
        await bench.frontier.crawls.open("c")

        found = await bench.frontier.validators("c", [link("1").fingerprint, link("2").fingerprint])
        assert {fp: kept.etag for fp, kept in found.items()} == {link("2").fingerprint: '"20"'}

    async def test_validators_of_an_unfinished_generation_add_to_the_earlier_ones(
        self, bench: FrontierBench
    ) -> None:
        await crawl_paths(bench, {"1": Done(page(1)), "2": Done(page(2))})
        await bench.frontier.crawls.delete("c")
        await crawl_paths(bench, {"2": Done(page(20)), "3": Released()})
        await bench.frontier.crawls.delete("c")
        await bench.frontier.crawls.open("c")

        found = await bench.frontier.validators("c", [link("1").fingerprint, link("2").fingerprint])
        assert sorted(kept.etag for kept in found.values()) == ['"1"', '"20"']

    async def test_pages_can_be_listed(self, bench: FrontierBench, frontier: Frontier) -> None:
        await frontier.add("c", [link(str(number)) for number in range(700)])
        for number, lease in enumerate(await take(frontier, 700)):
            outcomes: list[Outcome] = [
                Done(page(number, items=2, links=3)),
                Fetched(page(number)),
                Dead(BROKEN, page(number)),
                Gone(404),
            ]
            await settle(frontier, lease, outcomes[number % 4])

        pages = {fp: record async for fp, record in frontier.reader.pages("c")}
        assert len(pages) == 525
        assert pages[link("400").fingerprint] == page(400, items=2, links=3)
