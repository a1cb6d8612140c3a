"""Messages about URLs, traces, exits, items and pages."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from shoal.model.api.crawls import CrawlName, Cursor, Limit

UrlState = Literal["waiting", "delayed", "leased", "parsing", "done", "gone", "dead", "filtered", "held"]


class UrlInfo(msgspec.Struct, frozen=True, kw_only=True, rename={"kind": "class"}):
    crawl: str
    url: str | None
    method: str
    state: str
    attempts: int
    status: int | None
    at: float | None
    kind: str | None
    reason: str
    host: str
    trace: str


class UrlPage(msgspec.Struct, frozen=True, kw_only=True):
    urls: list[UrlInfo]
    next_cursor: str | None = None


class UrlQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The URLs of a crawl. Requests move while a crawl runs: one may be listed twice, or be missing."""

    crawl: CrawlName
    state: UrlState | None = None
    host: Annotated[str, Meta(max_length=300)] = ""
    match: Annotated[str, Meta(max_length=200)] = ""
    cursor: Cursor = ""
    limit: Limit = 100


class UrlHistoryQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[str, Meta(min_length=1, max_length=8192)]  # or a trace id
    crawl: CrawlName | None = None


class UrlHistories(msgspec.Struct, frozen=True, kw_only=True):
    """One history per crawl that has the URL, as `shoal trace --json` prints it."""

    traces: list[dict[str, Any]]


class ExitInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: str
    country: str
    configured: bool
    state: str
    rest_s: float
    cause: str
    why: str
    success: float
    recent: float
    requests: int
    failures: int
    in_a_row: int
    last_success: float
    last_failure: float
    hosts_resting: int


class ExitList(msgspec.Struct, frozen=True, kw_only=True):
    exits: list[ExitInfo]


class OneExit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    exit: Annotated[str, Meta(min_length=1, max_length=300)]


class ExitRest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    seconds: Annotated[float, Meta(ge=0, le=31_622_400)]  # 0: use it again at once


class StoredItemQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The items of a crawl, in the order in which they were written, or the newest first."""

    crawl: CrawlName
    newest: bool = False
    contains: Annotated[str, Meta(max_length=200)] = ""  # text anywhere in the item's JSON
    cursor: Cursor = ""
    limit: Limit = 100


class StoredItemPage(msgspec.Struct, frozen=True, kw_only=True):
    """Items; a page may be empty and still have a next one, where a search has read many others."""

    output: str
    items: list[Any]
    next_cursor: str | None = None


class DownloadQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    crawl: CrawlName
    format: Literal["jsonl", "csv", "sqlite", "parquet", "warc.gz"] = "jsonl"


class DiffQuery(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={"before": "from", "after": "to"},
):
    """Two generations of a crawl; by default the last two."""

    crawl: CrawlName
    before: Annotated[int, Meta(ge=0, le=10**9)] | None = None
    after: Annotated[int, Meta(ge=0, le=10**9)] | None = None


class CrawlDiff(msgspec.Struct, frozen=True, kw_only=True):
    """What `shoal diff --json` prints: items and URLs that appeared, changed and vanished."""

    diff: dict[str, Any]


class VerifyQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    crawl: CrawlName | None = None
    deep: bool = False  # read every archived page and check its digest


class VerifyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `shoal verify --json` prints. `verified`: nothing is lost and nothing is doubled."""

    verified: bool
    report: dict[str, Any]


class PlanQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A forecast for the queue of a crawl; with `pages`, for numbers; with `per_day`, what that needs."""

    crawl: CrawlName | None = None
    pages: Annotated[int, Meta(ge=0, le=10**15)] | None = None
    per_day: Annotated[int, Meta(ge=0, le=10**15)] | None = None
    hosts: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    rate: Annotated[float, Meta(ge=0, le=100_000)] | None = None
    concurrency: Annotated[int, Meta(ge=1, le=100_000_000)] | None = None


class CrawlForecast(msgspec.Struct, frozen=True, kw_only=True):
    """What `shoal plan --json` prints."""

    plan: dict[str, Any]


class ReportQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    crawl: CrawlName | None = None
