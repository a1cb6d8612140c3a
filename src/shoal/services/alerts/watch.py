"""The loop that evaluates alerts: in a folder in the process that runs the crawl, in a fleet in one worker.

Every process publishes its figures. The one that has the claim of the store also evaluates: the claim expires
by itself, so another process takes over from one that was killed. The window of observations is in memory;
after a change it fills again, and alerts that are active stay so until their condition is known to be over.

Nothing here ends a crawl or a worker: what fails is logged, and tried again with the next round. A store that
does not answer is a separate alert, which only this process can raise.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Annotated, Protocol

import msgspec

from shoal.engine.snapshot import WorkerStats
from shoal.model.alert import Alert, AlertBook, AlertKind, Level, dump_book, read_book
from shoal.model.errors import ShoalError
from shoal.model.format import duration
from shoal.model.quarantine import Seconds
from shoal.model.settings import AlertSettings
from shoal.services.alerts.background import in_background
from shoal.services.alerts.evaluate import Evaluation, clear_all, evaluate, stop_all
from shoal.services.alerts.gather import Hosts, StoredHosts, gather
from shoal.services.alerts.observation import Observation
from shoal.services.alerts.window import since
from shoal.services.inspect.monitor import count_held
from shoal.stores.contract.monitoring import ALERTS, CLAIM, FIGURES
from shoal.stores.contract.store import Store
from shoal.worker.figures import figures_of

log = logging.getLogger(__name__)
progress = logging.getLogger("shoal.progress")  # which `shoal crawl` shows without -v: what was raised ends

MIN_TIMEOUT_S = 5.0  # for one round
TIMEOUT_PER_CRAWL_S = 0.1  # in addition: several times what reading one takes on a busy machine
MAX_SHARE = 0.2  # of the time that is spent on rounds; a store with a thousand crawls is evaluated less often
CLAIM_ROUNDS = 3  # after so many rounds without a sign, another process evaluates
FORGET_S = 300.0  # after which the figures of a process that has ended are removed
CLOSE_S = 3.0
MIN_ROUND_S = 1e-6
ACT_AFTER = 0.2  # of the window: a host that fails for so long is paused
MAX_CLAIM_S = 3600.0
MAX_HOSTS = 10_000  # of which the held ones are counted
HELD_EVERY_S, HELD_SHARE = 10.0, 0.02  # at least, and of the time at most


class Claim(msgspec.Struct, frozen=True):
    holder: str
    until: Seconds  # since the epoch
    length_s: Annotated[float, msgspec.Meta(ge=0.0, le=MAX_CLAIM_S)] = 60.0  # for which it was taken

    def is_valid(self, now: float) -> bool:
        """Return whether it still holds; one from a time that is far ahead does not: a clock was set back."""
        return now < self.until <= now + 2 * self.length_s


class Notifier(Protocol):
    """Where alerts are sent."""

    def send(self, event: str, alert: Alert, store: str) -> None:
        """Queue an alert; never waits."""


class AlertWatch:
    """`stats` returns what this process does; None: it only evaluates. `hosts` are those of the frontier, if
    this process has it open.
    """

    def __init__(
        self,
        store: Store,
        rules: AlertSettings,
        *,
        worker: str,
        stats: Callable[[], WorkerStats] | None,
        hosts: Hosts | None = None,
        notifier: Notifier | None = None,
        is_finished: Callable[[], bool] = lambda: True,
    ) -> None:
        """`is_finished`: asked at the end, whether the crawl of a folder has nothing left to do."""
        self._hosts = hosts or StoredHosts(store)
        self._store = store
        self._rules = rules
        self._worker = worker
        self._stats = stats
        self._notifier = notifier
        self._is_finished = is_finished
        self._window: Sequence[Observation] = ()
        self._holds = False  # the claim
        self._outage: Alert | None = None  # the store does not answer
        self._took_s = 0.0  # the last round; 0: before the first one
        self._period_s = rules.every  # from the begin of one round to that of the next
        self._held: dict[str, int] = {}
        self._held_due = 0.0
        self._faulty = False  # the last round met a bug

    async def run(self) -> None:
        """Evaluate until cancelled; a crawl that ends before the first round has no alerts."""
        while True:
            await asyncio.sleep(max(self._period_s - self._took_s, 0.05))
            await self.look()

    async def look(self) -> None:
        """Evaluate once."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(max(self._rules.every, MIN_TIMEOUT_S)) as limit:
                await self._round(limit)
        except (ShoalError, OSError, TimeoutError) as error:
            self._fail(error)
        except Exception:
            if not self._faulty:
                log.exception("alerts.failed")
            self._faulty = True
        else:
            self._faulty = False
            self._period_s = max(self._rules.every, (time.monotonic() - began) / MAX_SHARE)
        self._took_s = time.monotonic() - began

    async def evaluate(self) -> None:
        """Evaluate once, now."""
        began = time.monotonic()
        with suppress(ShoalError, OSError, TimeoutError):
            async with asyncio.timeout(MIN_TIMEOUT_S) as limit:
                await self._round(limit)
        self._took_s = max(time.monotonic() - began, MIN_ROUND_S)

    async def close(self) -> None:
        """Leave in good order: remove the figures and the claim.

        The alerts of a folder end when its crawl is finished. If the crawl was stopped, they are reported as
        such: that a process has ended does not mean that all is well.
        """
        if not self._took_s:
            return
        with suppress(ShoalError, OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                monitoring = self._store.monitoring
                await monitoring.put({f"{FIGURES}{self._worker}": None})
                if not self._holds:
                    return
                if not self._store.capabilities.shared:
                    book, now = read_book(await monitoring.get(ALERTS)), time.time()
                    if self._is_finished():
                        await self._record(clear_all(book, now, by=self._worker))
                    else:
                        stopped = stop_all(book, now, by=self._worker)
                        await self._record(Evaluation(stopped))
                        self._report("alert.stopped", stopped.unknown)
                await monitoring.put({CLAIM: None})

    def interrupt(self) -> None:
        """Have `close` report that the crawl was stopped."""
        self._is_finished = lambda: False

    async def _round(self, limit: asyncio.Timeout) -> None:
        began = time.monotonic()
        now, monitoring = time.time(), self._store.monitoring
        if self._stats is not None:
            figures = figures_of(self._worker, self._stats(), now, window_s=self._rules.window)
            await monitoring.put({f"{FIGURES}{self._worker}": msgspec.msgpack.encode(figures)})
        self._holds = await self._claim(now, self._period_s)
        if not self._holds:
            self._recover(None)
            self._window = ()
            return
        previous = self._recover(read_book(await monitoring.get(ALERTS)))
        self._extend(limit, len(await self._store.crawls.names()))
        observation = await gather(self._store, self._hosts)
        self._window = [*since(self._window, observation.at, self._rules.window), observation]
        done = evaluate(self._window, self._rules, previous, by=self._worker)
        room = observation.room
        ratio = room.used / room.limit if room is not None and room.limit else 0.0
        held = await self._count_held()
        done = replace(done, book=msgspec.structs.replace(done.book, held=held, used_ratio=ratio))
        await self._record(await self._act(done))
        if expired := [f"{FIGURES}{one.worker}" for one in observation.figures.values() if _is_old(one.at)]:
            await monitoring.put(dict.fromkeys(expired))
        if (period_s := (time.monotonic() - began) / MAX_SHARE) > self._period_s:
            self._holds = await self._claim(time.time(), period_s)  # or it would expire before the next round

    def _extend(self, limit: asyncio.Timeout, crawls: int) -> None:
        """Allow what reading so many crawls takes; a store that does not answer was noticed before."""
        if (at := limit.when()) is not None:
            limit.reschedule(at + TIMEOUT_PER_CRAWL_S * crawls)

    async def _count_held(self) -> dict[str, int]:
        """Count the hosts of a fleet that are not fetched at their pace, unless there are too many."""
        now = time.monotonic()
        if self._store.capabilities.shared and now >= self._held_due:
            queues = await self._store.frontier.queues(MAX_HOSTS)
            self._held = count_held(queues or (), time.time())
            self._held_due = now + max(HELD_EVERY_S, (time.monotonic() - now) / HELD_SHARE)
        return self._held

    async def _claim(self, now: float, period_s: float) -> bool:
        """Take or keep the claim to evaluate, for some rounds; return whether this process has it."""
        monitoring = self._store.monitoring
        stored = await monitoring.get(CLAIM)
        held = _read_claim(stored)
        if held is not None and held.holder != self._worker and held.is_valid(now):
            return False
        length_s = min(CLAIM_ROUNDS * max(period_s, MIN_TIMEOUT_S), MAX_CLAIM_S)
        mine = Claim(self._worker, now + length_s, length_s)
        return await monitoring.swap(CLAIM, stored, msgspec.msgpack.encode(mine))

    async def _record(self, done: Evaluation) -> None:
        await self._store.monitoring.put({ALERTS: dump_book(done.book)})
        self._report("alert.raised", done.raised)
        self._report("alert.cleared", done.cleared)

    def _report(self, event: str, alerts: Sequence[Alert]) -> None:
        for alert in alerts:
            log_alert(event, alert)
            if self._notifier is not None:
                self._notifier.send(event, alert, self._store.address)

    # --- actions ---------------------------------------------------------------------------------

    async def _act(self, done: Evaluation) -> Evaluation:
        """Do what the policy says about alerts that have been true for long enough, and note it with them."""
        if "pause_host" not in self._rules.actions:
            return done
        acted = {}
        patience_s = ACT_AFTER * self._rules.window
        for alert in done.book.active:
            is_due = not alert.done and done.book.at - alert.since >= patience_s
            if alert.kind is AlertKind.HOST_FAILING and is_due:
                acted[alert.key] = msgspec.structs.replace(alert, done=await self._pause(alert.about))
        if not acted:
            return done
        book = msgspec.structs.replace(
            done.book, open=tuple(acted.get(alert.key, alert) for alert in done.book.open)
        )
        return Evaluation(book, [acted.get(alert.key, alert) for alert in done.raised], done.cleared)

    async def _pause(self, host: str) -> str:
        """Pause a host for a while; return what was done, in words."""
        try:
            await self._hosts.set(host, rest_until=time.time() + self._rules.pause)
        except ShoalError as error:
            return f"it could not be paused: {error}"
        progress.info("host.paused", extra={"host": host, "seconds": self._rules.pause, "why": "alert"})
        return f"it is paused for {duration(self._rules.pause)}"

    # --- a store that does not answer ------------------------------------------------------------

    def _fail(self, error: Exception) -> None:
        """Raise an alert that the store does not answer, once it has not for long enough."""
        now = time.time()
        if self._outage is None:
            why = str(error) or "no answer in time"
            self._outage = Alert(
                kind=AlertKind.STORE_UNAVAILABLE,
                about=self._worker,
                level=Level.CRITICAL,
                stage="store",
                cause=f"the store does not answer {self._worker}: {why}; no request leaves until it does",
                action="check its server and the network; workers continue by themselves when it answers",
                since=now,
            )
        outage = msgspec.structs.replace(self._outage, held_at=now)
        if not outage.raised_at and now - outage.since >= self._rules.wait:
            outage = msgspec.structs.replace(outage, raised_at=now)
            log_alert("alert.raised", outage)
            if self._notifier is not None and self._holds:  # of many workers, one sends it
                self._notifier.send("alert.raised", outage, self._store.address)
        self._outage = outage

    def _recover(self, book: AlertBook | None) -> AlertBook:
        """Clear the alert about a store that answers again; return the stored alerts with it in the past."""
        outage, self._outage = self._outage, None
        if outage is None or not outage.raised_at:
            return book or AlertBook()
        cleared = msgspec.structs.replace(outage, cleared_at=time.time())
        log_alert("alert.cleared", cleared)
        if self._notifier is not None and self._holds:
            self._notifier.send("alert.cleared", cleared, self._store.address)
        self._window = ()  # nothing moved while it did not answer
        if book is None:
            return AlertBook()
        return msgspec.structs.replace(book, recent=(cleared, *book.recent))


def log_alert(event: str, alert: Alert) -> None:
    """Log an alert that was raised or cleared, or whose process has ended."""
    about = {"kind": alert.kind.value, "about": alert.about, "stage": alert.stage}
    if event == "alert.raised":
        level = logging.ERROR if alert.level is Level.CRITICAL else logging.WARNING
        log.log(level, event, extra={**about, "why": alert.cause, "done": alert.done, "action": alert.action})
    elif event == "alert.stopped":
        progress.info(event, extra={**about, "why": alert.cause})
    else:
        after = round(max(alert.cleared_at - alert.raised_at, 0.0), 1)
        progress.info(event, extra={**about, "after_s": after})


def _is_old(at: float) -> bool:
    return abs(time.time() - at) > FORGET_S


def _read_claim(stored: bytes | None) -> Claim | None:
    try:
        return None if stored is None else msgspec.msgpack.decode(stored, type=Claim)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


@asynccontextmanager
async def watching(watch: AlertWatch) -> AsyncIterator[None]:
    """Evaluate alerts while the block runs."""
    try:
        async with in_background([watch.run()]):
            yield
    except BaseException:
        watch.interrupt()
        raise
    finally:
        await watch.close()
