"""Entries of a store that cannot be read: set aside, so that everything else continues.

`Count`, `Seconds` and `Rate` are the bounds of numbers that one process stores and another reads. They are
checked when a record is decoded: a negative count, or a time that is not a number, makes it as unreadable as
a missing byte.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=0, le=2**53)]
Seconds = Annotated[float, Meta(ge=0.0, le=1e12)]  # a duration, or a time since the epoch
Rate = Annotated[float, Meta(ge=0.0, le=1e12)]  # per second

MAX_ENTRIES = 500  # of one crawl in one shard, or in one folder; older ones are dropped, and still counted
MAX_ENTRY_BYTES = 8192  # of one entry that are kept


class QuarantinedEntry(msgspec.Struct, frozen=True):
    place: str  # the key or the table that had it
    entry_id: str  # its field, stream id or row there; empty: the whole key
    reason: str  # why it cannot be read
    body_bytes: int  # length of the entry; `body` may have less of it
    at: float  # epoch seconds
    body: bytes = b""  # its first bytes
