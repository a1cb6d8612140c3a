"""Parsing: what becomes of each page, by its stage and by the answer of the parse children."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

import msgspec
import pytest
from tests.unit.engine.leased import lease

from shoal.archive.errors import PageUnreadable
from shoal.archive.reader import StoredPage
from shoal.engine.counters import Counters
from shoal.engine.fetchers import Pools
from shoal.engine.generations.earlier import PageResult
from shoal.engine.parsing import Parsing, check_items
from shoal.fetch.contract import Attempt
from shoal.frontier.results import Unparsed
from shoal.frontier.rules import host_signal
from shoal.model.adaptive_delay import Signal
from shoal.model.configuration.block_rules import BlockRules
from shoal.model.errors import Rejected
from shoal.model.failure import Failure, FailureClass
from shoal.model.generations.all_links import unpack_all
from shoal.model.outcome import (
    Acknowledgement,
    Dead,
    Done,
    Fetched,
    Gone,
    Lease,
    Outcome,
    Retry,
    RetryRules,
    Settlement,
)
from shoal.model.page import Item, PageRecord, PageRef, ParseFault, ParseResult, ParseTask, Response
from shoal.model.request import Link, Request, unpack
from shoal.parse.pool import Poisoned
from shoal.parse.verdict import PoisonCause

RECORD = PageRecord(PageRef("segment", 0, 1), 200, 0.0)
FOLLOWED = Link.to(Request(url="http://a.test/followed"))  # by the fetcher: a Refresh header
FOUND = Link.to(Request(url="http://a.test/found"))  # by the spider
ITEM = Item("key", b"{}")
Answer = ParseResult | Poisoned


@dataclass
class FakeParser:
    """Collects tasks; a test answers them."""

    pages: int = 0
    bytes: int = 0
    tasks: list[tuple[ParseTask, Callable[[Answer], None]]] = field(default_factory=list)

    @property
    def backlog(self) -> "FakeParser":
        return self

    def submit(self, task: ParseTask, on_answer: Callable[[Answer], None]) -> None:
        self.tasks.append((task, on_answer))

    def answer(self, make: Callable[[int], Answer]) -> ParseTask:
        task, on_answer = self.tasks.pop(0)
        on_answer(make(task.id))
        return task


@dataclass
class FakePages:
    """An archive that counts what it keeps."""

    kept: int = 0
    results: list[PageResult] = field(default_factory=list)
    unreadable: bool = False

    def keep(self, request: Request, sent: object, response: Response, earlier: object) -> PageRecord:
        self.kept += 1
        return RECORD

    def visible_page(self, response: Response, earlier: object) -> Response | StoredPage:
        return response

    def keep_result(self, url: str, result: PageResult, at: float) -> PageRef:
        self.results.append(result)
        return PageRef("segment", len(self.results), 1)

    async def read_result(self, ref: PageRef) -> PageResult | None:
        return None

    async def read(self, ref: PageRef) -> StoredPage:
        if self.unreadable:
            raise PageUnreadable("damaged")
        return StoredPage(ref, "http://a.test/9", 200, (), b"", b"", 0.0, "digest")


@dataclass
class FakeLedger:
    """Records what is handed in; `expired` leases are lost."""

    expired: bool = False
    settled: list[tuple[Settlement, ParseResult | None]] = field(default_factory=list)
    acknowledged: list[tuple[Acknowledgement, ParseResult | None]] = field(default_factory=list)

    def lease_lost(self, lease: Lease) -> bool:
        return self.expired

    def settle(self, settlement: Settlement, result: ParseResult | None = None) -> None:
        self.settled.append((settlement, result))

    def acknowledge(self, acknowledgement: Acknowledgement, result: ParseResult | None = None) -> None:
        self.acknowledged.append((acknowledgement, result))

    @property
    def outcomes(self) -> list[Outcome]:
        settled: list[Outcome] = [settlement.outcome for settlement, _ in self.settled]
        return settled + [acknowledgement.outcome for acknowledgement, _ in self.acknowledged]


class NoTraps:
    def filter_links(self, links: tuple[Link, ...], result: ParseResult, url: str) -> tuple[Link, ...]:
        return links


class AnyScope:
    def links_of(self, packed: Sequence[bytes], *, found_on: int, page: Request) -> tuple[Link, ...]:
        return tuple(Link.to(unpack(one)) for one in packed)

    def carried_links(self, packed: bytes, *, found_on: int, page: Request) -> tuple[tuple[Link, ...], int]:
        links = unpack_all(packed, limit=1 << 20)
        return tuple(Link.to(Request(url=url)) for url in links.urls), 0

    def forget_sent_links(self) -> None:
        pass


class Bench:
    def __init__(
        self,
        *hooks: FailureClass,
        archive_only: bool = False,
        pools: Pools | None = None,
    ) -> None:
        self.parser, self.pages, self.ledger = FakeParser(), FakePages(), FakeLedger()
        self.counters = Counters()
        self.parsing = Parsing(
            "c",
            self.parser,
            self.pages,
            self.ledger,
            self.counters,
            scope=AnyScope(),
            traps=NoTraps(),
            pools=pools or Pools(),
            spider="shop",
            hooks=frozenset(hooks),
            archive_only=archive_only,
            max_crashes=3,
            blocked_if=BlockRules(["status: 200 and selector: #captcha"]),
            retry=RetryRules(max_retries=1),
        )

    def take(self, *, parse: bool = True, attempt: int = 1, unsealed: bool = False) -> None:
        response = Response(
            "http://a.test/1", 200, (), b"body", b"body", fetched_at=0.0, elapsed=0.1, unsealed=unsealed
        )
        held = msgspec.structs.replace(lease(1), attempt=attempt)
        signal = Signal.NORMAL
        self.parsing.take(Attempt(held, response, parse=parse, signal=signal), None, (FOLLOWED,))

    async def take_archived(self, *, strikes: int = 0) -> None:
        async def unparsed() -> AsyncIterator[Unparsed]:
            yield Unparsed(9, Request(url="http://a.test/9"), RECORD, strikes=strikes, consumer="w1")

        await self.parsing.take_archived(unparsed())


def parsed(id: int) -> ParseResult:
    return ParseResult(id, items=(ITEM,), requests=(FOUND.packed,))


def raised(id: int) -> ParseResult:
    return ParseResult(id, fault=ParseFault("ValueError: no price"))


def blocked(id: int) -> ParseResult:
    return ParseResult(id, fault=ParseFault("a wall", failure_class=FailureClass.ANTI_BOT))


def died(id: int) -> Poisoned:
    return Poisoned(id, PoisonCause.CRASH, "signal 11")


def failures(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    return [
        (outcome.failure.failure_class.value, outcome.failure.reason)
        for outcome in outcomes
        if isinstance(outcome, Dead)
    ]


@pytest.mark.parametrize("unsealed", [False, True])
def test_a_page_whose_end_nothing_marks_is_partial(unsealed: bool) -> None:
    bench = Bench()
    bench.take(unsealed=unsealed)

    bench.parser.answer(parsed)

    [(_, result)] = bench.ledger.settled
    assert result is not None
    assert bool(result.partial) is unsealed
    assert bench.counters.partial == unsealed


def test_a_parsed_page_is_archived_and_settled_with_its_links_and_items() -> None:
    bench = Bench()
    bench.take()
    assert (bench.pages.kept, bench.ledger.settled) == (0, [])

    bench.parser.answer(parsed)

    [(settlement, result)] = bench.ledger.settled
    assert settlement.outcome == Done(RECORD.parsed(items=1, links=1, version=0))
    assert settlement.links == (FOLLOWED, FOUND)
    assert result is not None
    assert result.items == (ITEM,)
    assert (bench.pages.kept, bench.counters.pages, bench.counters.items) == (1, 1, 1)


def test_a_response_that_is_not_for_the_spider_is_settled_at_once() -> None:
    bench = Bench()
    bench.take(parse=False)

    assert bench.ledger.outcomes == [Done(RECORD)]
    assert not bench.parser.tasks


def test_a_worker_that_does_not_parse_settles_pages_as_fetched() -> None:
    bench = Bench(archive_only=True)
    bench.take()

    assert bench.ledger.outcomes == [Fetched(RECORD)]
    assert bench.counters.handed_on == 1


def test_a_page_whose_lease_has_expired_is_discarded_on_arrival_and_after_its_parse() -> None:
    bench = Bench()
    bench.take()
    bench.ledger.expired = True
    bench.take()
    assert len(bench.parser.tasks) == 1

    bench.parser.answer(parsed)

    assert (bench.ledger.outcomes, bench.pages.kept) == ([], 0)


def test_a_block_that_the_parse_finds_is_retried_and_not_archived() -> None:
    bench = Bench()
    bench.take()
    [(task, _)] = bench.parser.tasks
    assert task.blocked_if == (("#captcha",),)
    bench.parser.answer(blocked)

    [(settlement, _)] = bench.ledger.settled
    assert isinstance(settlement.outcome, Retry)
    assert (settlement.signal, settlement.links, bench.pages.kept) == (None, (), 0)
    assert host_signal(settlement) is Signal.CHALLENGED


async def test_a_block_that_cannot_be_retried_is_dead_with_its_page() -> None:
    bench = Bench()
    bench.take(attempt=2)
    await bench.take_archived()
    bench.parser.answer(blocked)
    bench.parser.answer(blocked)

    assert failures(bench.ledger.outcomes) == [("anti_bot", "a wall")] * 2
    assert host_signal(bench.ledger.settled[0][0]) is Signal.CHALLENGED


@pytest.mark.parametrize(
    ("answer", "failure"),
    [(raised, ("parse_error", "ValueError: no price")), (died, ("poison", "crash: signal 11"))],
)
def test_a_page_that_cannot_be_parsed_is_archived_and_dead(
    answer: Callable[[int], Answer], failure: tuple[str, str]
) -> None:
    bench = Bench()
    bench.take()
    bench.parser.answer(answer)

    assert failures(bench.ledger.outcomes) == [failure]
    assert bench.pages.kept == 1


def test_a_slow_page_is_settled_as_fetched_and_acknowledged_later() -> None:
    bench = Bench()
    bench.take()
    bench.parsing.settle_slow(after=math.inf)
    assert bench.ledger.settled == []

    bench.parsing.settle_slow(after=-1.0)
    bench.parsing.settle_slow(after=-1.0)  # a page is settled only once
    bench.parser.answer(parsed)

    [(settlement, _)] = bench.ledger.settled
    [(acknowledgement, result)] = bench.ledger.acknowledged
    assert (settlement.outcome, settlement.links) == (Fetched(RECORD), (FOLLOWED,))
    assert acknowledgement.links == (FOUND,)
    assert result is not None
    assert bench.pages.kept == 1


async def test_an_archived_page_is_read_and_acknowledged() -> None:
    bench = Bench()
    await bench.take_archived()
    bench.parser.answer(parsed)

    [(acknowledgement, _)] = bench.ledger.acknowledged
    assert (acknowledgement.fingerprint, acknowledgement.host, acknowledgement.consumer) == (
        9,
        "a.test",
        "w1",
    )
    assert isinstance(acknowledgement.outcome, Done)


@pytest.mark.parametrize(
    ("strikes", "unreadable", "failure"),
    [(3, False, ("poison", "3 workers died with it")), (0, True, ("truncated", "damaged"))],
)
async def test_an_archived_page_that_kills_workers_or_cannot_be_read_is_dead(
    strikes: int, unreadable: bool, failure: tuple[str, str]
) -> None:
    bench = Bench()
    bench.pages.unreadable = unreadable
    await bench.take_archived(strikes=strikes)

    assert failures(bench.ledger.outcomes) == [failure]
    assert not bench.parser.tasks


@pytest.mark.parametrize(
    ("outcome", "waits"),
    [
        (Dead(Failure(FailureClass.TIMEOUT, "slow")), True),
        (Dead(Failure(FailureClass.DNS, "unknown")), False),
        (Gone(404), True),
        (Retry(Failure(FailureClass.TIMEOUT, "slow"), 1.0), False),
    ],
)
def test_only_a_request_that_fails_for_good_waits_for_its_hook(outcome: Outcome, waits: bool) -> None:
    bench = Bench(FailureClass.TIMEOUT, FailureClass.GONE)

    assert bench.parsing.take_failed(Settlement(lease(1), outcome)) is waits
    assert len(bench.parser.tasks) == waits


@pytest.mark.parametrize("answer", [parsed, raised, died])
def test_a_hook_does_not_change_how_its_request_ends(answer: Callable[[int], Answer]) -> None:
    bench = Bench(FailureClass.TIMEOUT)
    end = Dead(Failure(FailureClass.TIMEOUT, "slow"))
    bench.parsing.take_failed(Settlement(lease(1), end))

    task = bench.parser.answer(answer)

    assert task.final_failure is not None
    [(settlement, result)] = bench.ledger.settled
    assert settlement.outcome == end
    assert settlement.links == ((FOUND,) if answer is parsed else ())
    assert result is not None
    assert bench.counters.hook_faults == (answer is not parsed)


def test_a_failed_parse_runs_the_hook_and_then_ends_with_what_it_yields() -> None:
    bench = Bench(FailureClass.PARSE_ERROR)
    bench.take()
    bench.parser.answer(raised)
    assert bench.ledger.settled == []

    bench.parser.answer(parsed)

    [(settlement, _)] = bench.ledger.settled
    assert failures([settlement.outcome]) == [("parse_error", "ValueError: no price")]
    assert settlement.links == (FOLLOWED, FOUND)


def test_a_link_of_a_pool_that_is_not_served_makes_its_page_a_parse_error() -> None:
    bench = Bench(pools=Pools(exclusive=True))
    link = Link.to(Request(url="http://a.test/app", pool="elsewhere"))
    bench.take()
    bench.parser.answer(lambda id: ParseResult(id, items=(ITEM,), requests=(FOUND.packed, link.packed)))

    reason = "spider 'shop': no fetcher on this machine serves the pool 'elsewhere'; known pools: http"
    assert failures(bench.ledger.outcomes) == [("parse_error", reason)]
    assert bench.ledger.settled[0][0].links == (FOLLOWED,)


def test_in_a_fleet_a_link_of_another_pool_is_kept_for_other_workers() -> None:
    bench = Bench()
    link = Link.to(Request(url="http://a.test/app", pool="browser"))
    bench.take()
    bench.parser.answer(lambda id: ParseResult(id, requests=(link.packed,)))

    assert bench.ledger.settled[0][0].links == (FOLLOWED, link)


async def test_it_waits_until_every_page_is_parsed() -> None:
    bench = Bench()
    bench.take()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(bench.parsing.wait_until_empty())
        await asyncio.sleep(0)
        assert not waiting.done()
        bench.parser.answer(parsed)


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        (b'{"a": "\\n"}', True),
        (b'{"a":\n1}', False),
        (b'{"a": 1}\n', False),
        (b"[1]", False),
        (b'{"a": ', False),
        (b"[" * 100_000, False),
    ],
    ids=["escaped line break", "line break inside", "line break at the end", "list", "cut off", "nested"],
)
@pytest.mark.parametrize("place", ["items", "rejected"])
def test_an_item_that_is_not_an_object_on_one_line_is_refused(text: bytes, valid: bool, place: str) -> None:
    result = msgspec.structs.replace(ParseResult(0), **{place: (Item("k", text),)})
    with nullcontext() if valid else pytest.raises(Rejected):
        check_items(result)
