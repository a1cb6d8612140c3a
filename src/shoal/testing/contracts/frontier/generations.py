"""Generations: deleting a crawl, what the next one knows of its pages, archived pages."""

import msgspec
import pytest

from shoal.frontier.contract import Frontier
from shoal.model.errors import Misconfigured
from shoal.model.generations.page_history import PageFate, PageHistory, pack_history, unpack_history
from shoal.model.outcome import (
    Acknowledgement,
    Dead,
    Done,
    Fetched,
    Gone,
    Outcome,
    Released,
    Settlement,
)
from shoal.model.request import FINGERPRINT_KEY
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


def history(number: int) -> bytes:
    return pack_history(PageHistory(status=200, result=page(number).ref, checks=number))


def known(number: int) -> Done:
    """Return the outcome of a page that the next generation is to know."""
    return Done(msgspec.structs.replace(page(number), history=history(number)))


async def histories(bench: FrontierBench, generation: int) -> dict[int, bytes]:
    return {fp: packed async for fp, packed in bench.frontier.reader.histories("c", generation)}


async def crawl_paths(
    bench: FrontierBench, outcomes: dict[str, Outcome], *, acknowledge: Done | None = None
) -> None:
    """Crawl these paths as crawl `c`, and end the owner."""
    await bench.frontier.crawls.open("c", pace=UNLIMITED)
    await bench.frontier.add("c", [link(path) for path in outcomes])
    for lease in await take(bench.frontier):
        outcome = outcomes[lease.request.url.removeprefix("https://a.test/")]
        fate = {Gone: PageFate.GONE, Dead: PageFate.DEAD}.get(type(outcome))
        status = outcome.status if isinstance(outcome, Gone) else 0
        left = b"" if fate is None else pack_history(PageHistory(fate, status))
        await bench.frontier.settle([Settlement(lease, outcome, history=left)])
    if acknowledge is not None:
        for path in outcomes:
            end = Acknowledgement("c", link(path).fingerprint, acknowledge, host="a.test")
            await bench.frontier.acknowledge([end])
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

    async def test_a_crawl_deleted_entirely_leaves_no_generations(self, bench: FrontierBench) -> None:
        await crawl_paths(bench, {"1": Done(page(1)), "2": Done(page(2))})
        await bench.frontier.crawls.delete("c")
        await crawl_paths(bench, {"2": Done(page(20)), "3": Released()})
        assert await bench.frontier.crawls.delete("c", entirely=True)
        assert await bench.frontier.reader.crawls() == []

        assert not (await bench.frontier.crawls.open("c", pace=UNLIMITED)).resumed
        fps = [link(path).fingerprint for path in ("1", "2")]
        assert await bench.frontier.earlier_pages("c", fps) == {}
        assert [one.number for one in await bench.frontier.reader.generations("c")] == [1]
        assert (await bench.frontier.add("c", [link("1"), link("2"), link("3")])).new == 3
        assert (await bench.frontier.reader.audit("c")).problems == []

    async def test_a_crawl_that_follows_a_deleted_one_knows_none_of_its_pages(
        self, bench: FrontierBench
    ) -> None:
        await crawl_paths(bench, {"1": known(1)})
        await bench.frontier.crawls.delete("c")
        await crawl_paths(bench, {"2": Gone(404)})
        await bench.frontier.crawls.delete("c", entirely=True)
        await crawl_paths(bench, {"3": known(3)})
        await bench.frontier.crawls.delete("c")
        await bench.frontier.crawls.open("c", pace=UNLIMITED)

        fps = [link(path).fingerprint for path in ("1", "2", "3")]
        assert await bench.frontier.earlier_pages("c", fps) == {fps[2]: history(3)}

    async def test_the_next_generation_finds_the_records_of_its_pages(self, bench: FrontierBench) -> None:
        await crawl_paths(bench, {"1": known(1), "2": known(2), "3": Gone(404), "4": Dead(TIMEOUT)})
        await bench.frontier.crawls.delete("c")
        await bench.frontier.crawls.open("c", pace=UNLIMITED)

        fps = [link(path).fingerprint for path in ("1", "2", "3", "4", "5")]
        found = await bench.frontier.earlier_pages("c", fps)
        assert found == {fps[0]: history(1), fps[1]: history(2)}
        assert await bench.frontier.earlier_pages("c", fps[:1], host="a.test") == {fps[0]: history(1)}
        await bench.frontier.crawls.open("other")
        assert await bench.frontier.earlier_pages("other", fps) == {}

    async def test_a_generation_keeps_the_key_of_its_fingerprints(self, bench: FrontierBench) -> None:
        await bench.frontier.crawls.open("c", pace=UNLIMITED, state={FINGERPRINT_KEY: b"first", "b": b"1"})
        await crawl_paths(bench, {"1": known(1)})
        await bench.frontier.crawls.delete("c")
        await bench.frontier.crawls.open("c", state={FINGERPRINT_KEY: b"second"})

        assert await bench.frontier.reader.value("c", FINGERPRINT_KEY) == b"first"
        assert await bench.frontier.reader.value("c", "b") is None

    async def test_an_acknowledged_page_has_a_record_as_well(self, bench: FrontierBench) -> None:
        await crawl_paths(bench, {"1": Fetched(page(1))}, acknowledge=known(1))
        await bench.frontier.crawls.delete("c")
        await bench.frontier.crawls.open("c")

        fp = link("1").fingerprint
        assert await bench.frontier.earlier_pages("c", [fp]) == {fp: history(1)}

    async def test_only_so_many_generations_are_kept(self, bench: FrontierBench) -> None:
        for number, path in enumerate(("1", "2", "3"), start=1):
            await crawl_paths(bench, {path: known(number)})
            assert await bench.frontier.crawls.delete("c", keep=2)
        await bench.frontier.crawls.open("c", pace=UNLIMITED)

        fps = [link(path).fingerprint for path in ("1", "2", "3")]
        assert await bench.frontier.earlier_pages("c", fps) == {fps[1]: history(2), fps[2]: history(3)}
        kept = await bench.frontier.reader.generations("c")
        assert [(one.number, one.finished) for one in kept] == [(2, True), (3, True), (4, False)]
        assert await histories(bench, 1) == {}
        assert await histories(bench, 3) == {fps[2]: history(3)}
        await bench.kill()
        await bench.frontier.crawls.delete("c", keep=0)
        await bench.frontier.crawls.open("c")
        assert await bench.frontier.earlier_pages("c", fps) == {}

    async def test_the_record_of_the_latest_generation_counts(self, bench: FrontierBench) -> None:
        await crawl_paths(bench, {"1": known(1), "2": known(2)})
        await bench.frontier.crawls.delete("c", keep=2)
        await crawl_paths(bench, {"1": Gone(410), "2": known(20)})
        await bench.frontier.crawls.delete("c", keep=2)
        await bench.frontier.crawls.open("c")

        fps = [link(path).fingerprint for path in ("1", "2")]
        assert await bench.frontier.earlier_pages("c", fps) == {fps[0]: history(1), fps[1]: history(20)}

    async def test_a_generation_that_was_given_up_does_not_replace_a_finished_one(
        self, bench: FrontierBench
    ) -> None:
        await crawl_paths(bench, {"1": known(1), "2": known(2)})
        await bench.frontier.crawls.delete("c")
        await crawl_paths(bench, {"2": known(20), "3": Released()})
        await bench.frontier.crawls.delete("c")
        await bench.frontier.crawls.open("c")

        fps = [link(path).fingerprint for path in ("1", "2")]
        assert await bench.frontier.earlier_pages("c", fps) == {fps[0]: history(1), fps[1]: history(20)}

    async def test_the_requests_of_a_generation_can_be_listed(self, bench: FrontierBench) -> None:
        fates: dict[str, Outcome] = {
            "1": known(1),
            "2": Gone(404),
            "3": Dead(TIMEOUT),
            "4": Fetched(page(4)),
            "5": Released(),
        }
        await crawl_paths(bench, fates)
        listed = await histories(bench, 1)
        await bench.frontier.crawls.delete("c")
        await bench.frontier.crawls.open("c")

        expected = {
            link("1").fingerprint: (PageFate.DONE, 200),
            link("2").fingerprint: (PageFate.GONE, 404),
            link("3").fingerprint: (PageFate.DEAD, 0),
        }
        for found in (listed, await histories(bench, 1)):
            fates_found = {fp: unpack_history(packed) for fp, packed in found.items()}
            assert {fp: (one.fate, one.status) for fp, one in fates_found.items()} == expected
        assert await histories(bench, 2) == {}


class EmbeddedGenerationsContract:
    """Holds for stores that keep a record of each page that is done. In a fleet, the archive has it."""

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
