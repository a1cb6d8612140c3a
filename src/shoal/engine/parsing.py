"""Pages in hand: between their arrival and the commit that makes them count.

A page is archived at the moment it is settled and not before, so that one commit covers both: after a kill
the archive holds no page that the store would fetch again. As a rule that moment is the end of its parse. A
page whose parse takes long is settled earlier, as fetched, and acknowledged later. One whose lease has run
out by then is dropped.

A request that has failed for good, on the wire or in its handler, may have an `on_error` hook in the spider.
Then its end waits for what the hook has to say, and both are committed together. A hook that raises, hangs or
dies changes nothing about that end. After a kill the request is in hand again, and so is its hook.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncIterator, Set
from typing import Protocol, assert_never

import msgspec

from shoal.archive.errors import PageUnreadable
from shoal.archive.reader import StoredPage
from shoal.engine.counters import Counters
from shoal.engine.in_progress import Archived, Arrived, Barren, FailedParse, LeasedRequest, failure_of
from shoal.engine.pages import Pages
from shoal.engine.traps.traps import Traps
from shoal.fetch.contract import Attempt
from shoal.frontier.results import Unparsed
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Acknowledgement, Dead, Done, Fetched, Lease, Settlement
from shoal.model.page import PageRecord, ParseFault, ParseResult, ParseTask, Response
from shoal.model.request import Request, trace_id
from shoal.model.url import host_key
from shoal.parse.pool import ParsePool, Poisoned

log = logging.getLogger(__name__)

READS = 16  # pages read at once: an object store takes its time for each
BACKLOG = 512  # pages in the parse stage at which taking up archived ones pauses


class Ledger(Protocol):
    """Where outcomes are handed in."""

    def gave_up(self, lease: Lease) -> bool: ...
    def settle(self, settlement: Settlement, result: ParseResult | None = None) -> None: ...
    def acknowledge(self, acknowledgement: Acknowledgement, result: ParseResult | None = None) -> None: ...


class Parsing:
    """Takes pages in, has them parsed, and hands in what became of them.

    `elsewhere`: pages that were just fetched are only archived here; the bus brings them to who parses them.
    """

    def __init__(
        self,
        crawl: str,
        parser: ParsePool,
        pages: Pages,
        ledger: Ledger,
        tally: Counters,
        *,
        traps: Traps,
        hooks: Set[FailureClass] = frozenset(),
        elsewhere: bool = False,
        max_crashes: int,
        version: int = 0,
    ) -> None:
        self._crawl = crawl
        self._parser = parser
        self._pages = pages
        self._ledger = ledger
        self._tally = tally
        self._traps = traps
        self._hooks = hooks
        self._elsewhere = elsewhere
        self._max_crashes = max_crashes
        self._version = version  # of the spider
        self._in_hand: dict[int, Arrived | Archived | FailedParse] = {}  # by task id
        self._ids = itertools.count(1)
        self._fewer = asyncio.Event()

    def take(self, attempt: Attempt, earlier: StoredPage | None) -> None:
        """Take in a page that was just fetched."""
        assert attempt.response is not None
        if self._ledger.gave_up(attempt.lease):
            return
        arrived = Arrived(attempt, attempt.response, earlier, time.monotonic())
        if not attempt.parse:
            self._tally.pages += 1
            self._ledger.settle(Settlement(attempt.lease, Done(self._keep(arrived)), attempt.links))
            return
        lease = attempt.lease
        if self._elsewhere:
            self._tally.pages += 1
            self._tally.handed_on += 1
            self._ledger.settle(Settlement(lease, Fetched(self._keep(arrived)), attempt.links))
            return
        shown = self._pages.shown(attempt.response, earlier)
        self._submit(_task(next(self._ids), lease.fingerprint, lease.request, shown), arrived)

    def take_failed(self, settlement: Settlement) -> bool:
        """Take in the end of a request that brought no page, for its hook; False: no hook waits for it."""
        failure = failure_of(settlement.outcome)
        if failure is None or failure.failure_class not in self._hooks:
            return False
        self._ask(FailedParse(Barren(settlement), failure))
        return True

    async def take_up(self, unparsed: AsyncIterator[Unparsed]) -> None:
        """Take in pages that an earlier run, or another worker, has archived, as fast as they are parsed."""
        reading = asyncio.Semaphore(READS)
        async with asyncio.TaskGroup() as group:
            async for waiting in unparsed:
                while self._parser.backlog.pages >= BACKLOG:
                    self._fewer.clear()
                    await self._fewer.wait()
                await reading.acquire()
                task = group.create_task(self._take_up(waiting), name="take-up.read")
                task.add_done_callback(lambda _: reading.release())

    async def _take_up(self, waiting: Unparsed) -> None:
        archived = Archived(waiting.fingerprint, waiting.request, waiting.page, consumer=waiting.consumer)
        if waiting.strikes >= self._max_crashes:
            self._fail(archived, FailureClass.POISON, f"{waiting.strikes} workers died with it")
            return
        try:
            shown = await self._pages.recall(waiting.page.ref)
        except PageUnreadable as error:
            self._fail(archived, FailureClass.TRUNCATED, str(error))
            return
        task = _task(next(self._ids), waiting.fingerprint, waiting.request, shown)
        self._submit(task, archived)

    def settle_slow(self, *, patience: float) -> None:
        """Settle the pages that have been in hand for longer, as fetched: their leases are free then."""
        before = time.monotonic() - patience
        for id, hand in list(self._in_hand.items()):
            what = hand.what if isinstance(hand, FailedParse) else hand
            if not isinstance(what, Arrived) or what.since > before:
                continue
            attempt, lease = what.attempt, what.attempt.lease
            if self._ledger.gave_up(lease):
                continue  # noticed again when its parse ends
            page = self._keep(what)
            archived = Archived(lease.fingerprint, lease.request, page, lease.attempt)
            self._in_hand[id] = (
                FailedParse(archived, hand.failure) if isinstance(hand, FailedParse) else archived
            )
            self._ledger.settle(Settlement(lease, Fetched(page), attempt.links))

    async def until_empty(self) -> None:
        """Wait until every page in hand is parsed."""
        while self._in_hand:
            self._fewer.clear()
            await self._fewer.wait()

    def _submit(self, task: ParseTask, hand: Arrived | Archived | FailedParse) -> None:
        self._in_hand[task.id] = hand
        self._parser.submit(task, self._answered)

    def _ask(self, failed: FailedParse) -> None:
        self._submit(failed.task(next(self._ids)), failed)

    def _answered(self, answer: ParseResult | Poisoned) -> None:
        hand = self._in_hand.pop(answer.id)
        self._fewer.set()
        what = hand.what if isinstance(hand, FailedParse) else hand
        if isinstance(what, LeasedRequest) and self._ledger.gave_up(what.lease):
            return
        if isinstance(hand, FailedParse):
            self._end(hand.what, hand.failure, self._heard(hand, answer))
        elif isinstance(answer, Poisoned):
            self._fail(hand, FailureClass.POISON, f"{answer.cause}: {answer.reason}")
        elif answer.fault is not None:
            facts = {"reason": answer.fault.reason, "detail": answer.fault.detail}
            log.warning("page.parse_error", extra={"trace": trace_id(hand.fingerprint), **facts})
            self._fail(hand, answer.fault.failure_class, answer.fault.reason)
        else:
            result = self._traps.sift(answer, hand.request.url)
            self._tally.page(result)
            self._end(hand, None, result)

    def _fail(self, hand: Arrived | Archived, kind: FailureClass, reason: str) -> None:
        """End a page that was not parsed: it brings nothing but what its hook, if there is one, yields."""
        failed = FailedParse(hand, Failure(kind, reason, hand.status))
        self._tally.failures[kind] += 1
        if kind in self._hooks:
            self._ask(failed)
        else:
            self._end(hand, failed.failure)

    def _heard(self, failed: FailedParse, answer: ParseResult | Poisoned) -> ParseResult:
        """Take what a hook said; its own fault is counted, and changes nothing else."""
        if isinstance(answer, Poisoned):
            answer = ParseResult(answer.id, fault=ParseFault(f"{answer.cause}: {answer.reason}"))
        result = self._traps.sift(answer, failed.what.request.url)
        self._tally.hook(result)
        if result.fault is not None:
            facts = {"reason": result.fault.reason, "detail": result.fault.detail}
            about = {"trace": trace_id(failed.what.fingerprint), "failure": failed.failure.failure_class}
            log.warning("hook.failed", extra={**about, **facts})
        return result

    def _end(
        self, hand: Arrived | Archived | Barren, failure: Failure | None, result: ParseResult | None = None
    ) -> None:
        """Hand in how something in hand ended, and what came of it: one step for the ledger."""
        links = () if result is None else result.links
        match hand:
            case Arrived(attempt=attempt):
                outcome = self._outcome(self._keep(hand), failure, result)
                self._ledger.settle(Settlement(attempt.lease, outcome, attempt.links + links), result)
            case Archived(fingerprint=fingerprint, request=request, page=page, consumer=consumer):
                acknowledgement = Acknowledgement(
                    self._crawl,
                    fingerprint,
                    self._outcome(page, failure, result),
                    links,
                    host=host_key(request.url),
                    consumer=consumer,
                )
                self._ledger.acknowledge(acknowledgement, result)
            case Barren(settlement=settlement):
                self._ledger.settle(msgspec.structs.replace(settlement, links=links), result)
            case _:
                assert_never(hand)

    def _outcome(self, page: PageRecord, failure: Failure | None, result: ParseResult | None) -> Done | Dead:
        if failure is not None:
            return Dead(failure, page.parsed(items=0, links=0, version=self._version))
        assert result is not None
        return Done(page.parsed(items=len(result.items), links=len(result.links), version=self._version))

    def _keep(self, arrived: Arrived) -> PageRecord:
        attempt = arrived.attempt
        return self._pages.keep(attempt.lease.request, attempt.headers, arrived.response, arrived.earlier)


def _task(id: int, fingerprint: int, request: Request, page: Response | StoredPage) -> ParseTask:
    return ParseTask(
        id, fingerprint, request, page.url, page.status, page.headers, page.body, page.fetched_at
    )
