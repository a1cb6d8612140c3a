"""A limit on the memory of all large pages that the parse children of a process work on, together.

Each child has a separate limit, for one page. Several children that parse large pages at once would take
several times as much. So a large page is sent to a child only while the estimates for those in progress, its
own included, stay below the limit; it waits otherwise, and smaller pages pass it. A page may always be sent
if it is the only large one, so the wait ends.

Pools get memory in the order in which they asked, a page at a time: while one waits, those behind it wait,
too. Otherwise a pool that takes at once what its last page gave back would keep the others from theirs.
"""

from collections.abc import Callable

from shoal.model.limits import MIB
from shoal.parse import batch

PARSE_MEMORY_BYTES = 128 * MIB

# What a child takes per byte of a page, for the page, its text, its tree and what the handler makes of them,
# and per tag: one element, its attributes and the text around it (tests/adversary/test_process_memory.py).
COPIES = 6
TAG_BYTES = 256


def is_large(body: bytes) -> bool:
    """Return whether a page counts: it is larger than a message of several pages."""
    return len(body) > batch.MAX_BYTES


def estimated_bytes(body: bytes) -> int:
    """Return about how much memory a child needs to parse a page."""
    return COPIES * len(body) + TAG_BYTES * body.count(b"<")


class PageMemory:
    """One per process, shared by the parse pools of all its crawls."""

    def __init__(self, limit: int = PARSE_MEMORY_BYTES) -> None:
        self._limit = limit
        self._waiting: dict[Callable[[], None], None] = {}
        self.used = 0

    def has_room(self, size: int, wake: Callable[[], None]) -> bool:
        """Return whether `size` bytes may be taken now; otherwise `wake`, which names the pool, gets a place
        in the queue, and is called when it is first and there may be room.

        It keeps its place until it takes or leaves.
        """
        is_first = next(iter(self._waiting), wake) == wake
        if is_first and (not self.used or self.used + size <= self._limit):
            return True
        self._waiting[wake] = None
        return False

    def take(self, size: int, wake: Callable[[], None]) -> None:
        """Count `size` bytes, for which there is room; the next pool in the queue is first now."""
        self.used += size
        self.leave(wake)

    def give_back(self, size: int) -> None:
        self.used -= size
        self._wake_first()

    def leave(self, wake: Callable[[], None]) -> None:
        """Remove a pool from the queue, if it has a place there."""
        was_first = next(iter(self._waiting), None) == wake
        self._waiting.pop(wake, None)
        if was_first:
            self._wake_first()

    def _wake_first(self) -> None:
        for wake in self._waiting:
            wake()
            return
