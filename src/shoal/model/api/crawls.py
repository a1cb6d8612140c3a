"""Messages about crawls, workers and the state of a store."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

CrawlName = Annotated[str, Meta(min_length=1, max_length=200)]
Limit = Annotated[int, Meta(ge=1, le=1000)]
Cursor = Annotated[str, Meta(max_length=2000)]


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    pattern: str
    more_than: int
    example: str


class UnreadableInfo(msgspec.Struct, frozen=True, kw_only=True):
    place: str
    entry: str
    reason: str
    bytes: int
    at: float


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    bytes: int
    cost: float
    budget_share: float | None = None
    by_kind: dict[str, Any] = {}
    by_exit: dict[str, Any] = {}
    by_host: dict[str, Any] = {}
    other_hosts: Any = None


class StageInfo(msgspec.Struct, frozen=True, kw_only=True):
    waiting: int
    in_hand: int


class CrawlInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One crawl: its requests by state, and what was counted beside them."""

    crawl: str
    accepted: int
    counts: dict[str, int]
    paused: bool
    stopped: str = ""  # why it sends nothing although requests wait: a limit is reached
    finished: bool = False  # nothing is left to do, and its items are written; not in snapshots
    arguments: dict[str, str] = {}
    lost: int = 0
    dead_by_class: dict[str, int] = {}
    filtered_by_rule: dict[str, int] = {}
    links_filtered_by_rule: dict[str, int] = {}
    rejected: int = 0
    withheld: int = 0
    partial: int = 0
    hook_faults: int = 0
    duplicates: int = 0
    retries: int = 0
    dropped_items: dict[str, int] = {}
    large_patterns: list[Pattern] = []
    closed_patterns: list[Pattern] = []
    spending: Spent | None = None
    mistaken_links: float = 0.0
    unreadable: list[UnreadableInfo] = []
    stages: dict[str, StageInfo] = {}
    outputs: list[str] = []


class CrawlPage(msgspec.Struct, frozen=True, kw_only=True):
    crawls: list[CrawlInfo]
    next_cursor: str | None = None


class WorkerCrawl(msgspec.Struct, frozen=True, kw_only=True):
    crawl: str
    version: str
    in_flight: int
    parsing: int
    pages: int
    pages_per_s: float
    lost_turns: int = 0
    store_delay_ms: float = 0.0


class WorkerOutput(msgspec.Struct, frozen=True, kw_only=True):
    crawl: str
    output: str
    doing: str
    why: str
    items: int


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    worker: str
    host: str
    pid: int
    roles: list[str]
    shoal: str
    doing: str
    why: str
    sandbox: str
    started_at: float
    beaten_at: float
    crawls: list[WorkerCrawl] = []
    outputs: list[WorkerOutput] = []
    refused: dict[str, str] = {}


class WorkerList(msgspec.Struct, frozen=True, kw_only=True):
    """The workers of a fleet; a folder has an owner instead."""

    owner: str | None
    workers: list[WorkerInfo]


class BottleneckInfo(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    about: str
    text: str


class QueuedHost(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    waiting: int
    interval_s: float
    concurrency: int
    paused: bool
    rest_until: float | None
    crawl_delay_s: float
    slow: float


class StoreSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a store at one moment; long lists are cut, and the totals say so."""

    store: str
    at: float
    running: bool
    crawls: list[CrawlInfo]
    crawls_total: int
    requests_per_s: float | None = None
    hosts: list[QueuedHost] = []
    hosts_held: dict[str, int] = {}
    workers: list[WorkerInfo] = []
    workers_total: int = 0
    bottlenecks: list[BottleneckInfo] = []
    unreadable: list[UnreadableInfo] = []
    problem: str = ""  # the store did not answer; the rest is empty


class ListCrawls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cursor: Cursor = ""
    limit: Limit = 100


class OneCrawl(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    crawl: CrawlName


class Nothing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No parameters."""
