"""One crawl, running: leases go out to fetch slots, pages come back through the parse children, and the
committer makes it all durable.

What is leased and not yet settled never exceeds the concurrency plus one group commit. That single number
bounds memory, and what a kill can cost: a page that was fetched and not committed is fetched again.

Only taking new leases ever waits. Landing a page, adding its links and committing never block on one another,
so the cycle frontier → fetch → parse → frontier cannot lock up.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from shoal.archive.errors import PageUnreadable
from shoal.archive.reader import StoredPage
from shoal.frontier import answers
from shoal.model.errors import ShoalError
from shoal.model.failure import Failure, FailureClass
from shoal.model.outcome import (
    Acknowledgement,
    Dead,
    Done,
    Fetched,
    Filtered,
    Lease,
    Released,
    Retry,
    Settlement,
    internal,
)
from shoal.model.page import PageRecord, ParseResult, ParseTask
from shoal.model.request import Link, trace_id
from shoal.parse.pool import Poisoned
from shoal.runtime.commit import MOST, Committer
from shoal.runtime.plan import CrawlPlan, Stop
from shoal.runtime.snapshot import Ending, HostView, Opening, Snapshot, Summary
from shoal.runtime.tally import Tally
from shoal.runtime.wiring import Stations, archive_key, open_stations, sinks_key

log = logging.getLogger(__name__)

LEASE_BATCH = 32
PREFETCH = 32  # leases that wait for a slot: enough to keep all of them busy between two calls for work
PARSE_BACKLOG = 512  # pages in the parse stage at which fetching pauses
PARSE_BACKLOG_BYTES = 64 << 20
PARSE_PATIENCE = 2.0  # seconds after which a page is settled although its parse has not ended
IDLE = 1.0  # longest sleep between two looks at the frontier
WATCH_EVERY = 0.25


async def crawl(
    plan: CrawlPlan,
    *,
    stop: Stop,
    opened: Callable[[Opening], None] | None = None,
    watch: Callable[[Snapshot], None] | None = None,
) -> Summary:
    """Run a crawl to its end, or until `stop` asks it to end earlier; the same call goes on from there."""
    async with open_stations(plan) as stations:
        if opened is not None:
            opened(await _opening(stations))
        running = Crawl(stations)
        ending = await running.run(stop, watch)
        snapshot = await running.snapshot(draining=False)
        counts = await stations.frontier.counts(stations.crawl)
        limit = stations.settings.crawl.max_dead
        return Summary(
            ending=ending,
            snapshot=snapshot,
            resumed=stations.resumed,
            outputs=stations.outputs,
            archive=str(stations.store.archive / stations.crawl),
            store=str(stations.store.path),
            dead_by_class=dict(counts.dead_by_class),
            max_dead_exceeded=limit is not None and counts.dead > limit,
        )


async def _opening(stations: Stations) -> Opening:
    counts = await stations.frontier.counts(stations.crawl)
    return Opening(
        crawl=stations.crawl,
        resumed=stations.resumed,
        counts=counts.by_state(),
        outputs=stations.outputs,
        archive=str(stations.store.archive / stations.crawl),
        store=str(stations.store.path),
    )


@dataclass(slots=True)
class InHand:
    """A page between its arrival and its commit."""

    fingerprint: int
    page: PageRecord
    links: tuple[Link, ...]
    since: float
    lease: Lease | None  # None: settled already, only its parse is outstanding


class Crawl:
    def __init__(self, stations: Stations) -> None:
        self._stations = stations
        self._settings = stations.settings.crawl
        self._tally = Tally()
        self._out: dict[int, Lease] = {}  # leased and not settled, by fingerprint
        self._in_hand: dict[int, InHand] = {}  # being parsed, by task id
        self._ids = itertools.count(1)
        self._active = 0
        self._saved: dict[str, bytes] = {}
        self._wake = asyncio.Event()
        self._parsed_all = asyncio.Event()
        self._queue: asyncio.Queue[Lease | None] = asyncio.Queue()
        self._committer = Committer(
            stations.frontier,
            stations.archive,
            stations.sinks,
            archive_key=archive_key(stations.crawl),
            sinks_key=sinks_key(stations.crawl),
            on_commit=self._wake.set,
        )

    async def run(self, stop: Stop, watch: Callable[[Snapshot], None] | None) -> Ending:
        """Crawl until nothing is left or `stop` is set; what is in hand then is finished or given back."""
        loop = asyncio.get_running_loop()
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as deadline, asyncio.TaskGroup() as group:
                chores = [
                    group.create_task(self._committer.run(), name="commit"),
                    group.create_task(self._stations.parser.watch(), name="parser"),
                    group.create_task(self._keep_leases(), name="keep-leases"),
                    group.create_task(self._watch(watch, stop), name="watch"),
                    group.create_task(_enforce(stop, deadline, self._settings.grace, loop), name="deadline"),
                ]
                await self._work(stop)
                for chore in chores:
                    chore.cancel()
        await self._wind_up()
        return await self._ending()

    async def _wind_up(self) -> None:
        """Hand back whatever the deadline cut off, so that it costs nobody an attempt, a crash or a fetch."""
        for hand in self._in_hand.values():
            if hand.lease is not None:
                self._settle(Settlement(hand.lease, Fetched(hand.page), hand.links))
        for lease in list(self._out.values()):
            self._settle(Settlement(lease, Released(), sent=False))
        await self._committer.flush()
        await self._save()
        await self._stations.frontier.commit(
            checkpoints={sinks_key(self._stations.crawl): self._stations.sinks.finish()}
        )

    async def _work(self, stop: Stop) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._take_up(stop), name="take-up")
            group.create_task(self._feed(stop), name="feed")
            for n in range(self._settings.concurrency):
                group.create_task(self._slot(), name=f"slot.{n}")
        await self._until_parsed()
        await self._committer.flush()

    # --- taking work -----------------------------------------------------------------------------

    async def _feed(self, stop: Stop) -> None:
        """Keep the slots supplied until there is nothing left, then send them home."""
        frontier = self._stations.frontier
        while not stop.drain.is_set():
            room = await self._room()
            if room > 0:
                grant = await frontier.lease(
                    holder=self._stations.holder, limit=min(room, LEASE_BATCH), ttl=self._settings.lease
                )
                for lease in grant.leases:
                    self._out[lease.fingerprint] = lease
                    self._queue.put_nowait(lease)
                if grant.leases:
                    continue
                if await self._finished():
                    break
                await self._sleep(grant.wait, stop)
            else:
                if await self._finished():
                    break
                await self._sleep(IDLE, stop)
        while not self._queue.empty():  # drained: what no slot has begun goes back untouched
            if (unbegun := self._queue.get_nowait()) is not None:
                self._settle(Settlement(unbegun, Released(), sent=False))
        for _ in range(self._settings.concurrency):
            self._queue.put_nowait(None)

    async def _room(self) -> int:
        """Say how many more leases may be taken now."""
        backlog = self._stations.parser.backlog
        if backlog.pages >= PARSE_BACKLOG or backlog.bytes >= PARSE_BACKLOG_BYTES:
            return 0
        room = min(
            self._settings.concurrency + MOST - len(self._out),
            self._settings.concurrency + PREFETCH - self._active - self._queue.qsize(),
        )
        if self._settings.max_pages:
            room = min(room, await self._pages_left())
        return room

    async def _pages_left(self) -> int:
        counts = await self._stations.frontier.counts(self._stations.crawl)
        return self._settings.max_pages - counts.done - counts.parsing - len(self._out)

    async def _finished(self) -> bool:
        if self._out:
            return False
        counts = await self._stations.frontier.counts(self._stations.crawl)
        if self._settings.max_pages and counts.done + counts.parsing >= self._settings.max_pages:
            return True
        return counts.waiting + counts.delayed + counts.leased + counts.parsing == 0

    async def _sleep(self, seconds: float, stop: Stop) -> None:
        """Sleep until something happened that may free work, at most `seconds`."""
        self._wake.clear()
        if stop.drain.is_set():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(min(max(seconds, 0.001), IDLE)):
                await self._wake.wait()

    # --- fetching --------------------------------------------------------------------------------

    async def _slot(self) -> None:
        while (lease := await self._queue.get()) is not None:
            self._active += 1
            try:
                await self._attempt(lease)
            except ShoalError:
                raise
            except Exception as error:  # a bug of ours must cost one request, loudly, and not the crawl
                log.exception("attempt.internal", extra={"url": lease.request.url})
                self._fail(lease, internal(error))
            finally:
                self._active -= 1
            if self._queue.qsize() < PREFETCH // 2:
                self._wake.set()

    async def _attempt(self, lease: Lease) -> None:
        """Fetch a request, and pass on what came of it: to the archive and the parser, or to be settled."""
        stations = self._stations
        earlier = await self._earlier(lease)
        attempt = await stations.fetcher.attempt(
            lease,
            etag=earlier.header("etag") if earlier else "",
            modified=earlier.header("last-modified") if earlier else "",
        )
        if attempt.crawl_delay is not None and attempt.crawl_delay > lease.interval:
            await stations.frontier.host_set(lease.host, crawl_delay=attempt.crawl_delay)
        response, outcome = attempt.response, attempt.outcome
        if response is not None:
            self._tally.bytes += len(response.wire)
        if response is None or outcome is not None:
            assert outcome is not None
            self._count(outcome)
            self._settle(
                Settlement(lease, outcome, attempt.links, blocked=attempt.blocked, sent=attempt.sent)
            )
            return
        page, response = stations.pages.keep(lease, attempt.headers, response, earlier)
        if not attempt.parse:
            self._tally.pages += 1
            self._settle(Settlement(lease, Done(page), attempt.links))
            return
        stations.frontier.landed([lease])
        task = ParseTask(
            next(self._ids),
            lease.fingerprint,
            lease.request,
            response.url,
            response.status,
            response.headers,
            response.body,
            response.fetched_at,
        )
        self._in_hand[task.id] = InHand(lease.fingerprint, page, attempt.links, time.monotonic(), lease)
        stations.parser.submit(task, self._parsed)

    async def _earlier(self, lease: Lease) -> StoredPage | None:
        """Find the page as the crawl's previous generation left it, if it can be asked for again."""
        known = await self._stations.frontier.validators(self._stations.crawl, [lease.fingerprint])
        if (validator := known.get(lease.fingerprint)) is None or not (validator.etag or validator.modified):
            return None
        return self._stations.pages.earlier(validator.ref)

    def _fail(self, lease: Lease, failure: Failure) -> None:
        outcome = Dead(failure)
        self._count(outcome)
        self._settle(Settlement(lease, outcome))

    def _count(self, outcome: object) -> None:
        match outcome:
            case Retry(failure=failure) | Dead(failure=failure):
                self._tally.failures[failure.kind] += 1
            case Filtered(rule=rule):
                self._tally.filtered[rule] += 1
            case _:
                pass

    def _settle(self, settlement: Settlement, result: ParseResult | None = None) -> None:
        self._out.pop(settlement.lease.fingerprint, None)
        self._committer.settle(settlement, result.items if result else ())

    # --- parsing ---------------------------------------------------------------------------------

    async def _take_up(self, stop: Stop) -> None:
        """Parse the pages that an earlier run fetched and did not get to parse."""
        async for waiting in self._stations.frontier.parsing(self._stations.crawl):
            while self._stations.parser.backlog.pages >= PARSE_BACKLOG and not stop.drain.is_set():
                await self._sleep(IDLE, stop)
            if stop.drain.is_set():
                return
            try:
                task = self._stations.pages.recall(
                    next(self._ids), waiting.fingerprint, waiting.request, waiting.page
                )
            except PageUnreadable as error:
                failure = Failure(FailureClass.TRUNCATED, str(error))
                self._committer.acknowledge(
                    Acknowledgement(self._stations.crawl, waiting.fingerprint, Dead(failure, waiting.page))
                )
                continue
            self._in_hand[task.id] = InHand(waiting.fingerprint, waiting.page, (), time.monotonic(), None)
            self._stations.parser.submit(task, self._parsed)

    def _parsed(self, result: ParseResult | Poisoned) -> None:
        """Take a page's parse in (called by the pool)."""
        hand = self._in_hand.pop(result.id)
        outcome: Done | Dead
        links = hand.links
        whole: ParseResult | None = None
        match result:
            case Poisoned():
                outcome = Dead(Failure(FailureClass.POISON, result.reason, hand.page.status), hand.page)
            case ParseResult(fault=None):
                whole, links = result, hand.links + result.links
                page = replace(hand.page, items=len(result.items), links=len(result.links))
                outcome = Done(page)
                self._tally.pages += 1
                self._tally.items += len(result.items)
                for rule, count in result.dropped.items():
                    self._tally.filtered[rule] += count
            case ParseResult(fault=fault):
                assert fault is not None
                outcome = Dead(Failure(FailureClass.PARSE_ERROR, fault.reason, hand.page.status), hand.page)
                log.warning(
                    "page.parse_error",
                    extra={
                        "trace": trace_id(hand.fingerprint),
                        "reason": fault.reason,
                        "detail": fault.detail,
                    },
                )
        self._count(outcome)
        if hand.lease is not None:
            self._settle(Settlement(hand.lease, outcome, links), whole)
        else:
            self._committer.acknowledge(
                Acknowledgement(self._stations.crawl, hand.fingerprint, outcome, links),
                whole.items if whole else (),
            )
        if not self._in_hand:
            self._parsed_all.set()
        self._wake.set()

    async def _until_parsed(self) -> None:
        while self._in_hand:
            self._parsed_all.clear()
            await self._parsed_all.wait()

    # --- chores ----------------------------------------------------------------------------------

    async def _keep_leases(self) -> None:
        """Extend what is still being worked on, and settle pages whose parse takes long."""
        every = min(self._settings.lease / 4, PARSE_PATIENCE / 2)
        while True:
            await asyncio.sleep(every)
            soon = time.time() + self._settings.lease / 2
            if aging := [lease for lease in self._out.values() if lease.leased_until < soon]:
                renewed = await self._stations.frontier.extend(aging, self._settings.lease)
                for lease in renewed:
                    self._out[lease.fingerprint] = lease
            await self._save()
            slow = time.monotonic() - PARSE_PATIENCE
            for hand in self._in_hand.values():
                if hand.lease is not None and hand.since < slow:
                    self._settle(Settlement(hand.lease, Fetched(hand.page), hand.links))
                    hand.lease, hand.links = None, ()

    async def _save(self) -> None:
        """Keep what else a resumed crawl should find as it was: cookies, and hosts that seeds led to."""
        stations = self._stations
        state = {"cookies": stations.jar.dump()}
        if stations.border.hosts is not None:
            state["hosts"] = msgspec.json.encode(sorted(stations.border.hosts))
        if state != self._saved:
            await stations.frontier.commit(crawl_state={stations.crawl: state})
            self._saved = state

    async def _watch(self, watch: Callable[[Snapshot], None] | None, stop: Stop) -> None:
        while watch is not None:
            watch(await self.snapshot(draining=stop.drain.is_set()))
            await asyncio.sleep(WATCH_EVERY)

    async def snapshot(self, *, draining: bool) -> Snapshot:
        stations = self._stations
        counts = await stations.frontier.counts(stations.crawl)
        return self._tally.snapshot(
            crawl=stations.crawl,
            counts=counts.by_state(),
            hosts=[view_of(host, time.time()) for host in await stations.frontier.hosts()],
            in_flight=self._active,
            parse_backlog=stations.parser.backlog.pages,
            draining=draining,
        )

    async def _ending(self) -> Ending:
        counts = await self._stations.frontier.counts(self._stations.crawl)
        if counts.waiting + counts.delayed + counts.leased + counts.parsing == 0:
            return Ending.FINISHED
        if self._settings.max_pages and counts.done >= self._settings.max_pages:
            return Ending.LIMITED
        return Ending.INTERRUPTED


def view_of(host: answers.HostView, now: float) -> HostView:
    """Say of a host what a person watching wants to know."""
    return HostView(
        host=host.host,
        waiting=host.waiting,
        in_flight=host.inflight,
        interval=host.interval,
        slow=host.slow,
        next_turn=max(host.next_turn - now, 0.0),
        failures=host.failures,
        paused=host.paused,
    )


async def _enforce(
    stop: Stop, deadline: asyncio.Timeout, grace: float, loop: asyncio.AbstractEventLoop
) -> None:
    """Give what is in hand `grace` seconds after the first request to stop, and none after the second."""
    await stop.drain.wait()
    deadline.reschedule(loop.time() + grace)
    await stop.now.wait()
    deadline.reschedule(loop.time())
