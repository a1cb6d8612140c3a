"""A limit on the bytes of all large bodies being received at the same time.

Each body has its own limit, but a thousand of them at once would still fill the memory. A body counts when it
is larger than `UNCOUNTED_BYTES`. While the total is above the limit, the connections of large bodies stop
reading, and TCP flow control stops their servers. The oldest of them always continues, so that the total
decreases again. What happens to complete bodies is counted in `body_memory.py`.
"""

from typing import Protocol


class PausableTransfer(Protocol):
    """A body being received."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...


class BodyBudget:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._held: dict[PausableTransfer, int] = {}  # oldest first
        self._paused: dict[PausableTransfer, None] = {}

    def hold(self, flow: PausableTransfer, size: int) -> None:
        """Record that `flow` has received `size` bytes so far; pause it if the total is above the limit."""
        self._used += size - self._held.get(flow, 0)
        self._held[flow] = size
        if self._used > self._limit and flow not in self._paused and flow is not next(iter(self._held)):
            self._paused[flow] = None
            flow.pause()

    def free(self, flow: PausableTransfer) -> None:
        """Release the bytes of `flow`, and resume the transfers for which there is room now."""
        size = self._held.pop(flow, None)
        if size is None:
            return
        self._used -= size
        self._paused.pop(flow, None)
        for waiting in list(self._paused):
            if self._used <= self._limit or waiting is next(iter(self._held)):
                del self._paused[waiting]
                waiting.resume()
