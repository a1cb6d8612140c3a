"""Small records about exits, which all processes of a store read and change: health and cost."""

from collections.abc import Mapping, Set
from typing import Protocol


class StoredExits(Protocol):
    async def all(self) -> Mapping[str, bytes]:
        """Return every record by its key."""

    async def get(self, key: str) -> bytes | None: ...

    async def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        """Replace a record and return True, unless it is not `before` any more; None: no record."""

    async def swap_all(self, changes: Mapping[str, tuple[bytes | None, bytes | None]]) -> Set[str]:
        """Do many swaps at once: `before` and `after` by key; return the keys that were replaced."""
