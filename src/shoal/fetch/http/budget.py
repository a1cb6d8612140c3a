"""A budget for the bytes of all large bodies on their way together.

Each body has its own limit, but a thousand of them at once would still fill the machine. Bodies count from
`FREE` bytes on. While the total is above the limit, the connections that bring more of it stop reading, and
the kernel tells their servers; the oldest of them always flows, so that the total comes down again.
"""

from typing import Protocol

from shoal.model.limits import KIB

FREE = 64 * KIB  # most pages: not worth the bookkeeping


class Flow(Protocol):
    """A body on its way."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Budget:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._held: dict[Flow, int] = {}  # oldest first
        self._paused: dict[Flow, None] = {}

    def hold(self, flow: Flow, size: int) -> None:
        """Note that `flow` has brought `size` bytes so far; pause it if that is too much in all."""
        self._used += size - self._held.get(flow, 0)
        self._held[flow] = size
        if self._used > self._limit and flow not in self._paused and flow is not next(iter(self._held)):
            self._paused[flow] = None
            flow.pause()

    def free(self, flow: Flow) -> None:
        """Give back what `flow` held, and let those go on for whom there is room now."""
        size = self._held.pop(flow, None)
        if size is None:
            return
        self._used -= size
        self._paused.pop(flow, None)
        for waiting in list(self._paused):
            if self._used <= self._limit or waiting is next(iter(self._held)):
                del self._paused[waiting]
                waiting.resume()
