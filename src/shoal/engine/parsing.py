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
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence, Set
from typing import Protocol, assert_never

import msgspec

from shoal.archive.errors import PageUnreadable
from shoal.archive.reader import StoredPage
from shoal.engine.counters import Counters
from shoal.engine.fetchers import Pools
from shoal.engine.in_progress import ArchivedPage, InProgress, NewPage, NoPage, failure_of
from shoal.fetch.contract import Attempt
from shoal.frontier.results import Unparsed
from shoal.model.errors import Rejected
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import Acknowledgement, Dead, Done, Fetched, Lease, Settlement
from shoal.model.page import PageRecord, PageRef, ParseFault, ParseResult, ParseTask, Response
from shoal.model.request import Link, Request, trace_id
from shoal.model.url import host_key
from shoal.parse.pool import Poisoned
from shoal.parse.verdict import PoisonCause

log = logging.getLogger(__name__)

MAX_READS = 16  # pages read at once: each read of an object store has its latency
MAX_BACKLOG = 512  # pages in the parse stage at which reading archived ones pauses
MAX_REASON_CHARS = 500  # of what a parse child says about a page


_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Ledger(Protocol):
    """Where outcomes are handed in."""

    def lease_lost(self, lease: Lease) -> bool: ...
    def settle(self, settlement: Settlement, result: ParseResult | None = None) -> None: ...
    def acknowledge(self, acknowledgement: Acknowledgement, result: ParseResult | None = None) -> None: ...


class ParseBacklog(Protocol):
    @property
    def pages(self) -> int: ...


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
        earlier: StoredPage | None,
    ) -> PageRecord: ...
    def visible_page(self, response: Response, earlier: StoredPage | None) -> Response | StoredPage: ...
    async def read(self, ref: PageRef) -> StoredPage: ...


class LinkScope(Protocol):
    """The part of the crawl's scope that parsing needs."""

    def links_of(self, packed: Sequence[bytes], *, found_on: int, page: Request) -> tuple[Link, ...]: ...
    def forget_sent_links(self) -> None: ...


class LinkFilter(Protocol):
    """The part of `Traps` that parsing needs."""

    def filter_links(self, links: tuple[Link, ...], result: ParseResult, url: str) -> tuple[Link, ...]: ...


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
    ) -> None:
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
        self._in_progress: dict[int, InProgress] = {}  # by task id
        self._ids = itertools.count(1)
        self._fewer = asyncio.Event()

    def take(self, attempt: Attempt, earlier: StoredPage | None, links: tuple[Link, ...] = ()) -> None:
        """Take in a page that was just fetched, and the link to where it redirects."""
        assert attempt.response is not None
        lease = attempt.lease
        if self._ledger.lease_lost(lease):
            return
        new = NewPage(attempt, attempt.response, earlier, time.monotonic(), links)
        if not attempt.parse:
            self._counters.pages += 1
            self._ledger.settle(Settlement(lease, Done(self._keep(new)), links))
            return
        if self._archive_only:
            self._counters.pages += 1
            self._counters.handed_on += 1
            self._ledger.settle(Settlement(lease, Fetched(self._keep(new)), links))
            return
        page = self._pages.visible_page(attempt.response, earlier)
        self._submit(
            _task(next(self._ids), lease.fingerprint, lease.request, page),
            InProgress.fetched(new),
        )

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
                while self._parser.backlog.pages >= MAX_BACKLOG:
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
        try:
            page = await self._pages.read(delivered.page.ref)
        except PageUnreadable as error:
            self._fail(entry, FailureClass.TRUNCATED, str(error))
            return
        self._submit(_task(next(self._ids), entry.fingerprint, entry.request, page), entry)

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
                    self._ledger.settle(Settlement(attempt.lease, Fetched(page), new.links))

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
            facts = {"reason": answer.fault.reason, "detail": answer.fault.detail}
            log.warning("page.parse_error", extra={"trace": trace_id(entry.fingerprint), **facts})
            self._fail(entry, answer.fault.failure_class, answer.fault.reason)
        else:
            result, links = self._outside_traps(entry, answer, links)
            self._counters.page(result)
            if result.partial:
                about = {"trace": trace_id(entry.fingerprint), "reason": result.partial[:MAX_REASON_CHARS]}
                log.warning("page.partial", extra=about)
            self._end(entry, result, links)

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
        """Drop the links that lead into a trap, counted by rule like those that a parse child drops."""
        kept = self._traps.filter_links(links, result, entry.request.url)
        if len(kept) == len(links):
            return result, links
        dropped = Counter(result.dropped) + Counter({FailureClass.TRAP: len(links) - len(kept)})
        return msgspec.structs.replace(result, dropped=dict(dropped)), kept

    def _fail(self, entry: InProgress, kind: FailureClass, reason: str) -> None:
        """End a page that was not parsed: it brings nothing but what its hook, if it has one, yields."""
        failed = entry.with_failure(Failure(kind, reason, entry.status))
        self._counters.failures[kind] += 1
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
            facts = {"reason": result.fault.reason, "detail": result.fault.detail}
            about = {"trace": trace_id(entry.fingerprint), "failure": failure.failure_class}
            log.warning("hook.failed", extra={**about, **facts})
        return result, links

    def _end(self, entry: InProgress, result: ParseResult | None, links: tuple[Link, ...] = ()) -> None:
        """Hand in how a request ended, together with its links and items: one step for the ledger."""
        match entry.stage:
            case NewPage(attempt=attempt) as new:
                outcome = self._outcome(self._keep(new), entry.failure, result, links)
                self._ledger.settle(Settlement(attempt.lease, outcome, new.links + links), result)
            case ArchivedPage(page=page, consumer=consumer):
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

    def _keep(self, new: NewPage) -> PageRecord:
        attempt = new.attempt
        return self._pages.keep(attempt.lease.request, attempt.headers, new.response, new.earlier)


def check_items(result: ParseResult) -> None:
    """Raise `Rejected` if an item is not a JSON object on one line: outputs could not store it."""
    for item in (*result.items, *result.rejected):
        try:
            _decode_object(item.json)
        except (msgspec.DecodeError, RecursionError) as error:
            raise Rejected(f"an item is not a JSON object: {error}") from None
        if b"\n" in item.json:
            raise Rejected("an item has more than one line")


def _task(id: int, fingerprint: int, request: Request, page: Response | StoredPage) -> ParseTask:
    return ParseTask(
        id, fingerprint, request, page.url, page.status, page.headers, page.body, page.fetched_at
    )
