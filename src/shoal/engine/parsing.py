"""Pages in progress: between their arrival and the commit that makes them count.

A page is archived when it is settled and not before, so that one commit covers both: after a kill the
archive holds no page that the store would fetch again. Usually that is at the end of its parse. A page whose
parse takes long is settled earlier, as fetched, and acknowledged later. If its lease has expired by then, it
is discarded.

A request that has failed for good, on the wire or in its handler, may have an `on_error` hook in the spider.
Then its end waits for the result of the hook, and both are committed together. A hook that raises, hangs or
dies does not change that end. After a kill the request is in progress again, and its hook runs again.
"""

import asyncio
import itertools
import logging
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence, Set
from contextlib import nullcontext
from typing import Protocol, assert_never

import msgspec

from shoal.archive.errors import PageUnreadable
from shoal.archive.reader import StoredPage
from shoal.engine.counters import Counters
from shoal.engine.fetchers import Pools
from shoal.engine.generations.earlier import (
    NOT_MODIFIED,
    EarlierPage,
    PageResult,
    ParseIdentity,
    next_history,
)
from shoal.engine.generations.item_times import Times, next_times, with_times
from shoal.engine.in_progress import ArchivedPage, InProgress, NewPage, NoPage, failure_of
from shoal.engine.logs.request_log import RequestLog
from shoal.fetch.contract import Attempt
from shoal.frontier.results import Unparsed
from shoal.model.configuration.block_rules import BlockRules
from shoal.model.errors import Rejected
from shoal.model.failure import Failure, FailureClass
from shoal.model.generations.page_history import PageHistory, pack_history, read_history
from shoal.model.limits import KIB, MIB
from shoal.model.outcome import (
    Acknowledgement,
    Dead,
    Done,
    Fetched,
    Lease,
    Retry,
    RetryRules,
    Settlement,
    judge,
)
from shoal.model.page import PageRecord, PageRef, ParseFault, ParseResult, ParseTask, Response
from shoal.model.request import Link, Request, trace_id
from shoal.model.url import host_key
from shoal.parse.pool import Poisoned
from shoal.parse.verdict import PoisonCause

log = logging.getLogger(__name__)

MAX_READS = 16  # pages read at once: each read of an object store has its latency
MAX_BACKLOG = 512  # pages in the parse stage at which reading archived ones pauses
MAX_BACKLOG_BYTES = 32 * MIB  # of them
LARGE_RECORD_BYTES = (
    64 * KIB
)  # compressed: such pages are read one at a time, as they may be 200 times larger
MAX_REASON_CHARS = 500  # of what a parse child says about a page
MAX_TRACEBACK_CHARS = 8_000
UNSEALED = "it has no length, and its connection ended without the end of TLS: the rest may be missing"


_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Ledger(Protocol):
    """Where outcomes are handed in."""

    def lease_lost(self, lease: Lease) -> bool: ...
    def settle(self, settlement: Settlement, result: ParseResult | None = None) -> None: ...
    def acknowledge(self, acknowledgement: Acknowledgement, result: ParseResult | None = None) -> None: ...


class ParseBacklog(Protocol):
    @property
    def pages(self) -> int: ...
    @property
    def bytes(self) -> int: ...


class Parser(Protocol):
    """The part of the parse pool that parsing needs."""

    @property
    def backlog(self) -> ParseBacklog: ...
    def submit(self, task: ParseTask, on_answer: Callable[[ParseResult | Poisoned], None]) -> None: ...


class PageArchive(Protocol):
    """The part of `Pages` that parsing needs."""

    def keep(
        self,
        request: Request,
        sent: "tuple[tuple[str, str], ...]",
        response: Response,
        earlier: EarlierPage | None,
    ) -> PageRecord: ...
    def visible_page(self, response: Response, earlier: EarlierPage | None) -> Response | StoredPage: ...
    def keep_result(self, url: str, result: PageResult, at: float) -> PageRef: ...
    async def read(self, ref: PageRef) -> StoredPage: ...
    async def read_result(self, ref: PageRef) -> PageResult | None: ...


class LinkScope(Protocol):
    """The part of the crawl's scope that parsing needs."""

    def links_of(self, packed: Sequence[bytes], *, found_on: int, page: Request) -> tuple[Link, ...]: ...
    def carried_links(
        self, packed: bytes, *, found_on: int, page: Request
    ) -> tuple[tuple[Link, ...], int]: ...
    def forget_sent_links(self) -> None: ...


class LinkFilter(Protocol):
    """The part of `Traps` that parsing needs."""

    def filter_links(
        self, links: tuple[Link, ...], result: ParseResult, request: Request
    ) -> tuple[Link, ...]: ...


class Parsing:
    """Has pages parsed, and hands in what became of them.

    `archive_only`: pages that were just fetched are only archived; the bus brings them to a worker that
    parses.
    """

    def __init__(
        self,
        crawl: str,
        parser: Parser,
        pages: PageArchive,
        ledger: Ledger,
        counters: Counters,
        *,
        scope: LinkScope,
        traps: LinkFilter,
        pools: Pools,
        spider: str = "",
        hooks: Set[FailureClass] = frozenset(),
        archive_only: bool = False,
        max_crashes: int,
        version: int = 0,
        request_log: RequestLog | None = None,
        blocked_if: BlockRules | None = None,
        retry: RetryRules | None = None,
        identity: ParseIdentity | None = None,
        add_example: Callable[[str, dict[str, int]], None] | None = None,
    ) -> None:
        """`identity`: results are kept for the next generation; None: they are not.

        `add_example` is called with the URL of each page and the counts of its items.
        """
        self._crawl = crawl
        self._parser = parser
        self._pages = pages
        self._ledger = ledger
        self._counters = counters
        self._scope = scope
        self._traps = traps
        self._pools = pools
        self._spider = spider
        self._hooks = hooks
        self._archive_only = archive_only
        self._max_crashes = max_crashes
        self._version = version  # of the spider
        self._request_log = request_log
        self._blocked_if = blocked_if or BlockRules()
        self._retry = retry or RetryRules()
        self._identity = identity
        self._add_example = add_example
        self._in_progress: dict[int, InProgress] = {}  # by task id
        self._ids = itertools.count(1)
        self._fewer = asyncio.Event()
        self._large_read = asyncio.Lock()

    def take(self, attempt: Attempt, earlier: EarlierPage | None, links: tuple[Link, ...] = ()) -> None:
        """Take in a page that was just fetched, and the link to where it redirects."""
        assert attempt.response is not None
        lease = attempt.lease
        if self._ledger.lease_lost(lease):
            return
        new = NewPage(attempt, attempt.response, earlier, time.monotonic(), links)
        if not attempt.parse:
            self._counters.pages += 1
            result = None
            if attempt.refused is not None:
                result = ParseResult(0, dropped={attempt.refused: 1})
                self._counters.filtered[attempt.refused] += 1
            settlement = Settlement(
                lease, Done(self._keep(new)), links, attempt.signal, timing=attempt.timing
            )
            self._ledger.settle(settlement, result)
            return
        if self._carry_over(new):
            return
        if self._archive_only:
            self._counters.pages += 1
            self._counters.handed_on += 1
            self._ledger.settle(
                Settlement(lease, Fetched(self._keep(new)), links, attempt.signal, timing=attempt.timing)
            )
            return
        page = self._pages.visible_page(attempt.response, earlier)
        self._submit(self._task(lease.fingerprint, lease.request, page), InProgress.fetched(new))

    def _carry_over(self, new: NewPage) -> bool:
        """End a page that has not changed with what it yielded before; return False if it must be parsed."""
        earlier, lease = new.earlier, new.attempt.lease
        if earlier is None or earlier.result is None or not (earlier.unchanged and earlier.reusable):
            return False
        kept, entry = earlier.result, InProgress.fetched(new)
        try:
            links, repeats = self._scope.carried_links(
                kept.all_links, found_on=lease.fingerprint, page=lease.request
            )
            result = kept.parse_result(repeats)
        except Rejected as error:  # no spider can have yielded these links
            log.warning("page.not_carried", extra={**_about(entry), "reason": str(error)})
            self._scope.forget_sent_links()
            # After a 304 there is no body to parse. The next generation asks without conditions.
            if new.response.status == NOT_MODIFIED:
                failure = Failure(FailureClass.TRUNCATED, str(error), new.response.status)
                self._counters.failed(failure, lease.request.url)
                self._ledger.settle(Settlement(lease, Dead(failure), timing=new.attempt.timing))
                return True
            return False
        result, links = self._outside_traps(entry, result, links)
        self._count(lease.request.url, result)
        self._counters.unchanged += 1
        if self._request_log is not None:
            self._request_log.parsed(entry.request.url, entry.fingerprint, result, len(links))
        self._end(entry, result, links)
        return True

    def take_known(self, lease: Lease, earlier: EarlierPage | None) -> bool:
        """End a request that is not due, without sending it; return False if it has to be sent.

        The page is as it was: its items are in the outputs, its links are followed, and the next generation
        knows of it what this one does.
        """
        kept = earlier.result if earlier is not None and earlier.reusable else None
        if earlier is None or kept is None:
            return False
        try:
            links, repeats = self._scope.carried_links(
                kept.all_links, found_on=lease.fingerprint, page=lease.request
            )
        except Rejected:
            self._scope.forget_sent_links()
            return False
        result = kept.parse_result(repeats)
        links = self._traps.filter_links(links, result, lease.request)
        self._count(lease.request.url, result)
        self._counters.unchanged += 1
        page = earlier.record().parsed(items=len(result.items), links=len(links), version=self._version)
        known = msgspec.structs.replace(page, history=pack_history(earlier.history))
        result = self._with_times(result, kept.item_times, earlier.history.checked_at)
        self._ledger.settle(Settlement(lease, Done(known), links, sent=False), result)
        return True

    def take_failed(self, settlement: Settlement) -> bool:
        """Take in the end of a request without a page, for its hook; return False if it has no hook."""
        failure = failure_of(settlement.outcome)
        if failure is None or failure.failure_class not in self._hooks:
            return False
        self._run_hook(InProgress.failed(settlement, failure))
        return True

    async def take_archived(self, unparsed: AsyncIterator[Unparsed]) -> None:
        """Take in pages that an earlier run, or another worker, has archived, as fast as they are parsed."""
        reading = asyncio.Semaphore(MAX_READS)
        async with asyncio.TaskGroup() as group:
            async for delivered in unparsed:
                while (
                    self._parser.backlog.pages >= MAX_BACKLOG
                    or self._parser.backlog.bytes > MAX_BACKLOG_BYTES
                ):
                    self._fewer.clear()
                    await self._fewer.wait()
                await reading.acquire()
                task = group.create_task(self._read(delivered), name="parsing.read")
                task.add_done_callback(lambda _: reading.release())

    async def _read(self, delivered: Unparsed) -> None:
        entry = InProgress.delivered(delivered)
        if delivered.strikes >= self._max_crashes:
            self._fail(entry, FailureClass.POISON, f"{delivered.strikes} workers died with it")
            return
        if not delivered.request.url:
            self._fail(entry, FailureClass.UNREADABLE, "the stored request cannot be read")
            return
        is_large = delivered.page.ref.length > LARGE_RECORD_BYTES
        async with self._large_read if is_large else nullcontext():
            while is_large and self._parser.backlog.bytes > MAX_BACKLOG_BYTES:
                self._fewer.clear()
                await self._fewer.wait()
            await self._read_and_submit(entry, delivered)

    async def _read_and_submit(self, entry: InProgress, delivered: Unparsed) -> None:
        try:
            page = await self._pages.read(delivered.page.ref)
        except PageUnreadable as error:
            self._fail(entry, FailureClass.TRUNCATED, str(error))
            return
        history = read_history(delivered.page.history)
        if history is not None and history.result is not None:
            entry = InProgress.delivered(delivered, await self._pages.read_result(history.result))
        self._submit(self._task(entry.fingerprint, entry.request, page), entry)

    def settle_slow(self, *, after: float) -> None:
        """Settle the pages in progress for longer than `after` seconds as fetched: their leases end."""
        before = time.monotonic() - after
        for id, entry in list(self._in_progress.items()):
            match entry.stage:
                case NewPage(attempt=attempt, since=since) as new if since <= before:
                    if self._ledger.lease_lost(attempt.lease):
                        continue  # noticed again when its parse ends
                    page = self._keep(new)
                    self._in_progress[id] = entry.archived(page)
                    self._ledger.settle(
                        Settlement(
                            attempt.lease, Fetched(page), new.links, attempt.signal, timing=attempt.timing
                        )
                    )

    async def wait_until_empty(self) -> None:
        """Wait until every page in progress is parsed."""
        while self._in_progress:
            self._fewer.clear()
            await self._fewer.wait()

    def _submit(self, task: ParseTask, entry: InProgress) -> None:
        self._in_progress[task.id] = entry
        self._parser.submit(task, self._answered)

    def _run_hook(self, entry: InProgress) -> None:
        self._submit(entry.hook_task(next(self._ids)), entry)

    def _answered(self, answer: ParseResult | Poisoned) -> None:
        entry = self._in_progress.pop(answer.id)
        self._fewer.set()
        if entry.lease is not None and self._ledger.lease_lost(entry.lease):
            return
        links: tuple[Link, ...] = ()
        if isinstance(answer, ParseResult):
            answer, links = self._check(entry, answer)
        if entry.failure is not None:
            self._end(entry, *self._hook_result(entry, entry.failure, answer, links))
        elif isinstance(answer, Poisoned):
            self._fail(entry, FailureClass.POISON, f"{answer.cause}: {answer.reason}")
        elif answer.fault is not None:
            self._faulty(entry, answer.fault)
        else:
            if isinstance(entry.stage, NewPage) and entry.stage.response.unsealed and not answer.partial:
                answer = msgspec.structs.replace(answer, partial=UNSEALED)
            result, links = self._outside_traps(entry, answer, links)
            self._count(entry.request.url, result)
            if self._request_log is not None:
                self._request_log.parsed(entry.request.url, entry.fingerprint, result, len(links))
            if result.partial:
                log.warning(
                    "page.partial", extra={**_about(entry), "reason": result.partial[:MAX_REASON_CHARS]}
                )
            self._end(entry, result, links)

    def _count(self, url: str, result: ParseResult) -> None:
        self._counters.page(result)
        if self._add_example is not None and result.counts:
            self._add_example(url, result.counts)

    def _faulty(self, entry: InProgress, fault: ParseFault) -> None:
        """End a page that its spider failed on; a block is retried as long as the page is not archived."""
        if fault.failure_class is not FailureClass.ANTI_BOT:
            log.warning("page.parse_error", extra={**_about(entry), **_facts(fault)})
            self._fail(entry, fault.failure_class, fault.reason, fault.detail[:MAX_TRACEBACK_CHARS])
            return
        log.info("page.blocked", extra={**_about(entry), "status": entry.status, "reason": fault.reason})
        if isinstance(entry.stage, NewPage):
            attempt = entry.stage.attempt
            lease = attempt.lease
            failure = Failure(fault.failure_class, fault.reason, entry.status)
            raised = attempt.at_next_level(failure) if attempt.at_next_level is not None else None
            outcome = raised or judge(
                failure, attempt=lease.charged, rests=lease.rests, rules=self._retry, jitter=random.random()
            )
            if isinstance(outcome, Retry):
                self._counters.outcome(outcome, entry.request.url)
                self._ledger.settle(Settlement(lease, outcome, timing=entry.stage.attempt.timing))
                return
        self._fail(entry, fault.failure_class, fault.reason)

    def _check(
        self, entry: InProgress, result: ParseResult
    ) -> tuple[ParseResult | Poisoned, tuple[Link, ...]]:
        """Return a result and its links; or what it is instead if a parse child must not return that.

        A request that would wait without limit for its pool is a fault of the spider. Items and requests that
        no handler can yield come from a child that user code has changed, and cost the page.
        """
        answer: ParseResult | Poisoned
        try:
            check_items(result)
            links = self._scope.links_of(result.requests, found_on=entry.fingerprint, page=entry.request)
        except Rejected as error:
            reason = f"the parse child returned what no spider can yield: {error}"
            answer = Poisoned(result.id, PoisonCause.INVALID_DATA, reason)
        else:
            unserved = self._pools.refused_link(links)
            if unserved is None:
                return result, links
            answer = ParseResult(result.id, fault=ParseFault(f"spider {self._spider!r}: {unserved}"))
        self._scope.forget_sent_links()
        return answer, ()

    def _outside_traps(
        self, entry: InProgress, result: ParseResult, links: tuple[Link, ...]
    ) -> tuple[ParseResult, tuple[Link, ...]]:
        """Drop the links beyond what is kept of closed patterns, counted by rule like others."""
        kept = self._traps.filter_links(links, result, entry.request)
        if len(kept) == len(links):
            return result, links
        dropped = Counter(result.dropped) + Counter({FailureClass.HELD: len(links) - len(kept)})
        return msgspec.structs.replace(result, dropped=dict(dropped)), kept

    def _fail(self, entry: InProgress, kind: FailureClass, reason: str, detail: str = "") -> None:
        """End a page that was not parsed: it brings nothing but what its hook, if it has one, yields."""
        failure = Failure(kind, reason, entry.status, detail=detail)
        failed = entry.with_failure(failure)
        self._counters.failed(failure, entry.request.url)
        if kind in self._hooks:
            self._run_hook(failed)
        else:
            self._end(failed, None)

    def _hook_result(
        self,
        entry: InProgress,
        failure: Failure,
        answer: ParseResult | Poisoned,
        links: tuple[Link, ...],
    ) -> tuple[ParseResult, tuple[Link, ...]]:
        """Return what a hook yielded; a fault of the hook is counted and logged, and changes nothing else."""
        if isinstance(answer, Poisoned):
            answer = ParseResult(answer.id, fault=ParseFault(f"{answer.cause}: {answer.reason}"))
        result, links = self._outside_traps(entry, answer, links)
        self._counters.hook(result)
        if result.fault is not None:
            about = {**_about(entry), "failure": failure.failure_class}
            log.warning("hook.failed", extra={**about, **_facts(result.fault)})
        return result, links

    def _end(self, entry: InProgress, result: ParseResult | None, links: tuple[Link, ...] = ()) -> None:
        """Hand in how a request ended, together with its links and items: one step for the ledger."""
        match entry.stage:
            case NewPage(attempt=attempt) as new:
                page, history = self._archive(new)
                if entry.failure is None and result is not None and history is not None:
                    page, result = self._with_result(entry.request, page, history, result, new.earlier)
                else:
                    page = _with_history(page, history)
                outcome = self._outcome(page, entry.failure, result, links)
                signal = attempt.signal if entry.failure is None else None  # else what the failure says
                settlement = Settlement(
                    attempt.lease, outcome, new.links + links, signal, timing=attempt.timing
                )
                self._ledger.settle(settlement, result)
            case ArchivedPage(page=page, consumer=consumer, earlier=known):
                history = read_history(page.history)
                if entry.failure is None and result is not None and history is not None:
                    before = None if known is None else EarlierPage(PageHistory(), known)
                    page, result = self._with_result(entry.request, page, history, result, before)
                acknowledgement = Acknowledgement(
                    self._crawl,
                    entry.fingerprint,
                    self._outcome(page, entry.failure, result, links),
                    links,
                    host=host_key(entry.request.url),
                    consumer=consumer,
                )
                self._ledger.acknowledge(acknowledgement, result)
            case NoPage(settlement=settlement):
                self._ledger.settle(msgspec.structs.replace(settlement, links=links), result)
            case _:
                assert_never(entry.stage)

    def _outcome(
        self, page: PageRecord, failure: Failure | None, result: ParseResult | None, links: Sequence[Link]
    ) -> Done | Dead:
        if failure is not None:
            return Dead(failure, page.parsed(items=0, links=0, version=self._version))
        assert result is not None
        return Done(page.parsed(items=len(result.items), links=len(links), version=self._version))

    def _task(self, fingerprint: int, request: Request, page: Response | StoredPage) -> ParseTask:
        return ParseTask(
            next(self._ids),
            fingerprint,
            request,
            page.url,
            page.status,
            page.headers,
            page.body,
            page.fetched_at,
            blocked_if=self._blocked_if.to_check(page.url, page.status, page.headers, page.body),
            rendered=page.rendered,
        )

    def _keep(self, new: NewPage) -> PageRecord:
        """Archive a page that was not parsed."""
        return _with_history(*self._archive(new))

    def _archive(self, new: NewPage) -> tuple[PageRecord, PageHistory | None]:
        """Archive a page; return its record, and what the next generation has to know of it."""
        attempt = new.attempt
        page = self._pages.keep(attempt.lease.request, attempt.headers, new.response, new.earlier)
        if self._identity is None:
            return page, None
        return page, next_history(page, new.earlier, self._identity.rules)

    def _with_result(
        self,
        request: Request,
        page: PageRecord,
        history: PageHistory,
        result: ParseResult,
        earlier: EarlierPage | None,
    ) -> tuple[PageRecord, ParseResult]:
        """Archive what a page yielded, unless its record exists.

        Returns the page with where that is, and the result with the times of its items, if they are wanted.
        """
        if self._identity is None:
            return _with_history(page, history), result
        known = earlier.result if earlier is not None else None
        if earlier is not None and known is not None and earlier.still_holds(page):
            times = known.item_times
        else:
            times = next_times(result.items, page.fetched_at, known)
            kept = PageResult.of(request.url, page, self._identity.of(request), result, times)
            ref = self._pages.keep_result(request.url, kept, page.fetched_at)
            history = msgspec.structs.replace(history, result=ref)
        return _with_history(page, history), self._with_times(result, times, page.fetched_at)

    def _with_times(self, result: ParseResult, times: Times, at: float) -> ParseResult:
        if self._identity is None or not self._identity.item_times or not result.items:
            return result
        return msgspec.structs.replace(result, items=with_times(result.items, times, at))


def _with_history(page: PageRecord, history: PageHistory | None) -> PageRecord:
    return page if history is None else msgspec.structs.replace(page, history=pack_history(history))


def _about(entry: InProgress) -> dict[str, str]:
    return {"url": entry.request.url, "trace": trace_id(entry.fingerprint)}


def _facts(fault: ParseFault) -> dict[str, str]:
    return {
        "reason": fault.reason,
        **({"traceback": fault.detail[:MAX_TRACEBACK_CHARS]} if fault.detail else {}),
    }


def check_items(result: ParseResult) -> None:
    """Raise `Rejected` if an item is not a JSON object on one line: outputs could not store it."""
    for item in (*result.items, *result.rejected):
        try:
            _decode_object(item.json)
        except (msgspec.DecodeError, RecursionError) as error:
            raise Rejected(f"an item is not a JSON object: {error}") from None
        if b"\n" in item.json:
            raise Rejected("an item has more than one line")
