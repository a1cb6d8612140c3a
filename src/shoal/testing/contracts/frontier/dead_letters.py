"""The frontier's contract: what has ended, and how it comes back: dead letters, pages, generations."""

import pytest
from tests.contract.clock import START
from tests.contract.frontiers import (
    BLOCKED,
    BROKEN,
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
    Gone,
    Outcome,
    Released,
    Retry,
)

NO_RECORD = "its store keeps no record of a page that is done: the archive has it"

# --- dead letters --------------------------------------------------------------------------------


async def test_a_dead_letter_tells_everything(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1", depth=2)])
    [lease] = await taken(frontier, holder="w1")
    await settle(frontier, lease, Retry(TIMEOUT, delay=1.0))
    bench.clock.advance(5.0)
    [lease] = await taken(frontier, holder="w2")
    bench.clock.advance(1.0)
    await settle(frontier, lease, Dead(BLOCKED))

    [letter] = [letter async for letter in frontier.reader.dead_letters("c")]
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

    everything = [letter async for letter in frontier.reader.dead_letters("c")]
    assert [letter.fingerprint for letter in everything] == [lease.fingerprint for lease in reversed(leases)]
    chosen = frontier.reader.dead_letters("c", classes=[FailureClass.TIMEOUT], host="1.test", limit=3)
    assert [letter.request.url async for letter in chosen] == [
        f"https://1.test/{number}" for number in (299, 297, 295)
    ]
    assert (await frontier.reader.counts("c")).dead_by_class == {"timeout": 300, "ip_blocked": 300}


async def test_replayed_letters_wait_with_a_clean_slate(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link(str(number)) for number in range(4)])
    leases = await taken(frontier, ttl=10.0)
    await settle(frontier, leases[0], Dead(BLOCKED))
    for lease in leases[1:]:
        await settle(frontier, lease, Retry(TIMEOUT, delay=0.0))
    for lease in await taken(frontier):
        await settle(frontier, lease, Dead(TIMEOUT))
    assert await frontier.dead_letters.replay("c", classes=[FailureClass.TIMEOUT], limit=2) == 2

    assert await states(frontier) == {"waiting": 2, "dead": 2}
    assert (await frontier.reader.counts("c")).dead_by_class == {"timeout": 1, "ip_blocked": 1}
    again = await taken(frontier)
    assert paths(again) == ["a.test/1", "a.test/2"]
    assert {(lease.attempt, lease.crashes) for lease in again} == {(1, 0)}
    assert await frontier.dead_letters.replay("c", fingerprints=[leases[0].fingerprint]) == 1
    assert await frontier.dead_letters.replay("c", host="elsewhere.test") == 0
    for lease in (*again, *await taken(frontier)):
        await settle(frontier, lease, Done(page()))
    await bench.kill()
    await bench.frontier.crawls.open("c")
    assert await states(bench.frontier) == {"done": 3, "dead": 1}


async def test_a_letter_that_died_twice_has_one_grave(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1")])
    for _ in range(3):
        [lease] = await taken(frontier)
        await settle(frontier, lease, Dead(TIMEOUT))
        assert await states(frontier) == {"dead": 1}
        await frontier.dead_letters.replay("c")

    assert await states(frontier) == {"waiting": 1}
    assert (await frontier.reader.counts("c")).dead_by_class == {}


async def test_a_purged_letter_stays_dead_and_seen_and_cannot_come_back(
    bench: Bench, frontier: AnyFrontier
) -> None:
    await frontier.add("c", [link("1"), link("2"), link("3", host="b.test")])
    first, *others = await taken(frontier)
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


async def test_a_letter_whose_page_is_kept_is_parsed_again(bench: Bench, frontier: AnyFrontier) -> None:
    await frontier.add("c", [link("1"), link("2"), link("3")])
    first, second, third = await taken(frontier)
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


# --- generations ---------------------------------------------------------------------------------


async def crawled(bench: Bench, outcomes: dict[str, Outcome]) -> None:
    """Crawl these paths as crawl `c` and let the owner go."""
    await bench.frontier.crawls.open("c", pace=UNLIMITED)
    await bench.frontier.add("c", [link(path) for path in outcomes])
    for lease in await taken(bench.frontier):
        path = lease.request.url.removeprefix("https://a.test/")
        await settle(bench.frontier, lease, outcomes[path])
    await bench.kill()


async def test_a_dropped_crawl_begins_anew(bench: Bench) -> None:
    await crawled(bench, {"1": Done(page(1)), "2": Dead(TIMEOUT), "3": Fetched(page(3))})
    await bench.frontier.commit(checkpoints={"items.jsonl": b"9", "other": b"1"})
    assert await bench.frontier.crawls.delete("c", checkpoints=["items.jsonl"])
    assert not await bench.frontier.crawls.delete("c")
    assert await bench.frontier.reader.crawls() == []

    assert not (await bench.frontier.crawls.open("c", pace=UNLIMITED, state={"version": b"2"})).resumed
    assert (await bench.frontier.reader.counts("c")).accepted == 0
    assert [letter async for letter in bench.frontier.reader.dead_letters("c")] == []
    assert (await bench.frontier.add("c", [link("1"), link("2"), link("3")])).new == 3
    assert paths(await taken(bench.frontier)) == ["a.test/1", "a.test/2", "a.test/3"]
    assert await bench.frontier.reader.checkpoint("items.jsonl") is None
    assert await bench.frontier.reader.checkpoint("other") == b"1"
    assert await bench.frontier.reader.value("c", "version") == b"2"


async def test_an_open_crawl_cannot_be_dropped(frontier: AnyFrontier) -> None:
    with pytest.raises(Misconfigured, match="open"):
        await frontier.crawls.delete("c")


@pytest.mark.embedded(NO_RECORD)
async def test_the_next_generation_can_ask_what_has_changed(bench: Bench) -> None:
    await crawled(bench, {"1": Done(page(1)), "2": Done(page(2)), "3": Gone(404)})
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


async def test_a_crawl_that_was_dropped_entirely_leaves_nothing_to_its_next_generation(bench: Bench) -> None:
    await crawled(bench, {"1": Done(page(1)), "2": Done(page(2))})
    await bench.frontier.crawls.delete("c")
    await crawled(bench, {"2": Done(page(20)), "3": Released()})
    assert await bench.frontier.crawls.delete("c", entirely=True)
    assert await bench.frontier.reader.crawls() == []

    assert not (await bench.frontier.crawls.open("c", pace=UNLIMITED)).resumed
    assert await bench.frontier.validators("c", [link("1").fingerprint, link("2").fingerprint]) == {}
    assert (await bench.frontier.add("c", [link("1"), link("2"), link("3")])).new == 3
    assert (await bench.frontier.reader.audit("c")).problems == []


@pytest.mark.embedded(NO_RECORD)
async def test_a_finished_generation_replaces_the_one_before(bench: Bench) -> None:
    await crawled(bench, {"1": Done(page(1)), "2": Done(page(2))})
    await bench.frontier.crawls.delete("c")
    await crawled(bench, {"2": Done(page(20))})
    await bench.frontier.crawls.delete("c")
    await bench.frontier.crawls.open("c")

    found = await bench.frontier.validators("c", [link("1").fingerprint, link("2").fingerprint])
    assert {fp: kept.etag for fp, kept in found.items()} == {link("2").fingerprint: '"20"'}


@pytest.mark.embedded(NO_RECORD)
async def test_a_generation_that_was_cut_short_adds_to_the_one_before(bench: Bench) -> None:
    await crawled(bench, {"1": Done(page(1)), "2": Done(page(2))})
    await bench.frontier.crawls.delete("c")
    await crawled(bench, {"2": Done(page(20)), "3": Released()})
    await bench.frontier.crawls.delete("c")
    await bench.frontier.crawls.open("c")

    found = await bench.frontier.validators("c", [link("1").fingerprint, link("2").fingerprint])
    assert sorted(kept.etag for kept in found.values()) == ['"1"', '"20"']


@pytest.mark.embedded(NO_RECORD)
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

    pages = {fp: record async for fp, record in frontier.reader.pages("c")}
    assert len(pages) == 525
    assert pages[link("400").fingerprint] == page(400, items=2, links=3)
