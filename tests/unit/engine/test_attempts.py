"""Slots and attempts: how many requests are in flight, and what becomes of each."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.unit.engine.leased import lease

from shoal.engine.attempts import PREFETCH, Attempts, Slots, prefetch
from shoal.engine.counters import Counters
from shoal.engine.generations.earlier import EarlierPage, PageResult, ParseIdentity
from shoal.fetch.contract import Attempt
from shoal.model.adaptive_delay import Signal
from shoal.model.errors import Unavailable
from shoal.model.failure import Failure, FailureClass
from shoal.model.generations.page_history import PageHistory, pack_history
from shoal.model.outcome import Dead, Filtered, Gone, Lease, Settlement
from shoal.model.page import PageRef, Response
from shoal.model.request import Request
from shoal.model.scope import Scope


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
        assert (
            slots.room(2) == 2 - 5
        )  # none has ended: what is queued beyond the slots waits for other workers
        site.answer.set()
        await settled_down()
        assert (site.asked, slots.active) == ([0, 1, 2, 3, 4], 0)
        assert slots.room(2) == 2 + PREFETCH
        slots.close()


@pytest.mark.parametrize(
    ("slots", "attempt_s", "queued"),
    [
        (4, math.inf, 0),  # nothing is known yet
        (4, 6.0, 0),
        (4, 0.5, 8),
        (64, 2.0, PREFETCH),
        (64, 0.05, PREFETCH),
        (1, 0.0, PREFETCH),
    ],
)
def test_leases_are_queued_for_a_second_of_work(slots: int, attempt_s: float, queued: int) -> None:
    assert prefetch(slots, attempt_s) == queued


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

    def __init__(self, known: Mapping[int, bytes]) -> None:
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

    async def earlier_pages(
        self, crawl: str, fingerprints: Sequence[int], *, host: str = ""
    ) -> Mapping[int, bytes]:
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

    async def holds_back(self, url: str, read_released: object) -> str:
        return ""

    def take_failed(self, settlement: Settlement) -> bool:
        return self.has_hook


class FakeScope:
    """A spider whose handlers take pages of any status, or of none."""

    def __init__(self, *, takes: bool) -> None:
        self._takes = takes

    async def takes(self, request: object, url: str, status: int) -> bool:
        return self._takes


class FakeArchive:
    """An archive that has a result for each page of the previous generation."""

    async def earlier(self, history: PageHistory, identity: bytes) -> EarlierPage:
        ref = PageRef("segment", 0, 1)
        result = PageResult("http://a.test/1", 200, '"v1"', "yesterday", "sha1:x", ref, 0.0, identity)
        return EarlierPage(history, result if history.result else None, reusable=bool(history.result))

    async def compare(self, response: Response, earlier: EarlierPage) -> EarlierPage:
        return earlier.compared(unchanged=response.status == 304)


class FakeBudget:
    """The pages that a site has left."""

    def __init__(self, left: int) -> None:
        self.left = left

    async def take(self, site: str) -> bool:
        self.left -= 1
        return self.left >= 0


class Bench:
    def __init__(
        self,
        answer: Attempt | Exception,
        stages: FakeStages | None = None,
        known: Mapping[int, bytes] = {},
        *,
        takes: bool = False,
        site_budget: FakeBudget | None = None,
    ) -> None:
        self.frontier, self.fetcher = FakeFrontier(known), FakeFetcher(answer)
        self.stages, self.counters = stages or FakeStages(), Counters()
        stations: Any = SimpleNamespace(
            crawl="c",
            frontier=self.frontier,
            fetcher=self.fetcher,
            pages=FakeArchive(),
            scope=FakeScope(takes=takes),
            site_budget=site_budget,
            identity=ParseIdentity("v1", Scope()),
            parser=SimpleNamespace(description=SimpleNamespace(statuses=frozenset({403, 404}))),
        )
        either: Any = self.stages
        self.attempts = Attempts(stations, either, either, self.counters, either)

    async def make(self, leased: Lease | None = None) -> None:
        await self.attempts.make(leased or lease(1))


RESPONSE = Response("http://a.test/1", 200, (), b"body", b"wire!", fetched_at=0.0, elapsed=0.1)
TIMED_OUT = Dead(Failure(FailureClass.TIMEOUT, "slow"))


async def test_a_page_goes_to_the_parse_stage() -> None:
    bench = Bench(Attempt(lease(1), RESPONSE, parse=True))
    await bench.make()

    assert len(bench.stages.pages) == 1
    assert (bench.frontier.landings, bench.counters.bytes, bench.stages.settled) == ([1], 5, [])


async def test_a_failed_attempt_is_settled_and_counted() -> None:
    bench = Bench(Attempt(lease(1), outcome=TIMED_OUT, sent=True, signal=Signal.TIMED_OUT))
    await bench.make()

    [settlement] = bench.stages.settled
    assert (settlement.outcome, settlement.sent, settlement.signal) == (TIMED_OUT, True, Signal.TIMED_OUT)
    assert bench.counters.failures == {"timeout": 1}
    assert bench.frontier.landings == []


def answered(status: int, outcome: Gone | Dead) -> Attempt:
    response = Response("http://a.test/1", status, (), b"body", b"wire!", fetched_at=0.0, elapsed=0.1)
    return Attempt(lease(1), response, outcome=outcome, signal=Signal.FORBIDDEN)


GONE = Gone(404)
FORBIDDEN = Dead(Failure(FailureClass.IP_BLOCKED, "status 403", 403))
CHALLENGE = Dead(Failure(FailureClass.ANTI_BOT, "a challenge", 403))
SERVER_ERROR = Dead(Failure(FailureClass.TARGET_ERROR, "status 500", 500))


@pytest.mark.parametrize(("status", "outcome"), [(404, GONE), (403, FORBIDDEN)])
async def test_a_failed_status_that_a_handler_takes_is_a_page(status: int, outcome: Gone | Dead) -> None:
    bench = Bench(answered(status, outcome), takes=True)
    await bench.make()

    [page] = bench.stages.pages
    assert (page.outcome, page.parse, page.signal, bench.stages.settled) == (None, True, Signal.NORMAL, [])


@pytest.mark.parametrize(
    ("status", "outcome", "takes"),
    [(404, GONE, False), (403, CHALLENGE, True), (500, SERVER_ERROR, True)],
    ids=["no handler takes it", "a challenge", "no handler names the status"],
)
async def test_other_failed_statuses_stay_failures(status: int, outcome: Gone | Dead, takes: bool) -> None:
    bench = Bench(answered(status, outcome), takes=takes)
    await bench.make()

    assert ([one.outcome for one in bench.stages.settled], bench.stages.pages) == ([outcome], [])


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
    ("result", "sent"),
    [(PageRef("segment", 9, 1), ('"v1"', "yesterday")), (None, ("", ""))],
    ids=["known", "without a result"],
)
async def test_a_page_of_the_previous_generation_is_revalidated(
    result: PageRef | None, sent: tuple[str, str]
) -> None:
    known = {1: pack_history(PageHistory(status=200, result=result))}
    bench = Bench(Attempt(lease(1), outcome=Gone(404)), known=known)
    await bench.make()

    assert bench.fetcher.validators == sent


async def test_a_record_that_cannot_be_read_is_as_good_as_none() -> None:
    bench = Bench(Attempt(lease(1), outcome=Gone(404)), known={1: b"junk"})
    await bench.make()

    assert bench.fetcher.validators == ("", "")


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


async def test_a_retry_does_not_spend_the_budget_of_its_site_again() -> None:
    bench = Bench(Attempt(lease(1), RESPONSE, parse=True), site_budget=FakeBudget(1))
    for attempt in (1, 2):
        await bench.make(msgspec.structs.replace(lease(1), attempt=attempt))
    assert len(bench.stages.pages) == 2

    await bench.make(lease(2))
    [settlement] = bench.stages.settled
    assert isinstance(settlement.outcome, Filtered)
    assert settlement.outcome.rule is FailureClass.BUDGET


def stored(url: str, host: str = "a.test") -> Lease:
    return msgspec.structs.replace(lease(1, host=host), request=Request(url=url))


@pytest.mark.parametrize(
    ("leased", "wrong"),
    [
        (stored("http://a.test/"), None),
        (stored("http://a.test./", host="a.test."), None),  # queued by an earlier version
        (stored(""), FailureClass.UNREADABLE),
        (stored("http://A.test/"), FailureClass.POISON),
        (stored("http://a.test/x/../y"), FailureClass.POISON),
        (stored("not a URL"), FailureClass.POISON),
        (stored("ftp://a.test/"), FailureClass.POISON),
        (stored("http://a.test/", host="b.test"), FailureClass.POISON),
    ],
    ids=lambda value: value.request.url or "unreadable" if isinstance(value, Lease) else None,
)
async def test_a_stored_request_that_is_wrong_is_never_sent(
    leased: Lease, wrong: FailureClass | None
) -> None:
    bench = Bench(Attempt(leased, RESPONSE, parse=True))
    await bench.make(leased)

    ends = [
        one.outcome.failure.failure_class for one in bench.stages.settled if isinstance(one.outcome, Dead)
    ]
    assert (ends, len(bench.stages.pages)) == (([], 1) if wrong is None else ([wrong], 0))
