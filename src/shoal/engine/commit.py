"""Group commit: the one place where work becomes durable.

The order carries the guarantees. First the bytes of the archive and of the crawl's outputs are flushed, then
one transaction of the store settles the leases, adds the links and records the lengths of both. A crash
before the transaction leaves bytes that nothing refers to: they are cut off on resume, and the leases
expire. A crash after it leaves nothing to do. There is no third case.

A fleet's store has no transaction over all its shards. There the links come first, then each settlement with
its items in one step: a crash in between adds the links once more, which changes nothing.

Many pages share one commit: it starts `GATHER_S` seconds after the first of them, or when there are
`COMMIT_BATCH`. Pages with very many links share none: a commit holds its links several times in memory, as
objects and as what is sent to the store.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from shoal.engine.logs.spans import CommitTimes
from shoal.engine.outputs import Ended, OutputCommit
from shoal.model.generations.page_history import PageFate, PageHistory, pack_history
from shoal.model.outcome import Acknowledgement, Dead, Fetched, Gone, Lease, Settlement
from shoal.model.page import ParseResult

GATHER_S = 0.010
COMMIT_BATCH = 64
COMMIT_LINK_BYTES = 8 << 20  # links of one commit


class CommitFrontier(Protocol):
    """The part of a frontier that committing needs."""

    async def held(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Return the leases whose settlement would be accepted now."""

    def keep_until_settled(self, leases: Sequence[Lease]) -> None:
        """Keep these leases past their deadlines: their pages are about to be written."""

    async def commit(
        self,
        settlements: Sequence[Settlement] = (),
        acknowledgements: Sequence[Acknowledgement] = (),
        checkpoints: Mapping[str, bytes] = {},
        crawl_state: Mapping[str, Mapping[str, bytes]] = {},
    ) -> object: ...


class SentLinks(Protocol):
    """What parse children remember of the links that they have sent."""

    def forget_sent_links(self) -> None:
        """Make them send links again: some were dropped with a page whose lease has expired."""


class PageBus(Protocol):
    """Where pages that other workers have fetched come from."""

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Take pages off the bus: the store has recorded their end."""


class AttemptLog(Protocol):
    """The record of attempts: written after their commit, and never in its way."""

    def settled(self, settlement: Settlement, result: ParseResult | None, *, lost: bool = False) -> None:
        """Log an attempt; `lost`: its lease had expired, and its outcome was discarded."""

    def acknowledged(self, end: Acknowledgement, result: ParseResult | None) -> None: ...


class Committer:
    """Collects what became of requests and makes it durable in groups; `wake` is set after each commit."""

    def __init__(
        self,
        store: CommitFrontier,
        outputs: OutputCommit,
        *,
        wake: asyncio.Event,
        sent_links: SentLinks,
        bus: PageBus | None = None,
        logs: Sequence[AttemptLog] = (),
        keeps_history: bool = False,
    ) -> None:
        self.logs = list(logs)
        self.times = CommitTimes(0.0, 0.0, 0.0, 0.0)  # of the latest commit
        self._keeps_history = keeps_history  # for the next generations
        self._store = store
        self._outputs = outputs
        self._wake = wake
        self._sent_links = sent_links
        self._bus = bus
        self._settlements: list[tuple[Settlement, ParseResult | None]] = []
        self._acknowledgements: list[tuple[Acknowledgement, ParseResult | None]] = []
        self._lost: Counter[int] = Counter()  # pages settled too late whose parse has not ended yet
        self._committing: list[Lease] = []
        self._acknowledging = 0
        self._link_bytes = 0  # of what was handed in and is not durable yet
        self._first = asyncio.Event()
        self._full = asyncio.Event()
        self._began_at = 0.0  # the commit in progress; 0: none is
        self._flushing = asyncio.Lock()  # an output that is slow must not be flushed twice at once

    def settle(self, settlement: Settlement, result: ParseResult | None = None) -> None:
        # Its page is in the archive's buffer, and flushing takes time: no deadline may have it fetched again.
        self._store.keep_until_settled([settlement.lease])
        self._settlements.append((self._with_fate(settlement), result))
        self._schedule(result)

    def acknowledge(self, acknowledgement: Acknowledgement, result: ParseResult | None = None) -> None:
        self._acknowledgements.append((self._with_fate(acknowledgement), result))
        self._schedule(result)

    def _with_fate(self, ended: Ended) -> Ended:
        """Return how a request ended with what the next generations need to know, if it brought no page."""
        match ended.outcome:
            case Gone(status=status) if self._keeps_history:
                history = PageHistory(PageFate.GONE, status)
            case Dead(failure=failure) if self._keeps_history:
                history = PageHistory(PageFate.DEAD, failure.status)
            case _:
                return ended
        return msgspec.structs.replace(ended, history=pack_history(history))

    def _schedule(self, result: ParseResult | None) -> None:
        self._first.set()
        self._link_bytes += link_bytes(result)
        waiting = len(self._settlements) + len(self._acknowledgements)
        if waiting >= COMMIT_BATCH or self._link_bytes >= COMMIT_LINK_BYTES:
            self._full.set()

    @property
    def link_bytes(self) -> int:
        """Count the bytes of the links that were handed in and are not durable yet."""
        return self._link_bytes

    @property
    def pending(self) -> int:
        """Count what was handed in and is not durable yet."""
        return len(self.leases) + len(self._acknowledgements) + self._acknowledging

    @property
    def leases(self) -> list[Lease]:
        """List the leases that were handed in and are not settled yet, for whatever reason."""
        return [*self._committing, *(settlement.lease for settlement, _ in self._settlements)]

    def has_expired(self, now: float) -> bool:
        """Return whether a lease that was handed in has expired: then this process was suspended.

        While a flush is in progress the answer is no: it is the reason, and waiting for it would not help.
        """
        if self._flushing.locked():
            return False
        return any(settlement.lease.leased_until <= now for settlement, _ in self._settlements)

    async def run(self) -> None:
        """Commit group after group until cancelled."""
        while True:
            await self._first.wait()
            try:
                async with asyncio.timeout(GATHER_S):
                    await self._full.wait()
            except TimeoutError:
                pass
            await self.flush()

    async def flush(self) -> None:
        """Make everything durable that was handed in so far."""
        async with self._flushing:
            self._began_at = time.monotonic()
            try:
                await self._flush()
            finally:
                self._began_at = 0.0

    @property
    def committing_s(self) -> float:
        """Seconds that the commit in progress has taken so far; 0: none is in progress."""
        return time.monotonic() - self._began_at if self._began_at else 0.0

    async def _flush(self) -> None:
        self._first.clear()
        self._full.clear()
        settlements, acknowledgements = len(self._settlements), len(self._acknowledgements)
        while settlements or acknowledgements:
            # Settlements first: a page that was settled before its parse ended is acknowledged after that.
            count, taken = count_within(self._settlements[:settlements], COMMIT_LINK_BYTES)
            settlements -= count
            first, self._settlements = self._settlements[:count], self._settlements[count:]
            second: list[tuple[Acknowledgement, ParseResult | None]] = []
            if not settlements and taken < COMMIT_LINK_BYTES:
                left = COMMIT_LINK_BYTES - taken
                count, more = count_within(self._acknowledgements[:acknowledgements], left)
                acknowledgements -= count
                second, self._acknowledgements = (
                    self._acknowledgements[:count],
                    self._acknowledgements[count:],
                )
                taken += more
            try:
                await self._commit(first, second)
            finally:
                self._link_bytes -= taken

    async def _commit(
        self,
        settlements: Sequence[tuple[Settlement, ParseResult | None]],
        acknowledgements: Sequence[tuple[Acknowledgement, ParseResult | None]],
    ) -> None:
        self._committing = [settlement.lease for settlement, _ in settlements]
        self._acknowledging = len(acknowledgements)
        # A lease that expired before its page was committed belongs to another worker, and so do its items.
        try:
            answer = await self._store.held(self._committing) if settlements else ()
        except asyncio.CancelledError:
            self._settlements[:0] = settlements
            self._acknowledgements[:0] = acknowledgements
            self._committing, self._acknowledging = [], 0
            raise
        kept = set(map(_identity, answer))
        held = [entry for entry in settlements if _identity(entry[0].lease) in kept]
        if len(held) < len(settlements):
            self._sent_links.forget_sent_links()
            self._lost.update(
                settlement.lease.fingerprint
                for settlement, _ in settlements
                if isinstance(settlement.outcome, Fetched) and _identity(settlement.lease) not in kept
            )
        acknowledgements = [entry for entry in acknowledgements if not self._is_lost(entry[0].fingerprint)]
        settled = [self._put(settlement, result) for settlement, result in held]
        acknowledged = [self._put(acknowledgement, result) for acknowledgement, result in acknowledgements]
        began = time.time()
        try:
            durable = await self._outputs.flush()
            flushed = time.time()
            await self._store.commit(settled, acknowledged, durable.checkpoints, durable.crawl_state)
        except asyncio.CancelledError:
            # Cut off by the end of a drain, which flushes once more. The outputs keep what they were given,
            # and the store does not repeat what it has done.
            self._settlements[:0] = [(settlement, None) for settlement in settled]
            self._acknowledgements[:0] = [(acknowledgement, None) for acknowledgement in acknowledged]
            self._committing, self._acknowledging = [], 0
            raise
        archived = min(began + durable.archive_s, flushed) if durable.archive_s else flushed
        self.times = CommitTimes(began, archived, flushed, time.time())
        for log in self.logs:
            self._record(log, settlements, held, acknowledgements)
        if acknowledged and self._bus is not None:
            await self._bus.acknowledge(acknowledged)
        self._committing, self._acknowledging = [], 0
        self._wake.set()

    def _record(
        self,
        log: AttemptLog,
        settlements: Sequence[tuple[Settlement, ParseResult | None]],
        held: Sequence[tuple[Settlement, ParseResult | None]],
        acknowledgements: Sequence[tuple[Acknowledgement, ParseResult | None]],
    ) -> None:
        for settlement, result in held:
            log.settled(settlement, result)
        if len(held) < len(settlements):
            kept = {id(settlement) for settlement, _ in held}
            for settlement, result in settlements:
                if id(settlement) not in kept:
                    log.settled(settlement, result, lost=True)
        for acknowledgement, result in acknowledgements:
            log.acknowledged(acknowledgement, result)

    def _put(self, ended: Ended, result: ParseResult | None) -> Ended:
        return ended if result is None else self._outputs.put(ended, result)

    def _is_lost(self, fingerprint: int) -> bool:
        """Return whether this acknowledges a page whose settlement was refused; once for each of those."""
        if not self._lost[fingerprint]:
            return False
        self._lost[fingerprint] -= 1
        return True


def _identity(lease: Lease) -> tuple[int, int]:
    return lease.fingerprint, lease.token


def link_bytes(result: ParseResult | None) -> int:
    """Return the bytes of the links that a page has brought."""
    return 0 if result is None else sum(map(len, result.requests))


def count_within(entries: Sequence[tuple[object, ParseResult | None]], most: int) -> tuple[int, int]:
    """Return how many entries have at most `most` bytes of links, but at least one, and their bytes."""
    count = total = 0
    for _, result in entries:
        size = link_bytes(result)
        if count and total + size > most:
            break
        count, total = count + 1, total + size
    return count, total
