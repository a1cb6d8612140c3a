"""Slots and attempts: how many requests are in flight, and what becomes of each."""

import asyncio
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.engine.leased import lease

from shoal.archive.reader import StoredPage
from shoal.engine.attempts import PREFETCH, Attempts, Slots
from shoal.engine.counters import Counters
from shoal.fetch.contract import Attempt
from shoal.frontier import Validator
from shoal.model.errors import Unavailable
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Dead, Gone, Lease, Settlement
from shoal.model.page import PageRef, Response


class Site:
    """Answers when `answer` is set."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.answer = asyncio.Event()

    async def attempt(self, lease: Lease) -> None:
        self.asked.append(lease.fingerprint)
        await self.answer.wait()


async def settled_down() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_no_more_requests_are_in_flight_than_there_are_slots() -> None:
    site = Site()
    async with asyncio.TaskGroup() as group:
        slots = Slots(2, site.attempt, asyncio.Event())
        slots.open(group)
        for number in range(5):
            slots.put(lease(number))
        await settled_down()

        assert (site.asked, slots.active) == ([0, 1], 2)
        assert slots.room == 2 + PREFETCH - 5
        site.answer.set()
        await settled_down()
        assert (site.asked, slots.active) == ([0, 1, 2, 3, 4], 0)
        slots.close()


async def test_closing_returns_unused_leases_and_finishes_the_rest() -> None:
    site = Site()
    async with asyncio.TaskGroup() as group:
        slots = Slots(1, site.attempt, asyncio.Event())
        slots.open(group)
        for number in range(3):
            slots.put(lease(number))
        await settled_down()

        assert [unused.fingerprint for unused in slots.close()] == [1, 2]
        site.answer.set()
    assert site.asked == [0]


async def test_a_slot_asks_for_more_before_the_last_lease_is_started() -> None:
    wake = asyncio.Event()
    asked_before = []

    async def attempt(lease: Lease) -> None:
        asked_before.append(wake.is_set())

    async with asyncio.TaskGroup() as group:
        slots = Slots(1, attempt, wake)
        for number in range(PREFETCH):
            slots.put(lease(number))
        slots.open(group)
        await settled_down()
        slots.close()
    assert len(asked_before) == PREFETCH
    assert not asked_before[0]
    assert asked_before[-1]


class FakeFrontier:
    """A frontier that records what an attempt tells it."""

    def __init__(self, known: Mapping[int, Validator]) -> None:
        self.known = known
        self.landings: list[int] = []
        self.delays: list[tuple[str, float | None]] = []

    @property
    def hosts(self) -> "FakeFrontier":
        return self

    async def set(self, host: str, *, crawl_delay: float | None = None) -> None:
        self.delays.append((host, crawl_delay))

    def mark_landed(self, leases: Sequence[Lease]) -> None:
        self.landings += [lease.fingerprint for lease in leases]

    async def validators(self, crawl: str, fingerprints: Sequence[int]) -> Mapping[int, Validator]:
        return self.known


class FakeFetcher:
    """Answers with what a test has prepared, and records the validators it was asked with."""

    def __init__(self, answer: Attempt | Exception) -> None:
        self.answer = answer
        self.validators = ("", "")

    async def attempt(self, lease: Lease, *, etag: str = "", modified: str = "") -> Attempt:
        self.validators = (etag, modified)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class FakeStages:
    """Leases and the parse stage in one: what an attempt hands on."""

    def __init__(self, *, has_hook: bool = False, lost: bool = False) -> None:
        self.has_hook = has_hook
        self.lost = lost
        self.pages: list[Attempt] = []
        self.settled: list[Settlement] = []

    def lease_lost(self, lease: Lease) -> bool:
        return self.lost

    def settle(self, settlement: Settlement) -> None:
        self.settled.append(settlement)

    def take(self, attempt: Attempt, earlier: object, links: object) -> None:
        self.pages.append(attempt)

    def is_closed(self, url: str) -> bool:
        return False

    def take_failed(self, settlement: Settlement) -> bool:
        return self.has_hook


class FakeArchive:
    def earlier(self, ref: PageRef) -> StoredPage:
        headers = (("etag", '"v1"'), ("last-modified", "yesterday"))
        return StoredPage(ref, "http://a.test/1", 200, headers, b"", b"", 0.0, "digest")


class Bench:
    def __init__(
        self,
        answer: Attempt | Exception,
        stages: FakeStages | None = None,
        known: Mapping[int, Validator] = {},
    ) -> None:
        self.frontier, self.fetcher = FakeFrontier(known), FakeFetcher(answer)
        self.stages, self.counters = stages or FakeStages(), Counters()
        stations: Any = SimpleNamespace(
            crawl="c",
            frontier=self.frontier,
            fetcher=self.fetcher,
            pages=FakeArchive(),
            scope=None,
            site_budget=None,
        )
        either: Any = self.stages
        self.attempts = Attempts(stations, either, either, self.counters, either)

    async def make(self) -> None:
        await self.attempts.make(lease(1))


RESPONSE = Response("http://a.test/1", 200, (), b"body", b"wire!", fetched_at=0.0, elapsed=0.1)
TIMED_OUT = Dead(Failure(FailureClass.TIMEOUT, "slow"))


async def test_a_page_goes_to_the_parse_stage() -> None:
    bench = Bench(Attempt(lease(1), RESPONSE, parse=True))
    await bench.make()

    assert len(bench.stages.pages) == 1
    assert (bench.frontier.landings, bench.counters.bytes, bench.stages.settled) == ([1], 5, [])


async def test_a_failed_attempt_is_settled_and_counted() -> None:
    bench = Bench(Attempt(lease(1), outcome=TIMED_OUT, sent=True, blocked=True))
    await bench.make()

    [settlement] = bench.stages.settled
    assert (settlement.outcome, settlement.sent, settlement.blocked) == (TIMED_OUT, True, True)
    assert bench.counters.failures == {"timeout": 1}
    assert bench.frontier.landings == []


async def test_a_failed_attempt_with_a_hook_is_left_to_the_parse_stage() -> None:
    bench = Bench(Attempt(lease(1), outcome=TIMED_OUT), FakeStages(has_hook=True))
    await bench.make()

    assert (bench.stages.settled, bench.frontier.landings) == ([], [1])


async def test_a_request_whose_lease_has_expired_is_not_sent() -> None:
    bench = Bench(AssertionError("sent"), FakeStages(lost=True))
    await bench.make()

    assert (bench.stages.settled, bench.stages.pages) == ([], [])


@pytest.mark.parametrize(("delay", "recorded"), [(2.0, [("a.test", 2.0)]), (0.0, []), (None, [])])
async def test_a_crawl_delay_above_the_interval_is_recorded(
    delay: float | None, recorded: list[tuple[str, float]]
) -> None:
    bench = Bench(Attempt(lease(1), outcome=Gone(404), crawl_delay=delay))
    await bench.make()

    assert bench.frontier.delays == recorded


@pytest.mark.parametrize(
    ("etag", "sent"), [('"v1"', ('"v1"', "yesterday")), ("", ("", ""))], ids=["known", "without validators"]
)
async def test_a_page_of_the_previous_generation_is_revalidated(etag: str, sent: tuple[str, str]) -> None:
    validator = Validator(etag=etag, modified="", digest="", ref=PageRef("segment", 0, 1))
    bench = Bench(Attempt(lease(1), outcome=Gone(404)), known={1: validator})
    await bench.make()

    assert bench.fetcher.validators == sent


async def test_a_bug_costs_one_request_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(KeyError("a bug"))
    await bench.make()

    [settlement] = bench.stages.settled
    assert isinstance(settlement.outcome, Dead)
    assert settlement.outcome.failure.failure_class is FailureClass.INTERNAL
    assert caplog.messages == ["attempt.internal"]


async def test_an_unavailable_store_ends_the_crawl_and_not_the_request() -> None:
    bench = Bench(Unavailable("no response"))
    with pytest.raises(Unavailable):
        await bench.make()

    assert bench.stages.settled == []
