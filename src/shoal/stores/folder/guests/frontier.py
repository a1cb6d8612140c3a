"""The frontier of a guest: changes are calls to the owner, reading is reading the database."""

import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import replace

from shoal.frontier.results import Added, Committed, HostView, Opened, StoredRobots, Unparsed
from shoal.frontier.sqlite import SqliteReader
from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.failure import FailureClass
from shoal.model.outcome import Acknowledgement, Grant, Lease, Settlement
from shoal.model.pace import Pace, TurnAnswer, TurnRequest
from shoal.model.request import Link
from shoal.stores.folder.guests import messages
from shoal.stores.folder.guests.connection import OwnerConnection


class GuestFrontier:
    """See `Frontier`."""

    def __init__(
        self, owner: OwnerConnection, reader: SqliteReader, clock: Callable[[], float] = time.time
    ) -> None:
        self._owner = owner
        self._clock = clock
        self._deadlines: dict[tuple[int, int], float] = {}  # of the leases that this process holds
        self.reader = reader
        self.crawls = GuestCrawls(owner)
        self.hosts = GuestHosts(owner, reader)
        self.dead_letters = GuestDeadLetters(owner)

    async def add(self, crawl: str, links: Sequence[Link]) -> Added:
        """Accept the links that the crawl has not seen."""
        return await self._owner.call(messages.AddLinksCall(crawl, list(links)), Added)

    async def readmit(
        self, crawl: str, links: Sequence[Link], rule: FailureClass = FailureClass.ROBOTS
    ) -> int:
        """Queue the links again whose requests a rule had filtered; return how many."""
        return await self._owner.call(messages.ReadmitLinksCall(crawl, list(links), rule), int)

    # --- leases ----------------------------------------------------------------------------------

    async def lease(
        self,
        *,
        holder: str,
        limit: int,
        ttl: float,
        pools: Sequence[str] = ("http",),
        crawls: Sequence[str] | None = None,
    ) -> Grant:
        """Lease up to `limit` requests whose host is due, for `ttl` seconds."""
        chosen = None if crawls is None else list(crawls)
        self._forget_expired()
        grant = await self._owner.call(
            messages.TakeLeasesCall(holder, limit, ttl, list(pools), chosen), Grant
        )
        for lease in grant.leases:
            self._deadlines[_identity(lease)] = lease.leased_until
        return grant

    def holds(self, lease: Lease) -> bool:
        """Return True if, as far as this process knows, a settlement of the lease would be accepted now."""
        return _identity(lease) in self._deadlines

    async def held(self, leases: Sequence[Lease]) -> list[Lease]:
        """Return the leases whose settlement would be accepted now, by the owner's word."""
        found = await self._owner.call(messages.FindHeldCall(list(leases)), list[Lease])
        self._forget(set(map(_identity, leases)) - set(map(_identity, found)))
        return found

    def keep_until_settled(self, leases: Sequence[Lease]) -> None:
        """Keep these leases past their deadlines; `held` tells which of them were still held."""
        for lease in leases:
            if self.holds(lease):
                self._deadlines[_identity(lease)] = math.inf
        self._owner.tell(messages.KeepLeasesCall(list(leases)))

    def mark_landed(self, leases: Sequence[Lease]) -> None:
        """Record that requests have left the wire, although they are not settled yet."""
        self._owner.tell(messages.MarkLandedCall(list(leases)))

    async def extend(self, leases: Sequence[Lease], ttl: float) -> list[Lease]:
        """Move deadlines to `ttl` seconds from now, never earlier; return the leases that are still held."""
        self._forget_expired()
        renewed = await self._owner.call(messages.ExtendLeasesCall(list(leases), ttl), list[Lease])
        self._forget(set(map(_identity, leases)) - set(map(_identity, renewed)))
        for lease in renewed:
            self._deadlines[_identity(lease)] = lease.leased_until
        return renewed

    async def reclaim(self) -> int:
        """Take back the leases whose deadline has passed; return how many."""
        self._forget_expired()
        return await self._owner.call(messages.ReclaimLeasesCall(), int)

    def _forget_expired(self) -> None:
        """Forget the leases whose deadline has passed: the call that follows reclaims them."""
        now = self._clock()
        self._forget([identity for identity, until in self._deadlines.items() if until <= now])

    def _forget(self, identities: Collection[tuple[int, int]]) -> None:
        for identity in identities:
            self._deadlines.pop(identity, None)

    # --- committing ------------------------------------------------------------------------------

    async def commit(
        self,
        settlements: Sequence[Settlement] = (),
        acknowledgements: Sequence[Acknowledgement] = (),
        checkpoints: Mapping[str, bytes] = {},
        crawl_state: Mapping[str, Mapping[str, bytes]] = {},
    ) -> Committed:
        """Settle, acknowledge and store, all in one transaction."""
        work = messages.CommitWorkCall(
            list(settlements),
            list(acknowledgements),
            dict(checkpoints),
            {crawl: dict(values) for crawl, values in crawl_state.items()},
        )
        committed = await self._owner.call(work, Committed)
        self._forget([_identity(settlement.lease) for settlement in settlements])
        # Of several for one page, the first is accepted.
        left = Counter(acknowledgement.fingerprint for acknowledgement in committed.refused)
        refused: list[Acknowledgement] = []
        for one in reversed(acknowledgements):
            if left[one.fingerprint] > 0:
                left[one.fingerprint] -= 1
                refused.insert(0, one)
        return replace(committed, refused=refused)

    async def settle(self, settlements: Sequence[Settlement]) -> Committed:
        """End attempts, each with its outcome and the links it found."""
        return await self.commit(settlements)

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> Committed:
        """End the parsing of pages that were settled as `Fetched`."""
        return await self.commit(acknowledgements=acknowledgements)

    async def parsing(self, crawl: str) -> AsyncIterator[Unparsed]:
        """Yield the pages that no process is parsing."""
        call = messages.NextUnparsedCall(crawl)
        # Without a timeout: a page with strikes is held back until the one before is parsed.
        while (page := await self._owner.call(call, Unparsed | None, timeout=None)) is not None:  # type: ignore[arg-type]
            yield page

    async def earlier_pages(
        self, crawl: str, fingerprints: Sequence[int], *, host: str = ""
    ) -> Mapping[int, bytes]:
        """Return the records of these pages in the latest generation that has fetched them."""
        return await self.reader.earlier_pages(crawl, fingerprints)

    async def claim(self, crawl: str) -> None:
        """Run a crawl alone until the connection ends; raise `StoreBusy` if another process runs it."""
        await self._owner.call(messages.ClaimCall(crawl), object)

    # --- turns -----------------------------------------------------------------------------------

    async def turn(self, request: TurnRequest) -> TurnAnswer:
        """Take the turn of a host from the gate of the owner."""
        asked_at = time.monotonic()
        answer = await self._owner.call(messages.TakeTurnCall(request), TurnAnswer)
        return TurnAnswer(answer.kind, answer.wait, asked_at, answer.receipt)

    async def is_paused(self, crawl: str, host: str) -> bool:
        """Return whether nothing may be sent to a host for a crawl."""
        return await self._owner.call(messages.IsPausedCall(crawl, host), bool)


class GuestCrawls:
    """See `FrontierCrawls`."""

    def __init__(self, owner: OwnerConnection) -> None:
        self._owner = owner

    async def open(
        self,
        name: str,
        *,
        pace: Pace | None = None,
        max_crashes: int | None = None,
        slowdown: SlowdownRules | None = None,
        host_budget: int | None = None,
        hosts: Mapping[str, Pace] | None = None,
        state: Mapping[str, bytes] | None = None,
    ) -> Opened:
        """Create or resume a crawl. Options that are None keep their value."""
        call = messages.OpenCrawlCall(
            name,
            pace,
            max_crashes,
            slowdown,
            host_budget,
            None if hosts is None else dict(hosts),
            None if state is None else dict(state),
        )
        return await self._owner.call(call, Opened)

    async def delete(
        self, name: str, *, checkpoints: Collection[str] = (), entirely: bool = False, keep: int = 1
    ) -> bool:
        """Delete a crawl that is not open, and the named checkpoints; return False if it does not exist."""
        return await self._owner.call(messages.DeleteCrawlCall(name, list(checkpoints), entirely, keep), bool)

    async def pause(self, crawl: str) -> None:
        """Stop leasing from a crawl until `resume`."""
        await self._owner.call(messages.SetPausedCall(crawl, paused=True), object)

    async def resume(self, crawl: str) -> None:
        await self._owner.call(messages.SetPausedCall(crawl, paused=False), object)

    async def set_value(self, crawl: str, key: str, value: bytes) -> None:
        """Store a value with a crawl."""
        await self._owner.call(messages.SetValueCall(crawl, key, value), object)


class GuestHosts:
    """See `FrontierHosts`."""

    def __init__(self, owner: OwnerConnection, reader: SqliteReader) -> None:
        self._owner = owner
        self._reader = reader

    async def get(self, host: str) -> HostView | None:
        """Return one host, or None if the store has no record of it."""
        return await self._owner.call(messages.GetHostCall(host), HostView | None)  # type: ignore[arg-type]

    async def all(self) -> list[HostView]:
        """Return every host of the crawls that this process runs."""
        return await self._owner.call(messages.ListHostsCall(), list[HostView])

    async def set(
        self,
        host: str,
        *,
        interval: float | None = None,
        burst: int | None = None,
        concurrency: int | None = None,
        crawl_delay: float | None = None,
        rest_until: float | None = None,
        paused: bool | None = None,
    ) -> HostView:
        """Override the pace of a host, rest it or pause it. What is None stays unchanged."""
        call = messages.SetHostCall(host, interval, burst, concurrency, crawl_delay, rest_until, paused)
        return await self._owner.call(call, HostView)

    async def clear(self, host: str) -> HostView:
        """Remove the interval, burst and concurrency set for a host: the crawls' pace applies again."""
        return await self._owner.call(messages.ClearHostCall(host), HostView)

    async def get_robots(self, host: str) -> StoredRobots | None:
        """Return a host's robots.txt, or None if it is unknown or expired."""
        return await self._reader.robots(host)

    async def set_robots(self, host: str, *, expires: float, status: int, body: bytes) -> None:
        await self._owner.call(messages.SetRobotsCall(host, expires, status, body), object)


class GuestDeadLetters:
    """See `FrontierDeadLetters`."""

    def __init__(self, owner: OwnerConnection) -> None:
        self._owner = owner

    async def replay(
        self,
        crawl: str,
        *,
        classes: Collection[FailureClass] = (),
        host: str = "",
        fingerprints: Collection[int] = (),
        limit: int | None = None,
    ) -> int:
        """Put dead letters back, first accepted first; an archived page that was at fault is parsed again."""
        call = messages.ReplayLettersCall(crawl, list(classes), host, list(fingerprints), limit)
        return await self._owner.call(call, int)

    async def purge(
        self,
        crawl: str,
        *,
        classes: Collection[FailureClass] = (),
        host: str = "",
        fingerprints: Collection[int] = (),
        limit: int | None = None,
    ) -> int:
        """Delete dead letters, first accepted first. Their requests stay dead and seen."""
        call = messages.PurgeLettersCall(crawl, list(classes), host, list(fingerprints), limit)
        return await self._owner.call(call, int)


def _identity(lease: Lease) -> tuple[int, int]:
    return lease.fingerprint, lease.token
