"""Entries of a store that cannot be read: set aside, so that everything else continues."""

from dataclasses import dataclass

MAX_ENTRIES = 500  # of one crawl in one shard, or in one folder; older ones are dropped, and still counted
MAX_ENTRY_BYTES = 8192  # of one entry that are kept


@dataclass(frozen=True, slots=True)
class QuarantinedEntry:
    place: str  # the key or the table that had it
    entry_id: str  # its field, stream id or row there; empty: the whole key
    reason: str  # why it cannot be read
    body_bytes: int  # length of the entry; `body` may have less of it
    at: float  # epoch seconds
    body: bytes = b""  # its first bytes
