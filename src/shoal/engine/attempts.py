"""Fetching: the slots that limit how many requests are in flight, and the attempt that each of them makes."""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol

from shoal.engine.counters import Counters
from shoal.engine.generations.earlier import EarlierPage
from shoal.engine.generations.earlier_records import EarlierRecords
from shoal.engine.leases import Leases
from shoal.engine.logs.request_log import RequestLog
from shoal.engine.parsing import Parsing
from shoal.engine.stations import Stations
from shoal.fetch.contract import Attempt
from shoal.model.adaptive_delay import Signal
from shoal.model.crawl_totals import RELEASED
from shoal.model.errors import Rejected, ShoalError
from shoal.model.failure import POLICY, Action, Failure, FailureClass
from shoal.model.generations.page_history import read_history
from shoal.model.outcome import Dead, Filtered, Gone, Lease, Released, Retry, Settlement, internal_failure
from shoal.model.request import Link, trace_id
from shoal.model.url import canonical, host_key, site_of, without_final_dots

log = logging.getLogger(__name__)

PREFETCH = 32  # leases queued for the slots, at most: enough between two calls to the frontier
LOOK_AHEAD_S = 1.0  # many times what a call to the frontier takes
WEIGHT = 0.2  # of the latest attempt in their mean duration


def prefetch(slots: int, attempt_s: float) -> int:
    """Return how many leases to queue: those that the slots start within `LOOK_AHEAD_S`.

    Pages that take seconds are left to other workers, whose slots are free. With 64 slots, batches are as
    large as they can be while an attempt takes less than two seconds. `attempt_s`: inf before the first one.
    """
    return min(int(slots * LOOK_AHEAD_S / attempt_s), PREFETCH) if attempt_s > 0 else PREFETCH


class Slots:
    """`attempt` is what a slot does with a lease; `wake` is set when few leases are queued."""

    def __init__(
        self,
        count: int,
        attempt: Callable[[Lease], Awaitable[None]],
        wake: asyncio.Event,
        permits: AbstractAsyncContextManager[None] | None = None,
    ) -> None:
        """`permits`: entered for each request, where crawls share what a process may send."""
        self._count = count
        self._attempt = attempt
        self._wake = wake
        self._permits = permits or nullcontext()
        self._group: asyncio.TaskGroup | None = None
        self._started = 0  # slots; they are started when there are leases for them
        self._queue: asyncio.Queue[Lease | None] = asyncio.Queue()
        self._attempt_s = math.inf  # how long one takes lately
        self.active = 0  # slots with a request in progress

    def room(self, most: int) -> int:
        """Return how many more leases can be put in, where `most` requests may be sent at once."""
        slots = min(most, self._count)
        return slots + prefetch(slots, self._attempt_s) - self.active - self._queue.qsize()

    def open(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._start()

    def put(self, lease: Lease) -> None:
        self._queue.put_nowait(lease)
        self._start()

    def _start(self) -> None:
        """Start as many slots as there are leases for."""
        while self._group is not None and self._started < self._count:
            if self._started - self.active >= self._queue.qsize():
                return
            self._group.create_task(self._run(), name=f"slot.{self._started}")
            self._started += 1

    def close(self) -> list[Lease]:
        """Stop each slot after its current request; return the leases that were not started."""
        unused = []
        while not self._queue.empty():
            if (lease := self._queue.get_nowait()) is not None:
                unused.append(lease)
        for _ in range(self._started):
            self._queue.put_nowait(None)
        return unused

    async def _run(self) -> None:
        while (lease := await self._queue.get()) is not None:
            self.active += 1
            try:
                async with self._permits:
                    began = time.monotonic()
                    await self._attempt(lease)
                took, mean = time.monotonic() - began, self._attempt_s
                self._attempt_s = took if mean == math.inf else mean + WEIGHT * (took - mean)
            finally:
                self.active -= 1
            if self._queue.qsize() < PREFETCH // 2:
                self._wake.set()


# Failures that are the answer of the site to this request; a challenge or a rate limit is not.
_OFFERED = frozenset({FailureClass.IP_BLOCKED, FailureClass.TARGET_ERROR, FailureClass.HTTP_ERROR})


class ClosedShapes(Protocol):
    """The part of `Traps` that attempts need."""

    async def holds_back(self, url: str, read_released: Callable[[], Awaitable[bytes | None]]) -> str: ...


class Attempts:
    """Fetches each request once, and hands the page to the parse stage or the outcome to the committer."""

    def __init__(
        self,
        stations: Stations,
        leases: Leases,
        parsing: Parsing,
        counters: Counters,
        traps: ClosedShapes,
        *,
        request_log: RequestLog | None = None,
    ) -> None:
        self._records = EarlierRecords(stations.frontier, stations.crawl)
        self._frontier = stations.frontier
        self._fetcher = stations.fetcher
        self._pages = stations.pages
        self._scope = stations.scope
        self._statuses = stations.parser.description.statuses
        self._site_budget = stations.site_budget
        self._identity = stations.identity
        self._traps = traps
        self._released = lambda: stations.frontier.reader.value(stations.crawl, RELEASED)
        self._leases = leases
        self._parsing = parsing
        self._counters = counters
        self._request_log = request_log

    async def prepare(self, leases: Sequence[Lease]) -> None:
        """Read what the attempts at these leases will need, together."""
        if self._identity is not None:
            await self._records.load(leases)

    async def make(self, lease: Lease) -> None:
        """Fetch a request, and pass its page or its outcome on."""
        if self._leases.lease_lost(lease):
            return  # this process was suspended: the request is waiting again, or another worker has it
        if (failure := stored_wrong(lease)) is not None:
            facts = {"trace": trace_id(lease.fingerprint), "reason": failure.reason}
            log.error("request.invalid", extra=facts)
            self._end(Settlement(lease, Dead(failure), sent=False))
            return
        if (rule := await self._refuse(lease)) is not None:
            if self._request_log is not None:
                self._request_log.filtered(lease, rule)
            self._end(Settlement(lease, rule, sent=False))
            return
        try:
            await self._make(lease)
        except ShoalError:
            raise
        except Exception as error:  # a bug of ours must cost one request, loudly, and not the crawl
            about = {"trace": trace_id(lease.fingerprint), "url": lease.request.url}
            log.exception("attempt.internal", extra=about)
            self._end(Settlement(lease, Dead(internal_failure(error))))

    async def _refuse(self, lease: Lease) -> Filtered | None:
        """Return the rule that filters a request which was queued before the rule applied to it."""
        if closed := await self._traps.holds_back(lease.request.url, self._released):
            return Filtered(FailureClass.HELD, f"pages of {closed} bring nothing new")
        if self._site_budget is None or lease.attempt > 1 or lease.rests:
            return None
        if await self._site_budget.take(site_of(lease.host)):
            return None
        return Filtered(FailureClass.BUDGET, f"{site_of(lease.host)} has used up links.per_site")

    async def _make(self, lease: Lease) -> None:
        began, started_at = time.monotonic(), time.time()
        earlier = await self._earlier(lease)
        # A page that is not due, but has to be parsed again, is asked for all the same.
        due = earlier is None or self._is_due(lease, earlier)
        if not due and self._parsing.take_known(lease, earlier):
            return
        attempt = await self._fetcher.attempt(
            lease,
            etag=earlier.etag if earlier else "",
            modified=earlier.modified if earlier else "",
        )
        timing = attempt.timing
        timing.started_at, timing.total = started_at, time.monotonic() - began
        if attempt.crawl_delay is not None and attempt.crawl_delay > lease.interval:
            await self._frontier.hosts.set(lease.host, crawl_delay=attempt.crawl_delay)
        elif attempt.new_rules:
            await self._correct_delay(lease, attempt.crawl_delay or 0.0)
        if attempt.response is not None:
            self._counters.bytes += len(attempt.response.wire)
            self._counters.lenient += attempt.response.lenient
        if self._site_budget is not None and isinstance(attempt.outcome, Released) and lease.attempt == 1:
            await self._site_budget.give_back(site_of(lease.host))
        if attempt.response is not None and attempt.response.status in self._statuses:
            await self._offer(attempt)
        if attempt.outcome is None:
            self._frontier.mark_landed([lease])
            links = await self._links_of(attempt)
        if self._request_log is not None:
            self._request_log.attempted(attempt, time.monotonic() - began)
        if attempt.outcome is None:
            if earlier is not None and attempt.response is not None:
                earlier = await self._pages.compare(attempt.response, earlier)
            self._parsing.take(attempt, earlier, links)
            return
        if attempt.keep and attempt.response is not None:
            self._pages.keep(lease.request, attempt.headers, attempt.response, None)
        self._end(
            Settlement(
                lease,
                attempt.outcome,
                signal=attempt.signal,
                sent=attempt.sent,
                elapsed=time.monotonic() - began,
                timing=timing,
            )
        )

    async def _offer(self, attempt: Attempt) -> None:
        """Make a response that counts as a failure a page, if a handler takes pages of its status."""
        assert attempt.response is not None
        match attempt.outcome:
            case Gone():
                pass
            case Retry(failure=failure) | Dead(failure=failure) if failure.failure_class in _OFFERED:
                pass
            case _:
                return
        request, response = attempt.lease.request, attempt.response
        if await self._scope.takes(request, response.url, response.status):
            attempt.outcome, attempt.parse, attempt.signal = None, True, Signal.NORMAL

    async def _links_of(self, attempt: Attempt) -> tuple[Link, ...]:
        """Return the link to where a response leads; a redirect whose target is refused ends the attempt."""
        target = attempt.following
        if target is None:
            return ()
        assert attempt.response is not None
        refused = await self._scope.refuse_target(target, attempt.response.status)
        if refused is None:
            return (self._scope.link(target),)
        if not attempt.parse:
            if POLICY[refused.failure_class].action is Action.FILTER:
                attempt.refused = refused.failure_class
            else:
                attempt.outcome = Dead(refused)
        return ()

    async def _correct_delay(self, lease: Lease, crawl_delay: float) -> None:
        """Apply the Crawl-delay of a new robots.txt, if the host has a longer one from an older file."""
        known = await self._frontier.hosts.get(lease.host)
        if known is not None and known.crawl_delay > crawl_delay:
            await self._frontier.hosts.set(lease.host, crawl_delay=crawl_delay)

    async def _earlier(self, lease: Lease) -> EarlierPage | None:
        """Return what the crawl's previous generation knows of the page; None: nothing."""
        if self._identity is None:
            return None
        packed = await self._records.take(lease)
        if packed is None or (history := read_history(packed)) is None:
            return None
        # Without an identity nothing is reusable, and the page is parsed again.
        identity = self._identity.of(lease.request) if self._identity.skip else b""
        return await self._pages.earlier(history, identity)

    def _is_due(self, lease: Lease, earlier: EarlierPage) -> bool:
        line = self._identity.line if self._identity is not None else None
        return line is None or line.is_due(lease.fingerprint, earlier.history)

    def _end(self, settlement: Settlement) -> None:
        """Settle an attempt that brought no page; if it was the last one, run the on_error hook first."""
        self._counters.outcome(settlement.outcome, settlement.lease.request.url)
        if self._parsing.take_failed(settlement):
            self._frontier.mark_landed([settlement.lease])
        else:
            self._leases.settle(settlement)


def stored_wrong(lease: Lease) -> Failure | None:
    """Return why a leased request cannot be what this crawl has queued; None: it can.

    A store may be damaged, or hold what an earlier version took from a parse child without checking it. Such
    a request is never sent: under a false host it would not keep the pace of the host that it reaches.
    """
    request = lease.request
    if not request.url:
        return Failure(FailureClass.UNREADABLE, "the stored request cannot be read")
    # Earlier versions took `example.com.` for another host.
    valid = _is_canonical(request.url) or _is_canonical(without_final_dots(request.url))
    if not valid or not request.url.startswith(("http://", "https://")):
        return Failure(FailureClass.POISON, f"the stored URL cannot be fetched: {request.url[:200]}")
    if host_key(request.url) != lease.host:
        reason = f"stored under the host {lease.host[:200]}, but its URL is {request.url[:200]}"
        return Failure(FailureClass.POISON, reason)
    return None


def _is_canonical(url: str) -> bool:
    try:
        return canonical(url) == url
    except Rejected:
        return False
