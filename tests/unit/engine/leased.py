"""Leases as a frontier would grant them, and fakes of what surrounds them in a crawl."""

from collections.abc import Mapping, Sequence

import msgspec

from shoal.engine.outputs import Durable, Ended
from shoal.model.outcome import Acknowledgement, Grant, Lease, Settlement
from shoal.model.page import ParseResult
from shoal.model.request import Request


def lease(number: int, *, token: int = 1, until: float = 60.0, host: str = "a.test") -> Lease:
    return Lease("c", number, token, host, Request(url=f"http://{host}/{number}"), 1, 0, 0, until, 0.0, 1)


class ScriptedFrontier:
    """Grants what a test has queued, and records its calls."""

    def __init__(self) -> None:
        self.grants: list[list[Lease]] = []
        self.calls: list[str] = []
        self.settled: list[Settlement] = []
        self.lost: set[int] = set()  # tokens
        self.extended: list[int] = []  # fingerprints
        self.pools: tuple[str, ...] = ()  # of the latest call

    async def lease(
        self,
        *,
        holder: str,
        limit: int,
        ttl: float,
        crawls: Sequence[str] | None = None,
        pools: Sequence[str] = ("http",),
    ) -> Grant:
        self.calls.append("lease")
        self.pools = tuple(pools)
        return Grant(self.grants.pop(0)[:limit] if self.grants else [], 1.0)

    def holds(self, lease: Lease) -> bool:
        return lease.token not in self.lost

    async def held(self, leases: Sequence[Lease]) -> list[Lease]:
        return [lease for lease in leases if self.holds(lease)]

    def keep_until_settled(self, leases: Sequence[Lease]) -> None:
        pass

    async def extend(self, leases: Sequence[Lease], ttl: float) -> Sequence[Lease]:
        self.calls.append("extend")
        self.extended += [lease.fingerprint for lease in leases]
        return [msgspec.structs.replace(lease, leased_until=1000.0) for lease in leases]

    async def commit(
        self,
        settlements: Sequence[Settlement] = (),
        acknowledgements: Sequence[Acknowledgement] = (),
        checkpoints: Mapping[str, bytes] = {},
        crawl_state: Mapping[str, Mapping[str, bytes]] = {},
    ) -> None:
        self.calls.append("commit")
        self.settled += settlements


class NoOutputs:
    """Outputs that keep nothing."""

    def put(self, ended: Ended, result: ParseResult) -> Ended:
        return ended

    async def flush(self) -> Durable:
        return Durable()

    async def finish(self) -> Durable:
        return Durable()


class AtHundred:
    """The ownership of one process whose clock shows 100."""

    settle_after = settle_after_stop = 2.0

    def __init__(self) -> None:
        self.recorded: list[int] = []  # fingerprints

    def record_lease(self, lease: Lease) -> None:
        self.recorded.append(lease.fingerprint)

    def extend_before(self, ttl: float) -> float:
        return 100.0 + ttl / 2

    def expired_by(self) -> float:
        return 100.0

    def may_be_finished(self, wait: float) -> bool:
        return True

    def state(self) -> Mapping[str, bytes]:
        return {}


class SentLinksCounter:
    """Counts how often parse children were asked to send their links again."""

    def __init__(self) -> None:
        self.forgotten = 0

    def forget_sent_links(self) -> None:
        self.forgotten += 1
