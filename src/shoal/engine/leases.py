"""The leases that are out: granted to this process, and their outcome not handed in yet."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from shoal.engine.commit import Committer
from shoal.engine.ownership import Ownership
from shoal.model.outcome import Acknowledgement, Grant, Lease, Released, Settlement
from shoal.model.page import ParseResult


class Lessor(Protocol):
    """The part of a frontier that grants leases."""

    async def lease(
        self, *, holder: str, limit: int, ttl: float, crawls: Sequence[str] | None = None
    ) -> Grant: ...
    def holds(self, lease: Lease) -> bool: ...
    async def extend(self, leases: Sequence[Lease], ttl: float) -> Sequence[Lease]: ...


class Leases:
    """Stands between the loops of a crawl and its frontier: every lease comes and goes through here.

    `on_lost` is called when one turns out to have run out while its page was in hand.
    """

    def __init__(
        self,
        frontier: Lessor,
        committer: Committer,
        ownership: Ownership,
        *,
        crawl: str,
        holder: str,
        ttl: float,
        on_lost: Callable[[], None],
    ) -> None:
        self._frontier = frontier
        self._committer = committer
        self._ownership = ownership
        self._crawl = crawl
        self._holder = holder
        self._ttl = ttl
        self._on_lost = on_lost
        self._out: dict[int, Lease] = {}  # by fingerprint

    def __len__(self) -> int:
        return len(self._out)

    def __iter__(self) -> Iterator[Lease]:
        return iter(list(self._out.values()))

    @property
    def owed(self) -> int:
        """Count what a kill would cost now: what is out, and what was handed in and is not durable yet."""
        return len(self._out) + self._committer.pending

    async def take(self, limit: int) -> Grant:
        """Ask for up to `limit` more; those that are granted count as out."""
        await self._commit_late()
        grant = await self._frontier.lease(
            holder=self._holder, limit=limit, ttl=self._ttl, crawls=(self._crawl,)
        )
        for lease in grant.leases:
            self._ownership.took(lease)
            self._out[lease.fingerprint] = lease
        return grant

    async def extend(self) -> None:
        """Move the deadlines that come near: what is out is still being worked on.

        So is what was handed in, as long as an archive that does not answer keeps it from being settled.
        """
        before = self._ownership.extend_before(self._ttl)
        held = [*self, *self._committer.leases]
        if not (near := [lease for lease in held if lease.leased_until < before]):
            return
        await self._commit_late()
        for renewed in await self._frontier.extend(near, self._ttl):
            if self._is_out(renewed):
                self._out[renewed.fingerprint] = renewed

    def settle(self, settlement: Settlement, result: ParseResult | None = None) -> None:
        """Hand an outcome in; from then on the lease no longer counts as out."""
        self._let_go(settlement.lease)
        self._committer.settle(settlement, result)

    def acknowledge(self, acknowledgement: Acknowledgement, result: ParseResult | None = None) -> None:
        """Hand in the end of a page that was settled before it was parsed."""
        self._committer.acknowledge(acknowledgement, result)

    def give_back(self, lease: Lease) -> None:
        """Settle a lease of which nothing came, so that it costs nobody an attempt, a crash or a turn."""
        self.settle(Settlement(lease, Released(), sent=False))

    def gave_up(self, lease: Lease) -> bool:
        """Tell whether a lease has run out while it was in hand; what it brought is dropped then."""
        if self._frontier.holds(lease):
            return False
        self._let_go(lease)
        self._on_lost()
        return True

    async def _commit_late(self) -> None:
        """Commit before leases are reclaimed whose pages are archived: they would be archived again."""
        if self._committer.late(self._ownership.run_out_by()):
            await self._committer.flush()

    def _let_go(self, lease: Lease) -> None:
        if self._is_out(lease):
            del self._out[lease.fingerprint]

    def _is_out(self, lease: Lease) -> bool:
        # By token: the request may have been leased to us again since.
        out = self._out.get(lease.fingerprint)
        return out is not None and out.token == lease.token
