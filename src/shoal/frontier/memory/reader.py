"""What can be asked of the model without changing it."""

import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence

from shoal.frontier.governor import host_view
from shoal.frontier.memory.state import Host, State
from shoal.frontier.results import STATES, Audit, Counts, DeadLetter, HostView, StoredRobots, Validator
from shoal.model.failure import FailureClass
from shoal.model.page import PageRecord
from shoal.model.request import unpack


class MemoryReader:
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._read_clock = clock
        self._state = State(clock)
        self._validators: dict[str, dict[int, Validator]] = {}
        self._checkpoints: dict[str, bytes] = {}
        self._robots: dict[str, StoredRobots] = {}

    async def crawls(self) -> list[str]:
        return list(self._state.crawls)

    async def paused(self, crawl: str) -> bool:
        """Say whether a crawl is paused."""
        return self._state.known(crawl).paused

    async def crawl_get(self, crawl: str, key: str) -> bytes | None:
        return self._state.known(crawl).values.get(key)

    async def checkpoint(self, name: str) -> bytes | None:
        """Read back what the last commit recorded under `name`."""
        return self._checkpoints.get(name)

    async def counts(self, crawl: str) -> Counts:
        """Count the requests of a crawl by state."""
        self._state.promote(self._state.clock.now())
        return self._state.known(crawl).counts.copy()

    async def dead_letters(
        self, crawl: str, *, kinds: Collection[FailureClass] = (), host: str = "", limit: int | None = None
    ) -> AsyncIterator[DeadLetter]:
        """Give the dead letters of a crawl, the latest first."""
        letters = self._state.dead(self._state.known(crawl), kinds, host, ())
        letters.sort(key=lambda entry: (entry.died_at, entry.ordinal), reverse=True)
        for entry in letters[:limit]:
            assert entry.failure is not None
            assert entry.first_at is not None
            yield DeadLetter(
                crawl=crawl,
                fingerprint=entry.link.fingerprint,
                host=entry.link.host,
                request=unpack(entry.link.packed),
                kind=entry.failure.failure_class,
                reason=entry.failure.reason,
                status=entry.failure.status,
                attempts=entry.attempts,
                crashes=entry.crashes,
                first_at=entry.first_at,
                died_at=entry.died_at,
                holder=entry.holder,
                page=entry.page,
            )

    async def validators(self, crawl: str, fingerprints: Sequence[int]) -> dict[int, Validator]:
        """Find what conditional requests for these pages need, if the last generation had them."""
        self._state.crawl(crawl)
        known = self._validators.get(crawl, {})
        return {fp: known[fp] for fp in fingerprints if fp in known}

    async def pages(self, crawl: str) -> AsyncIterator[tuple[int, PageRecord]]:
        """Give every page that the crawl keeps in the archive, with its fingerprint."""
        for fp, entry in self._state.known(crawl).requests.items():
            if entry.page is not None:
                yield fp, entry.page

    async def audit(self, crawl: str) -> Audit:
        """Count every set again and compare."""
        within = self._state.known(crawl)
        found = dict.fromkeys(STATES, 0)
        for entry in within.requests.values():
            found[entry.state] += 1
        told = within.counts.by_state()
        problems = [
            f"the counter of {state} says {told[state]}, the data {found[state]}"
            for state in STATES
            if told[state] != found[state]
        ]
        queued = [entry for lane in within.lanes.values() for entry in lane.waiting]
        if sorted(map(id, queued)) != sorted(
            id(entry) for entry in within.requests.values() if entry.state == "waiting"
        ):
            problems.append("what waits is not what the lanes hold")
        if within.counts.accepted != len(within.requests):
            problems.append(f"{within.counts.accepted} accepted, {len(within.requests)} seen")
        return Audit(found, problems)

    async def host_get(self, host: str) -> HostView | None:
        """Show one host; None: nobody has ever heard of it."""
        known = self._state.hosts.get(host)
        return None if known is None else self._view(known)

    async def hosts(self) -> list[HostView]:
        """Show every host of the crawls that are open."""
        return [self._view(host) for host in self._state.hosts.values() if host.joined]

    def _view(self, host: Host) -> HostView:
        lanes = [lane for crawl in host.joined for lane in crawl.lanes.values() if lane.host is host]
        return host_view(host.name, host, waiting=sum(len(lane.waiting) for lane in set(lanes)))

    async def robots_get(self, host: str) -> StoredRobots | None:
        """Recall a host's robots.txt; None: not known, or expired."""
        known = self._robots.get(host)
        return known if known is not None and known.expires > self._read_clock() else None
