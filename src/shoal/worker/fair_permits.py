"""How many requests a process may have on the wire, divided fairly among its crawls.

Without contention a crawl uses what it needs. Where more requests are ready than may be sent, the crawl that
has sent the fewest for its weight goes next: ten requests of a small crawl pass between those of one that has
a million waiting. A crawl that had nothing to send for a while gets no credit for that.

Where many crawls wait, one sends several requests in a row before the next: its pages then arrive together,
and one parse child, one commit and one lease serve all of them. One page at a time, each would need its own.
"""

import asyncio
from collections import deque
from types import TracebackType

LONGEST_BURST = 8  # requests of one crawl in a row; the leases that a crawl holds for each it may send
CRAWLS_PER_REQUEST = 4  # that wait, for each request of a burst: few crawls alternate request by request


class FairPermits:
    def __init__(self, total: int) -> None:
        self._free = total
        self._shares: set[PermitShare] = set()  # those with a request on the wire or waiting
        self._bursting: PermitShare | None = None
        self._burst_left = 0

    def share(self, weight: float = 1.0) -> "PermitShare":
        """Return the part of one crawl; entering it waits for a permit."""
        return PermitShare(self, weight)

    def take(self, share: "PermitShare") -> bool:
        """Grant a permit if one is free and no other request waits."""
        self._join(share)
        if not self._free or any(other.waiting for other in self._shares):
            return False
        self._grant(share)
        return True

    def release(self, share: "PermitShare") -> None:
        share.in_use -= 1
        self._free += 1
        while self._free and (chosen := self._choose()) is not None:
            turn = chosen.waiting.popleft()
            if not turn.done():  # done: cancelled
                self._burst_left -= 1
                self._grant(chosen)
                turn.set_result(None)
        self.leave(share)

    def _choose(self) -> "PermitShare | None":
        """Return the crawl that sends the next request; None: no request waits."""
        if self._bursting is not None and self._burst_left > 0 and self._bursting.waiting:
            return self._bursting
        waiting = [one for one in self._shares if one.waiting]
        self._bursting = min(waiting, key=lambda one: one.used, default=None)
        self._burst_left = min(LONGEST_BURST, max(1, len(waiting) // CRAWLS_PER_REQUEST))
        return self._bursting

    def leave(self, share: "PermitShare") -> None:
        if not share.in_use and not share.waiting:
            self._shares.discard(share)

    def _join(self, share: "PermitShare") -> None:
        if share not in self._shares:
            share.used = max(share.used, min((other.used for other in self._shares), default=0.0))
            self._shares.add(share)

    def _grant(self, share: "PermitShare") -> None:
        self._free -= 1
        share.in_use += 1
        share.used += 1 / share.weight


class PermitShare:
    """One crawl's part: `async with share:` is one request."""

    def __init__(self, permits: FairPermits, weight: float) -> None:
        self.weight = weight
        self.used = 0.0  # permits, divided by the weight
        self.in_use = 0
        self.waiting: deque[asyncio.Future[None]] = deque()
        self._permits = permits

    async def __aenter__(self) -> None:
        if self._permits.take(self):
            return
        turn = asyncio.get_running_loop().create_future()
        self.waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._permits.release(self)
            else:
                if turn in self.waiting:  # else a release has dropped it since it was cancelled
                    self.waiting.remove(turn)
                self._permits.leave(self)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._permits.release(self)
