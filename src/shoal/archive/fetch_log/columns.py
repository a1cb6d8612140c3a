"""The columns of the fetch log, and one row as a value."""

from enum import StrEnum
from typing import Any

import msgspec

Row = tuple[Any, ...]
"""The values of one attempt, in the order of `COLUMNS`."""


class Kind(StrEnum):
    """How the values of a column are stored."""

    TIME = "t"  # microseconds since 1970, 64 bits
    INT64 = "q"
    INT32 = "i"
    FLOAT = "f"  # 32 bits
    WORD = "w"  # text of which a block has few different ones
    TEXT = "s"


class LoggedAttempt(msgspec.Struct, frozen=True):
    """One attempt as the fetch log has it; of a page that another process has parsed, two rows."""

    started_at: int = 0  # when it began, in microseconds since 1970
    stage: str = "fetch"  # or `parse`: a page that was fetched before, by this or another process
    crawl: str = ""
    fingerprint: int = 0
    found_on: int = 0  # fingerprint of the page that linked to it; 0: a seed
    url: str = ""  # empty in a row of the stage `parse`
    host: str = ""
    method: str = ""
    status: int = 0
    outcome: str = ""  # done, fetched, gone, retry, dead, filtered; lost: its lease had expired
    failure: str = ""  # failure class, or the rule that filtered it
    reason: str = ""
    attempt: int = 0
    worker: str = ""
    pool: str = ""
    level: str = ""
    exit: str = ""  # empty: direct
    address: str = ""  # of the peer
    sent: int = 0  # 1: a request was sent
    total_ms: float = 0.0
    queue_ms: float = 0.0
    dns_ms: float = 0.0
    connect_ms: float = 0.0
    tls_ms: float = 0.0
    first_byte_ms: float = 0.0
    body_ms: float = 0.0
    parse_ms: float = 0.0
    wire_bytes: int = 0
    body_bytes: int = 0
    segment: str = ""  # page reference; empty: no page
    offset: int = 0
    length: int = 0
    items: int = 0
    links: int = 0
    version: str = ""  # of the spider that parsed it; empty: not parsed
    item_keys: str = ""  # one per line, where the spider has key fields
    requests: int = 0  # that a rendered page made besides itself


_KINDS: dict[str, Kind] = {
    "started_at": Kind.TIME,
    "fingerprint": Kind.INT64,
    "found_on": Kind.INT64,
    "url": Kind.TEXT,
    "status": Kind.INT32,
    "attempt": Kind.INT32,
    "sent": Kind.INT32,
    "total_ms": Kind.FLOAT,
    "queue_ms": Kind.FLOAT,
    "dns_ms": Kind.FLOAT,
    "connect_ms": Kind.FLOAT,
    "tls_ms": Kind.FLOAT,
    "first_byte_ms": Kind.FLOAT,
    "body_ms": Kind.FLOAT,
    "parse_ms": Kind.FLOAT,
    "wire_bytes": Kind.INT64,
    "body_bytes": Kind.INT64,
    "offset": Kind.INT64,
    "length": Kind.INT64,
    "items": Kind.INT32,
    "links": Kind.INT32,
    "requests": Kind.INT32,
    "item_keys": Kind.TEXT,
}

COLUMNS: dict[str, Kind] = {name: _KINDS.get(name, Kind.WORD) for name in LoggedAttempt.__struct_fields__}
DEFAULTS: dict[str, Any] = dict(
    zip(LoggedAttempt.__struct_fields__, LoggedAttempt.__struct_defaults__, strict=True)
)
