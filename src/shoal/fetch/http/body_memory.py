"""A limit on the memory of all large bodies of a process, from decoding until the engine drops their pages.

A body of 170 KB may decode to 32 MiB, and a page is kept until it has been parsed and committed. So the
number of requests in flight does not bound the memory of their bodies; this does. Before a body is decoded,
the client reserves what it may become, and waits its turn, first come, first served, while the total is above
the limit. Nothing that frees memory waits for a fetch, so the wait ends: the caller of a client must not keep
a response while it waits for another one. A single body may exceed the limit if there is no other one.
"""

import asyncio
import logging
import weakref
from collections import deque

from shoal.model.limits import KIB, MIB

UNCOUNTED_BYTES = 64 * KIB  # most pages are smaller and cost no bookkeeping
BODY_MEMORY_BYTES = 64 * MIB
PATIENCE_S = 60.0  # then a body is decoded above the limit: a page that is never dropped must not stop all

log = logging.getLogger(__name__)


class BodyMemory:
    """One per process, shared by the clients of all its crawls."""

    def __init__(self, limit: int = BODY_MEMORY_BYTES) -> None:
        self._limit = limit
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.used = 0
        self.peak = 0

    @property
    def full(self) -> bool:
        return self.used >= self._limit

    async def reserve(self, size: int) -> int:
        """Wait until there is room for `size` bytes; return what was reserved, to be released later."""
        size = min(size, self._limit)
        if not self._waiting and self._fits(size):
            self._add(size)
            return size
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            async with asyncio.timeout(PATIENCE_S):
                await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(size)
            else:
                self._grant()  # if this was the first one, others may fit
            raise
        except TimeoutError:
            log.warning("memory.full", extra={"used": self.used, "limit": self._limit})
            self._add(size)
        return size

    def release(self, size: int) -> None:
        self.used -= size
        self._grant()

    def hold(self, owner: object, size: int) -> None:
        """Count `size` bytes for as long as `owner` exists. It may take the total above the limit."""
        self._add(size)
        loop = asyncio.get_running_loop()
        weakref.finalize(owner, _release_soon, loop, self, size).atexit = False

    def _add(self, size: int) -> None:
        self.used += size
        self.peak = max(self.peak, self.used)

    def _fits(self, size: int) -> bool:
        return self.used + size <= self._limit or not self.used

    def _grant(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.done():  # done: cancelled
                if not self._fits(size):
                    return
                self._add(size)
                turn.set_result(None)
            self._waiting.popleft()


def _release_soon(loop: asyncio.AbstractEventLoop, memory: BodyMemory, size: int) -> None:
    """Release bytes on the event loop: the last reference may have been dropped in any thread."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(memory.release, size)
