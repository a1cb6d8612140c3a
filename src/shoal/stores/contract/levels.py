"""Small records about levels, which all processes of a store read and change: one per host that has needed
more than the first level, and one per crawl with what it has spent on the highest.

Readers ask for what has changed since they last did, because there may be thousands. Only `MAX_LEVEL_RECORDS`
are kept: those that have not changed for longest are dropped, and are learned again.
"""

from collections.abc import Mapping
from typing import Protocol

MAX_LEVEL_RECORDS = 10_000


class StoredLevels(Protocol):
    async def changed(self, since: int = 0) -> tuple[int, Mapping[str, bytes | None]]:
        """Return the records that have changed after `since`, and the number to ask with next time.

        0: all records. None: the record was deleted. A smaller number than `since` means that the store was
        restored to an earlier state, and everything has to be read again.
        """

    async def get(self, key: str) -> bytes | None: ...

    async def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        """Replace a record and return True, unless it is not `before` any more; None: no record."""
