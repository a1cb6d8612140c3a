"""Pages in hand: between their arrival and the commit that makes them count.

A page is archived at the moment it is settled and not before, so that one commit covers both: after a kill
the archive holds no page that the store would fetch again. As a rule that moment is the end of its parse. A
page whose parse takes long is settled earlier, as fetched, and acknowledged later. One whose lease has run
out by then is dropped.
"""

import asyncio
import itertools
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

import msgspec

from shoal.archive.errors import PageUnreadable
from shoal.archive.reader import StoredPage
from shoal.fetch.attempt import Attempt
from shoal.frontier.answers import Unparsed
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Acknowledgement, Dead, Done, Fetched, Lease, Settlement
from shoal.model.page import PageRecord, ParseResult, ParseTask, Response
from shoal.model.request import Request, trace_id
from shoal.parse.pool import ParsePool, Poisoned
from shoal.runtime.pages import Pages
from shoal.runtime.quarantine import Quarantine
from shoal.runtime.tally import Tally

log = logging.getLogger(__name__)

PATIENCE = 2.0  # seconds after which a page is settled although its parse has not ended
BACKLOG = 512  # pages in the parse stage at which taking up archived ones pauses


class Ledger(Protocol):
    """Where outcomes are handed in."""

    def gave_up(self, lease: Lease) -> bool: ...
    def settle(self, settlement: Settlement, result: ParseResult | None = None) -> None: ...
    def acknowledge(self, acknowledgement: Acknowledgement, result: ParseResult | None = None) -> None: ...


@dataclass(slots=True)
class Arrived:
    """A page that only we have: fetched, not archived, its lease not settled."""

    attempt: Attempt
    response: Response
    earlier: StoredPage | None
    since: float


@dataclass(slots=True)
class Archived:
    """A page that is settled as fetched; its links and items are still to come."""

    fingerprint: int
    page: PageRecord


class Parsing:
    """Takes pages in, has them parsed, and hands in what became of them."""

    def __init__(
        self,
        crawl: str,
        parser: ParsePool,
        pages: Pages,
        ledger: Ledger,
        tally: Tally,
        *,
        quarantine: Quarantine,
    ) -> None:
        self._crawl = crawl
        self._parser = parser
        self._pages = pages
        self._ledger = ledger
        self._tally = tally
        self._quarantine = quarantine
        self._in_hand: dict[int, Arrived | Archived] = {}  # by task id
        self._ids = itertools.count(1)
        self._fewer = asyncio.Event()

    def take(self, attempt: Attempt, earlier: StoredPage | None) -> None:
        """Take in a page that was just fetched."""
        assert attempt.response is not None
        if self._ledger.gave_up(attempt.lease):
            return
        if not attempt.parse:
            self._tally.pages += 1
            page = self._keep(attempt, attempt.response, earlier)
            self._ledger.settle(Settlement(attempt.lease, Done(page), attempt.links))
            return
        lease = attempt.lease
        shown = self._pages.shown(attempt.response, earlier)
        arrived = Arrived(attempt, attempt.response, earlier, time.monotonic())
        self._submit(_task(next(self._ids), lease.fingerprint, lease.request, shown), arrived)

    async def take_up(self, unparsed: AsyncIterator[Unparsed]) -> None:
        """Take in the pages that an earlier run archived and did not parse, as fast as they are parsed."""
        async for waiting in unparsed:
            while self._parser.backlog.pages >= BACKLOG:
                self._fewer.clear()
                await self._fewer.wait()
            try:
                shown = self._pages.recall(waiting.page.ref)
            except PageUnreadable as error:
                failure = Failure(FailureClass.TRUNCATED, str(error), waiting.page.status)
                self._acknowledge(waiting.fingerprint, Dead(failure, waiting.page))
                continue
            task = _task(next(self._ids), waiting.fingerprint, waiting.request, shown)
            self._submit(task, Archived(waiting.fingerprint, waiting.page))

    def settle_slow(self, *, patience: float = PATIENCE) -> None:
        """Settle the pages that have been in hand for long, as fetched: their leases are free then."""
        before = time.monotonic() - patience
        for id, hand in list(self._in_hand.items()):
            if isinstance(hand, Arrived) and hand.since <= before:
                attempt = hand.attempt
                if self._ledger.gave_up(attempt.lease):
                    continue  # noticed again when its parse ends
                page = self._keep(attempt, hand.response, hand.earlier)
                self._in_hand[id] = Archived(attempt.lease.fingerprint, page)
                self._ledger.settle(Settlement(attempt.lease, Fetched(page), attempt.links))

    async def until_empty(self) -> None:
        """Wait until every page in hand is parsed."""
        while self._in_hand:
            self._fewer.clear()
            await self._fewer.wait()

    def _submit(self, task: ParseTask, hand: Arrived | Archived) -> None:
        self._in_hand[task.id] = hand
        self._parser.submit(task, self._parsed)

    def _parsed(self, answer: ParseResult | Poisoned) -> None:
        hand = self._in_hand.pop(answer.id)
        self._fewer.set()
        match hand:
            case Arrived():
                attempt = hand.attempt
                if self._ledger.gave_up(attempt.lease):
                    return
                page = self._keep(attempt, hand.response, hand.earlier)
                outcome, result = self._judged(attempt.lease.fingerprint, page, answer)
                links = attempt.links if result is None else attempt.links + result.links
                self._ledger.settle(Settlement(attempt.lease, outcome, links), result)
            case Archived():
                outcome, result = self._judged(hand.fingerprint, hand.page, answer)
                self._acknowledge(hand.fingerprint, outcome, result)

    def _judged(
        self, fingerprint: int, page: PageRecord, answer: ParseResult | Poisoned
    ) -> tuple[Done | Dead, ParseResult | None]:
        """Turn a parse into an outcome and what it brought: all of it, or nothing."""
        if isinstance(answer, Poisoned):
            failure = Failure(FailureClass.POISON, f"{answer.kind}: {answer.reason}", page.status)
        elif answer.fault is not None:
            failure = Failure(answer.fault.kind, answer.fault.reason, page.status)
            facts = {"reason": answer.fault.reason, "detail": answer.fault.detail}
            log.warning("page.parse_error", extra={"trace": trace_id(fingerprint), **facts})
        else:
            answer = self._sifted(answer)
            self._tally.page(answer)
            page = page.parsed(items=len(answer.items), links=len(answer.links))
            return Done(page), answer
        self._tally.failures[failure.kind] += 1
        return Dead(failure, page), None

    def _sifted(self, result: ParseResult) -> ParseResult:
        """Take the links of quarantined patterns out, counted by rule like those that a child drops."""
        links = self._quarantine.admitted(result.links)
        if len(links) == len(result.links):
            return result
        dropped = Counter(result.dropped) + Counter({FailureClass.TRAP.value: len(result.links) - len(links)})
        return msgspec.structs.replace(result, links=tuple(links), dropped=dict(dropped))

    def _keep(self, attempt: Attempt, response: Response, earlier: StoredPage | None) -> PageRecord:
        return self._pages.keep(attempt.lease.request, attempt.headers, response, earlier)

    def _acknowledge(self, fingerprint: int, outcome: Done | Dead, result: ParseResult | None = None) -> None:
        links = () if result is None else result.links
        self._ledger.acknowledge(Acknowledgement(self._crawl, fingerprint, outcome, links), result)


def _task(id: int, fingerprint: int, request: Request, page: Response | StoredPage) -> ParseTask:
    return ParseTask(
        id, fingerprint, request, page.url, page.status, page.headers, page.body, page.fetched_at
    )
