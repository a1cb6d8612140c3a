"""Reads a store again and again, in a thread with an event loop for it alone, and keeps what pages show.

Reading a large store takes longer than a page may: counting a folder's queue by host, or following a log,
blocks for a tenth of a second. The server's own loop never waits for that. Results are replaced as a whole.
The sampler spends at most a tenth of its time on reading, and a fiftieth on lists of hosts.
"""

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import msgspec

from shoal.archive.fetch_log import LoggedAttempt
from shoal.frontier.results import HostQueue
from shoal.model.alert import Alert, AlertKind, Level
from shoal.model.api.live import (
    HISTORY_FIELDS,
    AlertLines,
    AttemptLine,
    HistoryFigures,
    HostGraph,
    HostLine,
    LiveSummary,
    PipelinePicture,
)
from shoal.model.api.problem import ApiError
from shoal.model.errors import DataFault, ShoalError
from shoal.model.settings import AlertSettings
from shoal.services.alerts.read import read_alerts
from shoal.services.inspect.monitor import SlowHosts
from shoal.services.inspect.status import StoreStatus, read_status
from shoal.services.live.attempts import Burst, RecentAttempts, burst_of
from shoal.services.live.history import SAMPLE_S, HistoryRing, Point, past_points
from shoal.services.live.lines import HostTable, alert_line, crawl_lines, host_line, plain_totals
from shoal.services.live.log_tail import LogTail
from shoal.services.live.pipeline import Speeds, draw_picture, unavailable_picture
from shoal.services.live.speeds import CrawlSpeeds, SpeedMeter, StoreTotals, attempts_of, totals_of
from shoal.stores.contract.store import Store
from shoal.stores.open import open_store, public_address, store_exists

log = logging.getLogger(__name__)

READ_SHARE = 0.1  # of the time may be spent on reading counts
HOSTS_SHARE = 0.02  # and on reading hosts
HOSTS_EVERY_S = (4.0, 120.0)
QUICK_S = 0.5  # hosts that are read in this time are read at once when an operator has changed one
FIRST_HOSTS_S = 0.25  # that a request waits for the first reading
MAX_SLOW_HOSTS = 20
ALERTS_EVERY_S = 2.0
LATE_PASSES = 4  # for which a log is read after its crawl has moved: it is written a second later
READ_TIMEOUT_S = 10.0  # after which a store counts as unavailable
STOP_POLL_S = 0.1  # the end is asked for by another thread
MAX_LISTENERS = 200
MAX_RINGS = 20  # crawls with a history
NO_STORE = "there is no store here yet: shoal crawl URL starts a crawl"


@dataclass(frozen=True, slots=True)
class LiveSample:
    """What one pass found. Never changed: another pass makes another one."""

    summary: LiveSummary
    status: StoreStatus | None = None
    alerts: AlertLines = field(default_factory=lambda: AlertLines(active=[], recent=[]))


class LiveStore:
    """What pages ask: the latest sample, the history, the latest attempts."""

    def __init__(self, dsn: str, rules: AlertSettings | None = None) -> None:
        self._dsn = dsn
        self.rules = rules or AlertSettings()
        self._lock = threading.Lock()
        self._recent = RecentAttempts()
        self._ring = HistoryRing()
        self._rings: dict[str, HistoryRing] = {}
        picture = PipelinePicture(at=time.time(), stages=[], verdict="reading the store", state="idle")
        self._changed: list[Callable[[], None]] = []
        self._stop = threading.Event()
        self._hosts_changed = threading.Event()
        self.host_table = HostTable()  # replaced as a whole
        self.sample = LiveSample(_empty_summary(dsn, picture, was_read=False))

    @property
    def sample(self) -> LiveSample:
        return self._sample

    @sample.setter
    def sample(self, sample: LiveSample) -> None:
        self._sample = sample
        self._encoded = msgspec.json.encode(sample.summary)
        for wake in list(self._changed):
            wake()

    @property
    def dsn(self) -> str:
        """The address of the store; it may contain a password."""
        return self._dsn

    @asynccontextmanager
    async def running(self) -> AsyncIterator["LiveStore"]:
        """Keep reading the store for as long as the block runs."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(asyncio.to_thread(_run, self, self._stop), name="live.sampler")
            try:
                yield self
            finally:
                self.close()
                await task

    def close(self) -> None:
        """Stop reading, and end what follows the summaries."""
        self._stop.set()
        for wake in list(self._changed):
            wake()

    def check_room(self) -> None:
        """Raise if no more clients can follow."""
        if len(self._changed) >= MAX_LISTENERS:
            raise ApiError(
                429, "too_many_listeners", f"{MAX_LISTENERS} clients follow events already", retry_after_s=5.0
            )

    @asynccontextmanager
    async def following(self) -> AsyncIterator[AsyncIterator[bytes]]:
        """Follow the encoded summaries: the current one, then each new one; ends when the store is closed.

        A slow reader skips those in between.
        """
        loop, event = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(event.set)

        async def summaries() -> AsyncIterator[bytes]:
            while not self._stop.is_set():
                event.clear()
                yield self._encoded
                await event.wait()

        self._changed.append(wake)
        try:
            yield summaries()
        finally:
            self._changed.remove(wake)

    def publish(self, sample: LiveSample, point: Point, failures: Counter[str]) -> None:
        """Replace the sample; called by the sampler's thread."""
        with self._lock:
            self._ring.add(point, failures)
        self.sample = sample

    def add_rows(self, rows: Sequence[LoggedAttempt], now: float) -> None:
        with self._lock:
            self._recent.add(rows, now)

    def add_past(self, crawl: str, rows: Sequence[LoggedAttempt], now: float) -> None:
        """Fill the history of a crawl, or of the store, with attempts from before this process."""
        with self._lock:
            if crawl:
                self._recent.add(rows, now)
            ring = self._rings.setdefault(crawl, HistoryRing()) if crawl else self._ring
            if ring.is_blank:
                for point, failures in past_points(rows, now):
                    ring.add(point, failures)

    def add_crawl_point(self, crawl: str, point: Point, failures: Counter[str]) -> None:
        with self._lock:
            if crawl not in self._rings and len(self._rings) >= MAX_RINGS:
                self._rings.pop(next(iter(self._rings)))
            self._rings.setdefault(crawl, HistoryRing()).add(point, failures)

    def history(self, span: str, crawl: str = "") -> HistoryFigures:
        with self._lock:
            ring = self._rings.get(crawl) if crawl else self._ring
            return ring.history(span) if ring is not None else HistoryFigures()

    def attempts(self, *, crawl: str, failed: bool, host: str, limit: int) -> list[AttemptLine]:
        with self._lock:
            return self._recent.list(crawl=crawl, failed=failed, host=host, limit=limit)

    def graph(self, crawl: str, limit: int) -> HostGraph:
        """Return the link graph of a crawl's hosts. May take a tenth of a second: call it in a thread."""
        with self._lock:  # only for the copy: requests on the event loop wait for it
            found = self._recent.graph(crawl)
        if found is not None:
            return found.top(limit)
        problem = self.sample.summary.log_problem or "the fetch log has no attempt of this crawl yet"
        return HostGraph(nodes=[], edges=[], hosts_total=0, attempts=0, problem=problem)

    def hosts(
        self, *, sort: str, state: str, search: str, limit: int, offset: int
    ) -> tuple[list[HostLine], int]:
        """Return a part of the hosts with requests, and how many match."""
        table, now = self.host_table, time.time()
        chosen = table.choose(sort=sort, state=state, search=search)
        total, wanted = len(chosen), offset + limit
        with self._lock:
            if sort == "failures":
                failing = [host for host in self._recent.hosts.failing(wanted) if search in host]
                if state:
                    failing = table.in_state(failing, state)
                chosen, total = table.failing_first(chosen, failing, wanted)
            shown = [host_line(one, self._recent.hosts.of(one.host), now) for one in chosen[offset:wanted]]
        return shown, total

    def host(self, name: str) -> tuple[HostLine, HostQueue]:
        """Return one host; without a queue if no request waits for it."""
        queue = self.host_table.by_name.get(name) or HostQueue(name, 0, 0.0, 0, paused=False)
        with self._lock:
            return host_line(queue, self._recent.hosts.of(name), time.time()), queue

    async def slow_hosts(self, limit: int = MAX_SLOW_HOSTS) -> SlowHosts:
        """Return the hosts that take longest, as they were read last; wait a moment for the first reading."""
        until = time.monotonic() + FIRST_HOSTS_S
        while not self.host_table.read_at and time.monotonic() < until:  # noqa: ASYNC110 (of a thread)
            await asyncio.sleep(0.01)
        table = self.host_table
        return SlowHosts(table.by_left[:limit], table.held)

    def hosts_changed(self) -> None:
        """Have the hosts read again soon: an operator has changed one."""
        self._hosts_changed.set()

    def take_changes(self) -> bool:
        """Return whether a host was changed since the last call."""
        changed = self._hosts_changed.is_set()
        self._hosts_changed.clear()
        return changed


def _empty_summary(dsn: str, picture: PipelinePicture, *, was_read: bool = True) -> LiveSummary:
    return LiveSummary(
        at=picture.at,
        store=public_address(dsn),
        shared=False,
        owner=None,
        picture=picture,
        crawls=[],
        crawls_total=0,
        workers_total=0,
        hosts_total=0,
        was_read=was_read,
    )


def _run(live: LiveStore, stop: threading.Event) -> None:
    asyncio.run(_read_until_stopped(live, stop))


async def _read_until_stopped(live: LiveStore, stop: threading.Event) -> None:
    """Read until `stop` is set. A store that does not answer by then is not waited for."""
    reading = asyncio.create_task(_keep_reading(live, stop), name="live.reader")
    while not reading.done() and not stop.is_set():
        await asyncio.wait((reading,), timeout=STOP_POLL_S)
    reading.cancel()
    with suppress(asyncio.CancelledError):
        await reading


async def _keep_reading(live: LiveStore, stop: threading.Event) -> None:
    lost_at = 0.0
    while not stop.is_set():
        problem: ShoalError | DataFault | TimeoutError | None = None
        try:
            if not await asyncio.to_thread(store_exists, live.dsn):
                picture = PipelinePicture(at=time.time(), stages=[], verdict=NO_STORE)
                live.sample = LiveSample(_empty_summary(live.dsn, picture))
                await _pause(stop, SAMPLE_S)
                continue
            async with open_store(live.dsn) as store:
                sampler = _Sampler(live, store)
                async with asyncio.TaskGroup() as group:
                    beside = [
                        group.create_task(sampler.keep_hosts(stop), name="live.hosts"),
                        group.create_task(sampler.keep_alerts(stop), name="live.alerts"),
                    ]
                    problem = await sampler.run(stop)
                    for task in beside:
                        task.cancel()
                lost_at = lost_at if sampler.passes == 0 else 0.0
        except (ShoalError, DataFault) as error:  # it cannot be opened
            problem = error
        if problem is not None:
            now = time.time()
            lost_at = lost_at or now - READ_TIMEOUT_S * isinstance(problem, TimeoutError)
            why = str(problem) or f"no answer within {READ_TIMEOUT_S:.0f} s"
            _publish_problem(live, why, now - lost_at, now)
            await _pause(stop, SAMPLE_S)


async def _pause(stop: threading.Event, seconds: float) -> None:
    """Wait, but not longer than until `stop` is set."""
    until = time.monotonic() + seconds
    while not stop.is_set() and (left := until - time.monotonic()) > 0:  # noqa: ASYNC110 (of a thread)
        await asyncio.sleep(min(left, STOP_POLL_S))


def _publish_problem(live: LiveStore, why: str, since_s: float, now: float) -> None:
    before = live.sample
    picture = unavailable_picture(before.summary.picture if before.status else None, why, since_s, now)
    point: Point = (now, *[None] * (len(HISTORY_FIELDS) - 1))
    summary = msgspec.structs.replace(
        before.summary, picture=picture, problem=why, sample=list(point), was_read=True, alerts_active=1
    )
    unavailable = Alert(
        kind=AlertKind.STORE_UNAVAILABLE,
        level=Level.CRITICAL,
        stage="store",
        cause=picture.verdict,
        action="start the store, or restore the network to it; crawls continue by themselves",
        since=now - since_s,
    )
    alerts = AlertLines(active=[alert_line(unavailable)], recent=before.alerts.recent, evaluated_at=now)
    live.publish(replace(before, summary=summary, alerts=alerts), point, Counter())
    log.warning("store.unavailable", extra={"why": why})


class _Sampler:
    """The state of one connection to a store."""

    def __init__(self, live: LiveStore, store: Store) -> None:
        self._live = live
        self._store = store
        self._tail = LogTail(store)
        self._meter = SpeedMeter()
        self._crawl_speeds = CrawlSpeeds()
        self._counts: Mapping[str, int] = {}
        self._logged = False
        self._last_at = 0.0
        self._alerts = AlertLines(active=[], recent=[])
        self._moving: dict[str, int] = {}  # passes in which the log of a crawl is still read, by crawl
        self.passes = 0

    async def run(self, stop: threading.Event) -> ShoalError | DataFault | TimeoutError | None:
        """Read the store until `stop` is set; return why it cannot be read any more."""
        while not stop.is_set():
            began = time.monotonic()
            try:
                async with asyncio.timeout(READ_TIMEOUT_S):
                    status = await read_status(self._store)
                took = time.monotonic() - began
                await self._publish(status)
            except (ShoalError, DataFault, TimeoutError) as error:
                return error
            self.passes += 1
            await _pause(stop, max(SAMPLE_S - took, took / READ_SHARE - took))
        return None

    async def _publish(self, status: StoreStatus) -> None:
        now = time.time()
        hosts = self._live.host_table
        status = replace(status, hosts=hosts.by_left)
        burst, by_crawl = await self._read_log(status, now)
        totals = totals_of(status)
        speeds = self._meter.measure(now, totals, burst, logged=self._logged, due=hosts.is_due)
        rates = self._crawl_speeds.measure(now, status.crawls)
        passed = now - self._last_at if self._last_at else 0.0
        self._last_at = now
        for crawl in status.crawls:
            if (part := by_crawl.get(crawl.name)) is not None:
                alone = totals_of(replace(status, crawls=[crawl], fleet=None))
                speed = Speeds(pages=rates.get(crawl.name))
                own = _point(now, passed, part, alone, speed, logged=self._logged)
                self._live.add_crawl_point(crawl.name, own, part.failures)
        point = _point(now, passed, burst, totals, speeds, logged=self._logged)
        summary = self._summary(status, speeds, rates, point, now)
        self._live.publish(LiveSample(summary, status, self._alerts), point, burst.failures)

    async def keep_hosts(self, stop: threading.Event) -> None:
        """Read the queues of all hosts from time to time; with very many of them that takes seconds."""
        while not stop.is_set():
            began = time.monotonic()
            with suppress(ShoalError, DataFault):  # `run` reports a store that does not answer
                queues = [queue for queue in await self._store.frontier.queues() or () if queue.queued]
                self._live.host_table = await asyncio.to_thread(HostTable.of, queues, time.time())
            took = time.monotonic() - began
            every = min(max(took / HOSTS_SHARE, HOSTS_EVERY_S[0]), HOSTS_EVERY_S[1])
            until = time.monotonic() + every
            while not stop.is_set() and time.monotonic() < until:
                await _pause(stop, 0.1)
                if took < QUICK_S and self._live.take_changes():
                    break

    async def keep_alerts(self, stop: threading.Event) -> None:
        while not stop.is_set():
            began = time.monotonic()
            with suppress(ShoalError, DataFault):
                found = await read_alerts(self._store, self._live.rules)
                self._alerts = AlertLines(
                    active=[*map(alert_line, found.active)],
                    recent=[*map(alert_line, found.recent)],
                    unknown=[*map(alert_line, found.unknown)],
                    evaluated_at=found.at,
                    by=found.by,
                )
            await _pause(stop, max(ALERTS_EVERY_S, (time.monotonic() - began) / READ_SHARE))

    async def _read_log(self, status: StoreStatus, now: float) -> tuple[Burst, Mapping[str, Burst]]:
        """Return the new attempts of the crawls that have moved; the past ones only fill the lists."""
        first = not self._counts
        counts = {crawl.name: attempts_of(crawl) for crawl in status.crawls}
        for name, number in counts.items():
            if self._counts.get(name) != number:
                self._moving[name] = LATE_PASSES
        self._moving = {name: left - 1 for name, left in self._moving.items() if left and name in counts}
        moved = list(self._moving)
        self._tail.forget(counts)
        self._counts = counts
        rows: list[LoggedAttempt] = []
        if first:
            past: list[LoggedAttempt] = []
            for name in moved[-MAX_RINGS:]:
                of_crawl = await self._tail.past_rows(name)
                self._live.add_past(name, of_crawl, now)
                past += of_crawl
            self._live.add_past("", past, now)
            self._logged = bool(past)
        else:
            rows = await self._tail.new_rows(moved)
            self._live.add_rows(rows, now)
        self._logged = self._logged or bool(rows)
        grouped: dict[str, list[LoggedAttempt]] = {} if first else {name: [] for name in moved[:MAX_RINGS]}
        for row in rows:
            grouped.setdefault(row.crawl, []).append(row)
        return burst_of(rows), {crawl: burst_of(part) for crawl, part in grouped.items()}

    def _summary(
        self, status: StoreStatus, speeds: Speeds, rates: Mapping[str, float], point: Point, now: float
    ) -> LiveSummary:
        hosts = self._live.host_table
        return LiveSummary(
            at=now,
            store=status.store,
            shared=status.fleet is not None,
            owner=status.owner,
            picture=draw_picture(status, speeds, now),
            crawls=crawl_lines(status, rates, limit=50),
            crawls_total=len(status.crawls),
            workers_total=len(status.fleet.workers) if status.fleet else int(status.owner is not None),
            hosts_total=len(hosts.by_left),
            hosts_held=dict(hosts.held),
            dead_total=sum(crawl.counts["dead"] for crawl in status.crawls),
            totals=plain_totals(status),
            sample=[None if value is None else round(value, 3) for value in point],
            latency_known=self._logged,
            log_problem=self._tail.problem,
            alerts_active=len(self._alerts.active),
        )


def _point(
    now: float, passed: float, burst: Burst, totals: StoreTotals, speeds: Speeds, *, logged: bool
) -> Point:
    def per_s(number: float) -> float | None:
        return number / passed if passed else None

    failures = sum(burst.failures.values())
    return (
        now,
        per_s(burst.pages) if logged else speeds.pages,
        per_s(failures) if logged else None,
        per_s(burst.bytes) if logged else None,
        per_s(burst.items) if logged else speeds.items,
        burst.percentile(0.5),
        burst.percentile(0.95),
        burst.percentile(0.99),
        float(totals.waiting),
        None,
        float(totals.unparsed),
        float(totals.unwritten),
    )
