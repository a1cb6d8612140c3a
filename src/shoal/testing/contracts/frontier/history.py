"""What the embedded store can tell of one request and one host, by its owner or beside it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import structs
from tests.contract.clock import START, ManualClock
from tests.contract.frontiers import BROKEN, TIMEOUT, UNLIMITED, SqliteBench, link, page, taken

from shoal.frontier.results import HostQueue, RequestHistory
from shoal.frontier.sqlite import SqliteFrontier
from shoal.model.failure import FailureClass
from shoal.model.outcome import (
    Acknowledgement,
    Dead,
    Done,
    Fetched,
    Filtered,
    Gone,
    Outcome,
    Retry,
    Settlement,
)
from shoal.model.pace import Pace
from shoal.model.request import Link, Request


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[SqliteBench]:
    opened = SqliteBench(ManualClock(), tmp_path / "store.db")
    await opened.open()
    await opened.frontier.crawls.open("c", pace=UNLIMITED)
    yield opened
    await opened.close()


FOUND = Link.to(Request(url="https://a.test/1", found_on=99))


async def told(bench: SqliteBench, fingerprint: int = FOUND.fingerprint) -> RequestHistory:
    """Read beside the owner."""
    async with SqliteFrontier.peek(bench._path, clock=bench.clock) as reader:
        story = await reader.history("c", fingerprint)
    assert story is not None
    return story


async def attempt(bench: SqliteBench, outcome: Outcome) -> None:
    [lease] = await taken(bench.frontier, ttl=10.0)
    bench.clock.advance(1.0)
    await bench.frontier.settle([Settlement(lease, outcome, elapsed=0.5)])


async def test_a_request_is_followed_from_its_acceptance_to_its_page(bench: SqliteBench) -> None:
    assert await bench.frontier.reader.history("c", FOUND.fingerprint) is None
    await bench.frontier.add("c", [FOUND])
    assert (await told(bench)).state == "waiting"
    [lease] = await taken(bench.frontier, holder="me", ttl=10.0)
    leased = await told(bench)
    assert (leased.state, leased.holder, leased.leased_at) == ("leased", "me", START)

    bench.clock.advance(1.0)
    await bench.frontier.settle([Settlement(lease, Retry(TIMEOUT, delay=8.0), elapsed=0.5)])
    delayed = await told(bench)
    assert (delayed.state, delayed.due) == ("delayed", START + 9.0)
    [tried] = delayed.tried
    assert (tried.at, tried.elapsed, tried.kind, tried.reason) == (START + 1, 0.5, TIMEOUT.kind, "no answer")

    bench.clock.advance(20.0)
    await attempt(bench, Done(page(3, items=2, links=5)))
    done = await told(bench)
    assert (done.state, done.page, done.ended_at) == ("done", page(3, items=2, links=5), START + 22.0)
    assert done.tried == [tried]
    assert done.request is None


@pytest.mark.parametrize(
    ("outcome", "state", "rule", "tries"),
    [
        (Gone(404), "gone", "", 0),
        (Filtered(FailureClass.ROBOTS, "disallowed"), "filtered", "robots", 0),
        (Dead(TIMEOUT), "dead", "timeout", 1),
        (Fetched(page()), "parsing", "", 0),
    ],
)
async def test_every_end_is_told_with_where_the_request_was_found(
    bench: SqliteBench, outcome: Outcome, state: str, rule: str, tries: int
) -> None:
    await bench.frontier.add("c", [FOUND])
    await attempt(bench, outcome)

    story = await told(bench)
    assert (story.state, story.rule, story.found_on, len(story.tried)) == (state, rule, 99, tries)


async def test_crashes_and_failed_parses_are_attempts_too(bench: SqliteBench) -> None:
    await bench.frontier.add("c", [FOUND])
    await taken(bench.frontier, ttl=10.0)
    bench.clock.advance(30.0)
    await bench.frontier.reclaim()
    await taken(bench.frontier, ttl=10.0)
    await bench.kill()
    await bench.frontier.crawls.open("c")
    await attempt(bench, Fetched(page()))
    await bench.kill()
    await bench.frontier.crawls.open("c")
    dead = Dead(BROKEN, page())
    await bench.frontier.acknowledge([Acknowledgement("c", FOUND.fingerprint, dead)])

    assert [tried.reason for tried in (await told(bench)).tried] == [
        "its holder died or overran",
        "its holder died or overran",
        "the process died while parsing it",
        "the spider raised",
    ]


async def test_a_dropped_crawl_takes_its_attempts_along(bench: SqliteBench) -> None:
    await bench.frontier.add("c", [FOUND])
    await attempt(bench, Retry(TIMEOUT, delay=0.0))
    await bench.kill()
    await bench.frontier.crawls.delete("c")
    await bench.frontier.crawls.open("c", pace=UNLIMITED)
    await bench.frontier.add("c", [FOUND])

    assert (await told(bench)).tried == []


async def test_a_host_is_shown_beside_its_owner_with_the_pace_that_applies(bench: SqliteBench) -> None:
    await bench.frontier.crawls.open("slow", pace=Pace(2.0, 1, 3))
    await bench.frontier.add("c", [link(str(number)) for number in range(3)])
    await bench.frontier.add("slow", [link("1")])
    await taken(bench.frontier, limit=1)
    await bench.frontier.hosts.set("a.test", rest_until=START + 60, paused=True)

    async with SqliteFrontier.peek(bench._path, clock=bench.clock) as reader:
        beside, unknown = await reader.host("a.test"), await reader.host("b.test")
    owned = await bench.frontier.hosts.get("a.test")
    assert beside is not None
    assert owned is not None
    assert (beside.waiting, beside.inflight) == (owned.waiting, owned.inflight) == (3, 1)
    assert (beside.interval, beside.concurrency, beside.paused) == (2.0, 3, True)
    assert (owned.interval, owned.rest_until) == (beside.interval, beside.rest_until)
    assert unknown is None


async def test_a_crawl_is_measured_by_its_pages_and_what_is_left_on_each_host(bench: SqliteBench) -> None:
    frontier = bench.frontier
    await frontier.add("c", [link(str(number)) for number in range(5)] + [link("1", host="b.test")])
    await frontier.hosts.set("b.test", interval=4.0, paused=True)
    for number, lease in enumerate(await taken(frontier, limit=2)):
        bench.clock.advance(10.0)
        fetched = structs.replace(page(number), elapsed=1.0 + number, wire_bytes=1000 * number)
        await frontier.settle([Settlement(lease, Done(fetched))])
    [lease] = await taken(frontier, limit=1)
    await frontier.settle([Settlement(lease, Gone(404))])

    measured = await frontier.reader.stats("c")
    assert (measured.pages, measured.latency, measured.wire_bytes, measured.span) == (2, 1.5, 500.0, 10.0)
    assert measured.hosts == [
        HostQueue("a.test", 2, 0.0, 1000, False),
        HostQueue("b.test", 1, 4.0, 1000, True),
    ]
