"""A crawl, from its first lease to its last commit."""

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

import msgspec

from shoal.archive.reader import StoredPage
from shoal.frontier import Unparsed
from shoal.model.errors import ShoalError
from shoal.model.outcome import Acknowledgement, Dead, Lease, Released, Settlement, internal
from shoal.model.page import ParseResult
from shoal.runtime import sums
from shoal.runtime.crawl.commit import MOST, Committer
from shoal.runtime.crawl.lookalikes import Lookalikes
from shoal.runtime.crawl.parsing import PATIENCE, Parsing
from shoal.runtime.crawl.picture import opening_of, summary_of, view_of
from shoal.runtime.crawl.quarantine import Quarantine
from shoal.runtime.crawl.stations import Stations
from shoal.runtime.crawl.tally import Tally
from shoal.runtime.figures import Done
from shoal.runtime.finished import is_finished
from shoal.runtime.plan import Stop
from shoal.runtime.snapshot import Ending, Opening, Snapshot, Summary

log = logging.getLogger(__name__)

LEASE_BATCH = 32
SOON = 1.0  # seconds before its end at which a lease counts as run out: nobody reclaims it sooner
PREFETCH = 32  # leases that wait for a slot: enough to keep all of them busy between two calls for work
PARSE_BACKLOG = 512  # pages in the parse stage at which fetching pauses
PARSE_BACKLOG_BYTES = 64 << 20
IDLE = 1.0  # longest sleep between two looks at the frontier
WATCH_EVERY = 0.25
COUNT_EVERY = 1.0  # seconds between two questions to every shard whether anything is left


class Crawl:
    """`part`: how many requests it may have in hand, where several crawls share a worker."""

    def __init__(self, stations: Stations, part: Callable[[], int] | None = None) -> None:
        self._stations = stations
        self._part = part
        self._settings = stations.settings.crawl
        self._tally = Tally()
        self._out: dict[int, Lease] = {}  # leased and not settled, by fingerprint
        self._queue: asyncio.Queue[Lease | None] = asyncio.Queue()
        self._active = 0
        self._wake = asyncio.Event()
        self._saved: dict[str, bytes] = {}
        self._counted_at = -math.inf
        self._over_budget = 0  # links that hosts had brought in vain before this run
        self._committer = Committer(
            stations.frontier,
            stations.outlet,
            on_commit=self._wake.set,
            on_stale=stations.border.renew,
            on_acknowledged=stations.on_acknowledged,
        )
        links = stations.settings.links
        self._parsing = Parsing(
            stations.crawl,
            stations.parser,
            stations.pages,
            self,
            self._tally,
            quarantine=Quarantine(links.per_pattern, stations.totals.quarantined),
            lookalikes=Lookalikes(links.lookalikes, stations.totals.lookalikes, stations.border.watch),
            hooks=stations.parser.description.hooks,
            elsewhere=not stations.parses,
            max_crashes=self._settings.max_crashes,
            version=stations.version,
        )

    @property
    def in_flight(self) -> int:
        return self._active

    @property
    def pages(self) -> int:
        return self._tally.pages

    @property
    def done(self) -> Done:
        """What this run has done so far."""
        tally = self._tally
        return Done(tally.pages, tally.items, tally.bytes, dict(tally.failures))

    @property
    def rate(self) -> float:
        """Pages per second, lately."""
        return self._tally.rate()

    async def run(self, stop: Stop, watch: Callable[[Snapshot], None] | None) -> Ending:
        """Crawl until nothing is left or `stop` is set; what is in hand then is finished or given back."""
        self._over_budget = (await self._stations.frontier.counts(self._stations.crawl)).over_budget
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as deadline, asyncio.TaskGroup() as group:
                chores = [
                    group.create_task(self._committer.run(), name="commit"),
                    group.create_task(self._stations.parser.watch(), name="parser"),
                    group.create_task(self._keep_up(), name="keep-up"),
                    group.create_task(self._show(watch, stop), name="show"),
                    group.create_task(self._enforce(stop, deadline), name="deadline"),
                ]
                await self._work(stop)
                for chore in chores:
                    chore.cancel()
        await self._wind_up()
        return await self._ending()

    async def _work(self, stop: Stop) -> None:
        stations = self._stations
        unparsed = stations.unparsed or stations.frontier.parsing(stations.crawl)
        async with asyncio.TaskGroup() as group:
            taking_up = group.create_task(self._take_up(unparsed), name="take-up")
            if stations.fetches:
                for n in range(self._settings.concurrency):
                    group.create_task(self._slot(), name=f"slot.{n}")
                await self._feed(stop)
            else:
                await self._attend(stop)
            taking_up.cancel()
        await self._parsing.until_empty()

    async def _take_up(self, unparsed: AsyncIterator[Unparsed]) -> None:
        if self._stations.parses:
            await self._parsing.take_up(unparsed)

    async def _attend(self, stop: Stop) -> None:
        """Let pages come, until the crawl has come to its end."""
        while not stop.drain.is_set() and not await self._finished(math.inf):
            await self._sleep(IDLE, stop)

    async def _wind_up(self) -> None:
        """Hand back whatever the deadline cut off, so that it costs nobody an attempt, a crash or a fetch."""
        if not self._stations.shared:
            self._parsing.settle_slow(patience=0.0)
        for lease in list(self._out.values()):
            self.settle(Settlement(lease, Released(), sent=False))
        await self._committer.flush()
        await self._save()
        await self._stations.frontier.commit(checkpoints=self._stations.outlet.finish().checkpoints)

    async def _ending(self) -> Ending:
        frontier, crawl = self._stations.frontier, self._stations.crawl
        if await is_finished(frontier, crawl):
            return Ending.FINISHED
        counts = await frontier.counts(crawl)
        if self._settings.max_pages and counts.done >= self._settings.max_pages:
            return Ending.LIMITED
        return Ending.INTERRUPTED

    # --- taking work -----------------------------------------------------------------------------

    async def _feed(self, stop: Stop) -> None:
        """Keep the slots supplied until there is nothing left, then send them home."""
        frontier = self._stations.frontier
        while not stop.drain.is_set():
            wait = IDLE
            room = await self._room()
            if room > 0:
                await self._commit_late()
                grant = await frontier.lease(
                    holder=self._stations.holder,
                    limit=min(room, LEASE_BATCH),
                    ttl=self._settings.lease,
                    crawls=(self._stations.crawl,),
                )
                for lease in grant.leases:
                    self._take(lease)
                if grant.leases:
                    continue
                wait = grant.wait
            if await self._finished(wait):
                break
            await self._sleep(wait, stop)
        while not self._queue.empty():  # draining: what no slot has begun goes back untouched
            if (unbegun := self._queue.get_nowait()) is not None:
                self.settle(Settlement(unbegun, Released(), sent=False))
        for _ in range(self._settings.concurrency):
            self._queue.put_nowait(None)

    def _take(self, lease: Lease) -> None:
        if self._stations.shared:
            # Another worker may have followed a seed to this host: what it has queued is in scope.
            self._stations.border.admit(lease.host)
        self._out[lease.fingerprint] = lease
        self._queue.put_nowait(lease)

    async def _room(self) -> int:
        """Say how many more leases may be taken now."""
        if self._stations.crowded is not None and self._stations.crowded():
            return 0
        backlog = self._stations.parser.backlog
        if backlog.pages >= PARSE_BACKLOG or backlog.bytes >= PARSE_BACKLOG_BYTES:
            return 0
        # A store that takes its time must not let more pile up than a kill may cost.
        owed = len(self._out) + self._committer.pending
        room = min(
            self._settings.concurrency + MOST - owed,
            self._settings.concurrency + PREFETCH - self._active - self._queue.qsize(),
        )
        if self._part is not None:
            room = min(room, self._part() + MOST - owed)
        if self._settings.max_pages and room > 0:
            counts = await self._stations.frontier.counts(self._stations.crawl)
            room = min(room, self._settings.max_pages - counts.done - counts.parsing - counts.leased)
        return room

    async def _finished(self, wait: float) -> bool:
        if self._out:
            return False
        frontier, crawl, limit = self._stations.frontier, self._stations.crawl, self._settings.max_pages
        if limit and (await frontier.counts(crawl)).done >= limit:
            return True
        # Counting takes a question to every shard of a shared frontier. While it knows of anything to wait
        # for, be it another worker's lease, there is something left.
        if self._stations.shared:
            if math.isfinite(wait) or time.monotonic() - self._counted_at < COUNT_EVERY:
                return False
            self._counted_at = time.monotonic()
        return await is_finished(frontier, crawl)

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
                outcome = Dead(internal(error))
                self._tally.outcome(outcome)
                self._end(Settlement(lease, outcome))
            finally:
                self._active -= 1
            if self._queue.qsize() < PREFETCH // 2:
                self._wake.set()

    async def _attempt(self, lease: Lease) -> None:
        """Fetch a request, and pass on what came of it: to be parsed, or to be settled."""
        stations = self._stations
        if stations.shared and self.gave_up(lease):
            return  # this process was stopped: others have it by now
        began = time.monotonic()
        earlier = await self._earlier(lease)
        attempt = await stations.fetcher.attempt(
            lease,
            etag=earlier.header("etag") if earlier else "",
            modified=earlier.header("last-modified") if earlier else "",
        )
        if attempt.crawl_delay is not None and attempt.crawl_delay > lease.interval:
            await stations.frontier.host_set(lease.host, crawl_delay=attempt.crawl_delay)
        if attempt.response is not None:
            self._tally.bytes += len(attempt.response.wire)
        if attempt.outcome is None:
            stations.frontier.landed([lease])
            self._parsing.take(attempt, earlier)
            return
        self._tally.outcome(attempt.outcome)
        self._end(
            Settlement(
                lease,
                attempt.outcome,
                attempt.links,
                blocked=attempt.blocked,
                sent=attempt.sent,
                elapsed=time.monotonic() - began,
            )
        )

    def _end(self, settlement: Settlement) -> None:
        """Settle an attempt that brought no page; if that was the end, the hook has its say first."""
        if self._parsing.take_failed(settlement):
            self._stations.frontier.landed([settlement.lease])
        else:
            self.settle(settlement)

    async def _earlier(self, lease: Lease) -> StoredPage | None:
        """Find the page as the crawl's previous generation left it, if it can be asked for again."""
        known = await self._stations.frontier.validators(self._stations.crawl, [lease.fingerprint])
        if (validator := known.get(lease.fingerprint)) is None or not (validator.etag or validator.modified):
            return None
        return self._stations.pages.earlier(validator.ref)

    # --- what became of it -----------------------------------------------------------------------

    def settle(self, settlement: Settlement, result: ParseResult | None = None) -> None:
        """Hand an outcome in; from then on the lease no longer counts as out."""
        self._let_go(settlement.lease)
        self._committer.settle(settlement, result)

    def gave_up(self, lease: Lease) -> bool:
        """Tell whether a lease has run out while its page was in hand; what it brought is dropped then."""
        if self._stations.frontier.holds(lease):
            return False
        self._let_go(lease)
        self._stations.border.renew()
        return True

    def _let_go(self, lease: Lease) -> None:
        # By token: the request may have been leased to us again since.
        if (out := self._out.get(lease.fingerprint)) is not None and out.token == lease.token:
            del self._out[lease.fingerprint]

    def acknowledge(self, acknowledgement: Acknowledgement, result: ParseResult | None = None) -> None:
        """Hand in the end of a page that was settled before it was parsed."""
        self._committer.acknowledge(acknowledgement, result)

    # --- chores ----------------------------------------------------------------------------------

    async def _keep_up(self) -> None:
        """Extend what is still being worked on, settle pages whose parse takes long, save cookies."""
        lease_time = self._settings.lease
        if self._stations.shared:
            # Deadlines are on the store's clock and not on ours, so all are extended. Slow pages stay leased:
            # whoever would parse them next would have to read them from the archive.
            while True:
                await asyncio.sleep(lease_time / 4)
                await self._extend(list(self._out.values()))
                await self._save()
        while True:
            await asyncio.sleep(min(lease_time / 4, PATIENCE / 2))
            soon = time.time() + lease_time / 2
            await self._extend([lease for lease in self._out.values() if lease.leased_until < soon])
            self._parsing.settle_slow()
            await self._save()

    async def _commit_late(self) -> None:
        """Commit before leases are reclaimed whose pages are archived: they would be archived again."""
        if not self._stations.shared and self._committer.late(time.time() + SOON):
            await self._committer.flush()

    async def _extend(self, leases: Sequence[Lease]) -> None:
        if leases:
            await self._commit_late()
            for renewed in await self._stations.frontier.extend(leases, self._settings.lease):
                if renewed.fingerprint in self._out:
                    self._out[renewed.fingerprint] = renewed

    async def _save(self) -> None:
        """Keep what else a resumed crawl should find as it was: cookies, and hosts that seeds led to.

        The workers of a fleet have cookies of their own; what they keep is what they have counted.
        """
        stations = self._stations
        if stations.shared:
            state = {f"{sums.PART}{stations.holder}": stations.totals.dump()}
        else:
            state = {"cookies": stations.jar.dump()}
            if stations.border.hosts is not None:
                state["hosts"] = msgspec.json.encode(sorted(stations.border.hosts))
        if state != self._saved:
            await stations.frontier.commit(crawl_state={stations.crawl: state})
            self._saved = state

    async def _enforce(self, stop: Stop, deadline: asyncio.Timeout) -> None:
        """Give what is in hand its grace after the first request to stop, and none after the second."""
        loop = asyncio.get_running_loop()
        await stop.drain.wait()
        self._wake.set()
        deadline.reschedule(loop.time() + self._settings.grace)
        await stop.now.wait()
        deadline.reschedule(loop.time())

    async def _show(self, watch: Callable[[Snapshot], None] | None, stop: Stop) -> None:
        while watch is not None:
            began = time.monotonic()
            watch(await self.snapshot(draining=stop.drain.is_set()))
            # Looking takes time with many hosts; never more than a twentieth of all there is.
            await asyncio.sleep(max(WATCH_EVERY, 19 * (time.monotonic() - began)))

    async def opening(self) -> Opening:
        """Say what the crawl starts from."""
        return await opening_of(self._stations)

    async def summary(self, ending: Ending) -> Summary:
        """Say what has become of the crawl."""
        return await summary_of(self._stations, ending, await self.snapshot(draining=False))

    async def snapshot(self, *, draining: bool) -> Snapshot:
        """Look at the crawl as it is now."""
        stations = self._stations
        counts = await stations.frontier.counts(stations.crawl)
        now = time.time()
        return self._tally.snapshot(
            crawl=stations.crawl,
            counts=counts.by_state(),
            over_budget=counts.over_budget - self._over_budget,
            hosts=[view_of(host, now) for host in await stations.frontier.hosts()],
            in_flight=self._active,
            parse_backlog=stations.parser.backlog.pages,
            draining=draining,
        )
