"""A limit on the memory of all large pages that the parse children of a process work on, together.

Each child has a separate limit, for one page. Several children that parse large pages at once would take
several times as much. So a large page is sent to a child only while the estimates for those in progress, its
own included, stay below the limit; it waits otherwise, and smaller pages pass it. A page may always be sent
if it is the only large one, so the wait ends.
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

    def take(self, size: int, wake: Callable[[], None]) -> bool:
        """Count `size` bytes if there is room for them; otherwise `wake` is called once when there may be."""
        if self.used and self.used + size > self._limit:
            self._waiting[wake] = None
            return False
        self.used += size
        return True

    def give_back(self, size: int) -> None:
        self.used -= size
        waiting, self._waiting = self._waiting, {}
        for wake in waiting:
            wake()
