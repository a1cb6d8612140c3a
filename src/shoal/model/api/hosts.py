"""Messages about hosts."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shoal.model.api.crawls import QueuedHost

HostName = Annotated[str, Meta(min_length=1, max_length=300)]


class HostTrouble(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    remedy: str


class HostInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One host: its pace, and what limits it. Times are epoch seconds."""

    host: str
    waiting: int
    inflight: int
    interval: float
    burst: int
    concurrency: int
    next_turn: float
    crawl_delay: float
    rest_until: float
    slow: float
    paused: bool
    failures: int
    trouble: dict[str, int] = {}
    spike: HostTrouble | None = None


class HostList(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts that take longest at their pace, paused ones first."""

    hosts: list[QueuedHost]
    hosts_held: dict[str, int]


class OneHost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: HostName


class PatternLevel(msgspec.Struct, frozen=True, kw_only=True):
    """How the pages of one URL pattern are fetched, and why."""

    level: str
    cause: str
    why: str
    since: float | None
    good: int
    bad: int
    rest_until: float | None


class HostLevel(msgspec.Struct, frozen=True, kw_only=True, rename={"pinned": "set"}):
    """The level of a host: what an operator has set, and what was learned, by URL pattern."""

    pinned: str | None
    patterns: dict[str, PatternLevel]


class LevelChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    level: Literal["auto", "plain", "impersonate", "browser"]


class ListHosts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
