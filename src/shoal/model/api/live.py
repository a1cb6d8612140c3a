"""Messages about what happens in a store right now: its pipeline, its recent past, its latest attempts.

All of them are bounded, whatever the size of the store. Times are epoch seconds.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from shoal.model.api.crawls import WorkerInfo
from shoal.model.api.hosts import HostInfo

STAGES = ("frontier", "fetch", "archive", "parse", "sink")


class StageCause(msgspec.Struct, frozen=True, kw_only=True):
    """Why a stage does not progress as it could, with what to do about it."""

    stage: str  # one of `STAGES`
    level: str  # "stalled": nothing passes; "held": less passes than could; "notice": worth a look
    kind: str  # "alert", that of a bottleneck, "store", "trap" or "quiet"
    about: str  # a crawl or a host; empty: the whole store
    text: str


class StageFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of the pipeline, over all crawls."""

    name: str
    state: str  # "running", "idle", "held", "stalled", "paused"
    depth: int  # what waits before it
    unit: str  # of the depth: "URLs", "pages"
    in_progress: int
    rate: float | None  # per second; None: not known yet
    rate_unit: str
    lag_s: float | None  # until what waits has passed, at this rate; None: not known, or never
    total: int = 0  # that it has kept; of the archive
    detail: str = ""  # one more figure, for people
    causes: list[StageCause] = []


class PipelinePicture(msgspec.Struct, frozen=True, kw_only=True):
    """The pipeline of a store at one moment."""

    at: float
    stages: list[StageFigures]
    verdict: str  # one sentence: what the store does, or which stage stalls and why
    stalled: str = ""  # the stage that holds up the others; empty: none does
    state: str = "idle"  # "running", "idle", "held", "stalled", "paused", "unavailable"


class CrawlLine(msgspec.Struct, frozen=True, kw_only=True):
    """One crawl, as a list shows it."""

    crawl: str
    state: str  # "running", "waiting", "paused", "finished", "empty"
    accepted: int
    ahead: dict[str, int]  # requests that have not ended, by plain word
    ended: dict[str, int]
    share: float  # of its requests that have ended
    rate: float | None = None  # requests that end per second
    left_s: float | None = None
    dead_by_class: dict[str, int] = {}
    traps: int = 0  # URL patterns that were closed
    cost: float = 0.0
    budget_share: float = 0.0


class ExitLine(msgspec.Struct, frozen=True, kw_only=True):
    """One way out, and what it has carried."""

    name: str
    kind: str
    country: str
    state: str  # "in use", "rests", "to be probed", "not in use"
    rest_s: float
    cause: str
    why: str
    success: float
    recent: int
    requests: int
    bytes: int
    hosts_resting: int


class HostLine(msgspec.Struct, frozen=True, kw_only=True):
    """One host: its queue, its pace, and its latest attempts."""

    host: str
    waiting: int
    interval_s: float  # between two requests; 0: no limit
    concurrency: int
    state: str  # "usual pace", "slowed", "resting", "paused"
    why: str  # it is not at its usual pace
    left_s: float | None  # that its pace needs for what waits; None: it is paused
    attempts: int = 0  # of the last minutes
    failures: int = 0
    failure_classes: dict[str, int] = {}
    mean_ms: float = 0.0
    last_status: int = 0
    last_reason: str = ""


class AttemptLine(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the fetch log, without its phases."""

    at: float
    crawl: str
    trace: str
    url: str
    host: str
    status: int
    outcome: str
    failure: str
    reason: str
    worker: str
    exit: str
    ms: float
    bytes: int
    items: int
    sent: bool = True  # False: a rule, such as robots.txt, ended it before


class LiveSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What the dashboard shows on every page, sent every two seconds."""

    at: float
    store: str
    shared: bool
    owner: str | None
    picture: PipelinePicture
    crawls: list[CrawlLine]  # the busiest first
    crawls_total: int
    workers_total: int
    hosts_total: int | None
    hosts_held: dict[str, int] = {}
    dead_total: int = 0
    totals: dict[str, int] = {}  # requests by plain word, over all crawls
    sample: list[float | None] = []  # the newest point of the history: `HISTORY_FIELDS`
    latency_known: bool = False
    log_problem: str = ""  # why attempts cannot be read here
    problem: str = ""  # the store did not answer since `at`
    alerts_active: int = 0
    was_read: bool = True  # False: the server has just started, and all figures are yet to come


HISTORY_FIELDS = (
    "at",
    "pages_per_s",
    "failures_per_s",
    "bytes_per_s",
    "items_per_s",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "waiting",
    "in_progress",
    "unparsed",
    "unwritten",
)


class HistoryFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures over time: one list per point, in the order of `fields`."""

    fields: tuple[str, ...] = HISTORY_FIELDS
    step_s: float = 0.0
    points: list[list[float | None]] = []
    failure_classes: dict[str, int] = {}  # in this span of time
    state: str = "ready"  # "pending": it is being computed, ask again; "missing": see `problem`
    problem: str = ""


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    pages: int
    failures: int


class GraphEdge(msgspec.Struct, frozen=True, kw_only=True):
    source: int  # index of a node
    target: int
    links: int


class HostGraph(msgspec.Struct, frozen=True, kw_only=True):
    """Which hosts link to which, among those with most pages."""

    nodes: list[GraphNode]
    edges: list[GraphEdge]
    hosts_total: int
    attempts: int  # that were looked at: the newest ones
    problem: str = ""


class ItemPage(msgspec.Struct, frozen=True, kw_only=True):
    """Items of an output, the newest first."""

    output: str
    items: list[Any]  # objects
    next_cursor: str | None = None
    searched_bytes: int = 0
    size_bytes: int = 0
    problem: str = ""
    outputs: list[str] = []


class ArchivedView(msgspec.Struct, frozen=True, kw_only=True):
    """A page as it was archived; `inert` has no script, style, form target or address to load."""

    crawl: str
    url: str
    status: int
    fetched_at: float
    headers: list[tuple[str, str]]
    content_type: str
    body_bytes: int
    text: str  # its source, cut to a limit
    inert: str  # empty: it is not HTML
    cut: bool = False


Limit = Annotated[int, Meta(ge=1, le=500)]
Text = Annotated[str, Meta(max_length=300)]


class HistoryQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    span: Literal["live", "day", "log"] = "live"
    crawl: Text = ""


class AttemptQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    crawl: Text = ""
    host: Text = ""
    failed: bool = False
    limit: Limit = 100


class AttemptList(msgspec.Struct, frozen=True, kw_only=True):
    attempts: list[AttemptLine]


class HostQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    sort: Literal["left", "waiting", "failures"] = "left"
    state: Literal["", "usual pace", "slowed", "resting", "paused"] = ""
    search: Text = ""
    limit: Limit = 50
    offset: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


class HostLines(msgspec.Struct, frozen=True, kw_only=True):
    hosts: list[HostLine]
    total: int


class OneHostLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: Annotated[str, Meta(min_length=1, max_length=300)]


class HostDetails(msgspec.Struct, frozen=True, kw_only=True):
    """One host: what lists show, and what only its frontier knows right now."""

    line: HostLine
    now: HostInfo | None = None  # None: no process works on the store
    crawl_delay_s: float = 0.0
    slow: float = 1.0
    rest_until: float = 0.0


class WorkerQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    search: Text = ""
    limit: Limit = 100


class WorkerLines(msgspec.Struct, frozen=True, kw_only=True):
    workers: list[WorkerInfo]
    total: int
    by_role: dict[str, int]


class CrawlCost(msgspec.Struct, frozen=True, kw_only=True):
    crawl: str
    bytes: int
    cost: float
    budget_share: float


class AlertLine(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong, why, what was done about it and what to do."""

    kind: str
    level: str  # "critical", "warning"
    about: str
    stage: str
    cause: str
    action: str
    done: str
    since: float
    cleared_at: float | None


class AlertLines(msgspec.Struct, frozen=True, kw_only=True):
    active: list[AlertLine]  # the worst first
    recent: list[AlertLine]  # cleared ones, the latest first
    evaluated_at: float = 0.0
    by: str = ""  # the process that evaluates them; empty: this server, because no other does


class ScheduledTick(msgspec.Struct, frozen=True, kw_only=True):
    tick: float
    state: str
    crawl: str
    why: str


class ScheduleLine(msgspec.Struct, frozen=True, kw_only=True):
    """What runs when, and what has become of the latest ticks."""

    name: str
    arguments: list[str]  # of the crawl, without secrets
    cron: str
    every_s: float
    timezone: str
    overlap: str
    paused: bool
    next_at: float | None
    runs: list[ScheduledTick]


class ScheduleLines(msgspec.Struct, frozen=True, kw_only=True):
    schedules: list[ScheduleLine]
    total: int


class ExitLines(msgspec.Struct, frozen=True, kw_only=True):
    exits: list[ExitLine]
    exits_total: int
    crawls: list[CrawlCost]  # that have spent something, those with most bytes first
    by_kind: dict[str, int]
    bytes: int
    cost: float


class GraphQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    crawl: Annotated[str, Meta(min_length=1, max_length=300)]
    limit: Annotated[int, Meta(ge=1, le=200)] = 40


class ItemQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    crawl: Annotated[str, Meta(min_length=1, max_length=300)]
    search: Text = ""
    cursor: Annotated[str, Meta(pattern=r"^[0-9]{0,18}(?!\n)$")] = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class ItemFileQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    crawl: Annotated[str, Meta(min_length=1, max_length=300)]


class PageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    crawl: Annotated[str, Meta(min_length=1, max_length=300)]
    segment: Annotated[str, Meta(min_length=1, max_length=300)]
    offset: Annotated[int, Meta(ge=0, le=1 << 60)]
    length: Annotated[int, Meta(ge=1, le=1 << 31)]


class TraceQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    asked: Annotated[str, Meta(min_length=1, max_length=4096)]  # a URL or a trace id
    crawl: Text = ""


class TraceList(msgspec.Struct, frozen=True, kw_only=True):
    stories: list[Any]  # as `shoal trace --json` prints them
    state: str = "ready"  # "pending": the search is not over, ask again
