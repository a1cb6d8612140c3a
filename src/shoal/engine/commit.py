"""Group commit: the one place where work becomes durable.

The order is what the promises rest on. First the bytes of the archive and of the crawl's own outputs, then
one transaction of the store that settles the leases, adds the links and records how long both had become. A
crash before the transaction leaves bytes that nothing points to: they are cut off on resume, and the leases
run out. A crash after it leaves nothing to do. There is no third case.

A fleet's store has no transaction over all its shards. There the links come first, then each settlement with
its items in one step: a crash in between adds the links once more, which changes nothing.

Many pages share one commit: it starts `GATHER` seconds after the first of them, or when there are `MOST`.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from shoal.engine.outputs import Ended, OutputCommit
from shoal.model.outcome import Acknowledgement, Fetched, Lease, Settlement
from shoal.model.page import ParseResult

GATHER = 0.010
MOST = 64


class Store(Protocol):
    """The part of a frontier that committing needs."""

    def holds(self, lease: Lease) -> bool: ...

    async def commit(
        self,
        settlements: Sequence[Settlement] = (),
        acknowledgements: Sequence[Acknowledgement] = (),
        checkpoints: Mapping[str, bytes] = {},
        crawl_state: Mapping[str, Mapping[str, bytes]] = {},
    ) -> object: ...


Acknowledged = Callable[[Sequence[Acknowledgement]], Awaitable[None]]


class Committer:
    """Collects what became of requests and makes it durable in groups."""

    def __init__(
        self,
        store: Store,
        outlet: OutputCommit,
        *,
        on_commit: Callable[[], None],
        on_stale: Callable[[], None],
        on_acknowledged: Acknowledged | None = None,
    ) -> None:
        self._store = store
        self._outlet = outlet
        self._on_acknowledged = on_acknowledged
        self._on_commit = on_commit
        self._on_stale = on_stale
        self._settlements: list[tuple[Settlement, ParseResult | None]] = []
        self._acknowledgements: list[tuple[Acknowledgement, ParseResult | None]] = []
        self._lost: Counter[int] = Counter()  # pages settled too late whose parse is still to come
        self._committing: list[Lease] = []
        self._acknowledging = 0
        self._first = asyncio.Event()
        self._full = asyncio.Event()

    def settle(self, settlement: Settlement, result: ParseResult | None = None) -> None:
        self._settlements.append((settlement, result))
        self._note()

    def acknowledge(self, acknowledgement: Acknowledgement, result: ParseResult | None = None) -> None:
        self._acknowledgements.append((acknowledgement, result))
        self._note()

    def _note(self) -> None:
        self._first.set()
        if len(self._settlements) + len(self._acknowledgements) >= MOST:
            self._full.set()

    @property
    def pending(self) -> int:
        """Count what was handed in and is not durable yet."""
        return len(self.leases) + len(self._acknowledgements) + self._acknowledging

    @property
    def leases(self) -> list[Lease]:
        """List the leases that were handed in and are not settled yet, whatever that is waiting for."""
        return [*self._committing, *(settlement.lease for settlement, _ in self._settlements)]

    def late(self, now: float) -> bool:
        """Tell whether a lease that was handed in has run out: then this process was stopped in between."""
        return any(settlement.lease.leased_until <= now for settlement, _ in self._settlements)

    async def run(self) -> None:
        """Commit group after group until cancelled."""
        while True:
            await self._first.wait()
            try:
                async with asyncio.timeout(GATHER):
                    await self._full.wait()
            except TimeoutError:
                pass
            await self.flush()

    async def flush(self) -> None:
        """Make everything durable that was handed in so far."""
        settlements, self._settlements = self._settlements, []
        acknowledgements, self._acknowledgements = self._acknowledgements, []
        self._first.clear()
        self._full.clear()
        if not settlements and not acknowledgements:
            return
        self._committing = [settlement.lease for settlement, _ in settlements]
        self._acknowledging = len(acknowledgements)
        # A lease that ran out while its page was in hand belongs to somebody else now, and so do its items.
        held = [entry for entry in settlements if self._store.holds(entry[0].lease)]
        if len(held) < len(settlements):
            self._on_stale()
            self._lost.update(
                settlement.lease.fingerprint
                for settlement, _ in settlements
                if isinstance(settlement.outcome, Fetched) and not self._store.holds(settlement.lease)
            )
        acknowledgements = [entry for entry in acknowledgements if not self._is_lost(entry[0].fingerprint)]
        settled = [self._told(settlement, result) for settlement, result in held]
        acknowledged = [self._told(acknowledgement, result) for acknowledgement, result in acknowledgements]
        try:
            durable = await self._outlet.flush()
            await self._store.commit(settled, acknowledged, durable.checkpoints, durable.crawl_state)
        except asyncio.CancelledError:
            # Cut off by the end of a drain, which flushes once more. What the outlet was told stays told, and
            # what the store has done already it does not do again.
            self._settlements[:0] = [(settlement, None) for settlement in settled]
            self._acknowledgements[:0] = [(acknowledgement, None) for acknowledgement in acknowledged]
            self._committing, self._acknowledging = [], 0
            raise
        if acknowledged and self._on_acknowledged is not None:
            await self._on_acknowledged(acknowledged)
        self._committing, self._acknowledging = [], 0
        self._on_commit()

    def _told(self, ended: Ended, result: ParseResult | None) -> Ended:
        return ended if result is None else self._outlet.put(ended, result)

    def _is_lost(self, fingerprint: int) -> bool:
        """Tell whether this acknowledges a page whose settlement was refused: once for each of those."""
        if not self._lost[fingerprint]:
            return False
        self._lost[fingerprint] -= 1
        return True
