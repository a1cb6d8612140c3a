"""The leases that this process holds: granted, and their outcome not handed in yet."""

from collections.abc import Iterator, Mapping, Sequence
from time import monotonic
from typing import Protocol

from shoal.engine.commit import Committer, SentLinks
from shoal.engine.fetchers import Pools
from shoal.frontier.host_watch import HostWatch
from shoal.model.outcome import Acknowledgement, Grant, Lease, Released, Settlement
from shoal.model.page import ParseResult


class Lessor(Protocol):
    """The part of a frontier that grants leases."""

    async def lease(
        self,
        *,
        holder: str,
        limit: int,
        ttl: float,
        crawls: Sequence[str] | None = None,
        pools: Sequence[str] = ("http",),
    ) -> Grant: ...
    def holds(self, lease: Lease) -> bool: ...
    async def extend(self, leases: Sequence[Lease], ttl: float) -> Sequence[Lease]: ...


class Ownership(Protocol):
    """How a crawl is run by one process alone (`embedded`), or by the workers of a fleet (`shared`)."""

    @property
    def settle_after(self) -> float:
        """Seconds after which a page is settled as fetched while its parse continues; inf: never."""

    @property
    def settle_after_stop(self) -> float:
        """The same for a crawl that is being stopped."""

    def record_lease(self, lease: Lease) -> None:
        """Take note of a lease that was granted."""

    def extend_before(self, ttl: float) -> float:
        """Return the deadline before which leases are extended now; `ttl` is how long a lease lasts."""

    def expired_by(self) -> float:
        """Return the deadline up to which a lease counts as expired: our next call may reclaim it."""

    def may_be_finished(self, wait: float) -> bool:
        """Return whether to count what is left, if the frontier has nothing for us for `wait` seconds."""

    def state(self) -> Mapping[str, bytes]:
        """Return what a resumed crawl should find again, by name."""


class Leases:
    """The leases of one crawl: every lease is granted and settled through here."""

    def __init__(
        self,
        frontier: Lessor,
        committer: Committer,
        ownership: Ownership,
        *,
        crawl: str,
        holder: str,
        ttl: float,
        pools: Pools,
        sent_links: SentLinks,
    ) -> None:
        self._frontier = frontier
        self._committer = committer
        self._ownership = ownership
        self._crawl = crawl
        self._holder = holder
        self._ttl = ttl
        self._pools = pools
        self._sent_links = sent_links
        self._held: dict[int, Lease] = {}  # by fingerprint
        self._granted_at: dict[int, float] = {}  # the same; monotonic, oldest first
        self.watch = HostWatch(crawl)

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Lease]:
        return iter(list(self._held.values()))

    @property
    def at_risk(self) -> int:
        """Count what a kill would cost now: leases held, and outcomes that are not durable yet."""
        return len(self._held) + self._committer.pending

    @property
    def oldest_s(self) -> float:
        """Seconds since the oldest lease that is held was granted; 0: none is."""
        return monotonic() - next(iter(self._granted_at.values())) if self._granted_at else 0.0

    @property
    def link_bytes(self) -> int:
        """Count the bytes of the links that were found and are not durable yet."""
        return self._committer.link_bytes

    async def take(self, limit: int) -> Grant:
        """Ask the frontier for up to `limit` more leases, and hold what it grants."""
        await self._commit_expired()
        grant = await self._frontier.lease(
            holder=self._holder,
            limit=limit,
            ttl=self._ttl,
            crawls=(self._crawl,),
            pools=self._pools.names,
        )
        now = monotonic()
        for lease in grant.leases:
            self._ownership.record_lease(lease)
            self._held[lease.fingerprint] = lease
            self._granted_at[lease.fingerprint] = now
        return grant

    async def extend(self) -> None:
        """Extend the leases whose deadline is near.

        Outcomes that were handed in count as well, as long as an unavailable archive delays their commit.
        """
        before = self._ownership.extend_before(self._ttl)
        held = [*self, *self._committer.leases]
        if not (near := [lease for lease in held if lease.leased_until < before]):
            return
        await self._commit_expired()
        for renewed in await self._frontier.extend(near, self._ttl):
            if self._is_held(renewed):
                self._held[renewed.fingerprint] = renewed

    def settle(self, settlement: Settlement, result: ParseResult | None = None) -> None:
        """Hand an outcome in; the lease is no longer held."""
        self._remove(settlement.lease)
        self.watch.note(settlement)
        self._committer.settle(settlement, result)

    def acknowledge(self, acknowledgement: Acknowledgement, result: ParseResult | None = None) -> None:
        """Hand in the end of a page that was settled before it was parsed."""
        self._committer.acknowledge(acknowledgement, result)

    def give_back(self, lease: Lease, *, delay: float = 0.0) -> None:
        """Settle a lease that was not used, so that it counts as no attempt, crash or turn."""
        self.settle(Settlement(lease, Released(delay=delay), sent=False))

    def lease_lost(self, lease: Lease) -> bool:
        """Return whether the lease has expired; its result must be discarded then."""
        if self._frontier.holds(lease):
            return False
        self._remove(lease)
        self._sent_links.forget_sent_links()
        return True

    async def _commit_expired(self) -> None:
        """Commit archived pages before their leases are reclaimed: they would be archived again."""
        if self._committer.has_expired(self._ownership.expired_by()):
            await self._committer.flush()

    def _remove(self, lease: Lease) -> None:
        if self._is_held(lease):
            del self._held[lease.fingerprint]
            self._granted_at.pop(lease.fingerprint, None)

    def _is_held(self, lease: Lease) -> bool:
        # By token: the request may have been leased to us again since.
        held = self._held.get(lease.fingerprint)
        return held is not None and held.token == lease.token
