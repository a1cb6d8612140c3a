"""What the processes of a store report for monitoring: figures of each worker, and alerts.

Evidence and not state: losing it costs nothing but the alerts that were raised.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec

FIGURES = "f/"  # prefix of the keys that hold the figures of a worker
ALERTS = "alerts"
CLAIM = "claim"


class StoredMonitoring(Protocol):
    """Small records by key."""

    async def all(self) -> Mapping[str, bytes]:
        """Return every record by its key."""

    async def get(self, key: str) -> bytes | None:
        """Return one record; None: it does not exist."""

    async def put(self, records: Mapping[str, bytes | None]) -> None:
        """Replace records; None removes one."""

    async def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        """Replace a record and return True, unless it is not `before` any more; None: no record."""


class StoreRoom(msgspec.Struct, frozen=True):
    """How much room a store has left."""

    used: int  # bytes
    limit: int  # bytes; 0: it has none
    where: str  # the server or the folder
    is_memory: bool  # False: a disk

    @property
    def free(self) -> int:
        return self.limit - self.used
