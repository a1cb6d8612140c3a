"""Small records of the HTTP API: answers that are repeated for an idempotency key, webhooks, deliveries.

They are kept in the store, so that they survive a restart and several servers share them.
"""

from collections.abc import Mapping, Set
from typing import Protocol


class ApiRecords(Protocol):
    async def all(self) -> Mapping[str, bytes]:
        """Return every record by its key."""

    async def get(self, key: str) -> bytes | None: ...

    async def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        """Replace a record and return True, unless it is not `before` any more; None: no record."""

    async def swap_all(self, changes: Mapping[str, tuple[bytes | None, bytes | None]]) -> Set[str]:
        """Do many swaps at once: `before` and `after` by key; return the keys that were replaced."""
