"""What the latest attempts say: latency, failures, hosts, links between hosts. Pure; bounded in memory."""

from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from shoal.archive.fetch_log import LoggedAttempt
from shoal.model.api.live import AttemptLine, GraphEdge, GraphNode, HostGraph
from shoal.model.request import trace_id

MAX_LATEST = 200  # attempts that are kept whole
MAX_HOSTS = 5_000  # with figures, in each of two windows
WINDOW_S = 300.0
MAX_PAGES = 200_000  # whose host is remembered, to draw the links that were found there
MAX_GRAPH_HOSTS = 20_000
MAX_EDGES = 100_000
MAX_CRAWLS = 50  # with a graph
_MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class Burst:
    """What a few seconds of attempts add up to."""

    attempts: int = 0
    pages: int = 0
    parsed: int = 0
    items: int = 0
    bytes: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    latencies: Sequence[float] = ()  # milliseconds, sorted

    def percentile(self, share: float) -> float | None:
        """Return a percentile of the latency in milliseconds; None: no request was sent."""
        if not self.latencies:
            return None
        return self.latencies[min(int(share * len(self.latencies)), len(self.latencies) - 1)]


def has_failed(row: LoggedAttempt) -> bool:
    """Return whether an attempt failed. A page that is gone, or a request that a rule filters, has not."""
    return bool(row.failure) and row.outcome not in ("gone", "filtered")


def burst_of(rows: Iterable[LoggedAttempt]) -> Burst:
    """Return the sums over rows."""
    attempts = pages = parsed = items = size = 0
    failures: Counter[str] = Counter()
    latencies = array("d")
    for row in rows:
        parsed += bool(row.version)
        items += row.items
        if row.stage != "fetch":
            continue
        attempts += 1
        size += row.wire_bytes
        pages += bool(row.segment)
        if has_failed(row):
            failures[row.failure] += 1
        if row.sent:
            latencies.append(max(row.total_ms - row.queue_ms, 0.0))
    return Burst(attempts, pages, parsed, items, size, failures, sorted(latencies))


@dataclass(slots=True)
class RecentFigures:
    attempts: int = 0
    failures: int = 0
    ms: float = 0.0
    classes: Counter[str] = field(default_factory=Counter)
    last_status: int = 0
    last_reason: str = ""

    def add(self, row: LoggedAttempt) -> None:
        self.attempts += 1
        self.ms += max(row.total_ms - row.queue_ms, 0.0)
        self.last_status = row.status or self.last_status
        if has_failed(row):
            self.failures += 1
            self.classes[row.failure] += 1
            self.last_reason = row.reason[:200]


class RecentHosts:
    """Figures of hosts over the last five to ten minutes: the current window and the one before."""

    def __init__(self) -> None:
        self._now: dict[str, RecentFigures] = {}
        self._before: dict[str, RecentFigures] = {}
        self._turned_at = 0.0

    def turn(self, now: float) -> None:
        """Begin a new window if the current one is over."""
        if now - self._turned_at >= WINDOW_S:
            self._before = self._now if now - self._turned_at < 2 * WINDOW_S else {}
            self._now, self._turned_at = {}, now

    def add(self, row: LoggedAttempt) -> None:
        figures = self._now.get(row.host)
        if figures is None:
            if len(self._now) >= MAX_HOSTS:
                return
            figures = self._now[row.host] = RecentFigures()
        figures.add(row)

    def of(self, host: str) -> RecentFigures:
        """Return the figures of both windows together."""
        now, before = self._now.get(host), self._before.get(host)
        if now is None or before is None:
            return now or before or RecentFigures()
        return RecentFigures(
            now.attempts + before.attempts,
            now.failures + before.failures,
            now.ms + before.ms,
            now.classes + before.classes,
            now.last_status or before.last_status,
            now.last_reason or before.last_reason,
        )

    def failing(self, limit: int) -> list[str]:
        """Return the hosts with most failures."""
        counted: Counter[str] = Counter()
        for window in (self._now, self._before):
            for host, figures in window.items():
                if figures.failures:
                    counted[host] += figures.failures
        return [host for host, _ in counted.most_common(limit)]


class CrawlGraph:
    """Which hosts of a crawl link to which, from the attempts at the links that were followed."""

    def __init__(self) -> None:
        self._host_of: OrderedDict[int, str] = OrderedDict()  # by fingerprint of a page
        self._pages: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._edges: Counter[tuple[str, str]] = Counter()
        self._attempts = 0

    def add(self, row: LoggedAttempt) -> None:
        self._attempts += 1
        host = row.host
        if host in self._pages or len(self._pages) < MAX_GRAPH_HOSTS:
            self._pages[host] += bool(row.segment)
            self._failures[host] += has_failed(row)
        self._host_of[row.fingerprint] = host
        if len(self._host_of) > MAX_PAGES:
            self._host_of.popitem(last=False)
        source = self._host_of.get(row.found_on) if row.found_on else None
        if source is not None and source != host:
            edge = (source, host)
            if edge in self._edges or len(self._edges) < MAX_EDGES:
                self._edges[edge] += 1

    def copy(self) -> "CrawlGraph":
        """Return the counts as they are now, to draw them while more are added."""
        other = CrawlGraph()
        other._pages, other._failures = self._pages.copy(), self._failures.copy()
        other._edges, other._attempts = self._edges.copy(), self._attempts
        return other

    def top(self, limit: int) -> HostGraph:
        """Return the hosts with most pages and links, and the links between them."""
        weight = Counter(self._pages)
        for (source, target), links in self._edges.items():
            weight[source] += links
            weight[target] += links
        hosts = [host for host, _ in weight.most_common(limit)]
        index = {host: number for number, host in enumerate(hosts)}
        edges = [
            GraphEdge(source=index[source], target=index[target], links=links)
            for (source, target), links in self._edges.items()
            if source in index and target in index
        ]
        edges.sort(key=lambda edge: -edge.links)
        return HostGraph(
            nodes=[
                GraphNode(host=host, pages=self._pages[host], failures=self._failures[host]) for host in hosts
            ],
            edges=edges[: 4 * limit],
            hosts_total=len(self._pages),
            attempts=self._attempts,
        )


class RecentAttempts:
    """Everything that is kept of the attempts of a store."""

    def __init__(self) -> None:
        self.latest: deque[LoggedAttempt] = deque(maxlen=MAX_LATEST)
        self.failed: deque[LoggedAttempt] = deque(maxlen=MAX_LATEST)
        self.hosts = RecentHosts()
        self._graphs: dict[str, CrawlGraph] = {}

    def add(self, rows: Sequence[LoggedAttempt], now: float) -> None:
        self.hosts.turn(now)
        for row in rows:
            if row.stage != "fetch":
                continue
            self.latest.append(row)
            if has_failed(row):
                self.failed.append(row)
            if row.sent or has_failed(row):
                self.hosts.add(row)
            if (graph := self._graphs.get(row.crawl)) is None:
                if len(self._graphs) >= MAX_CRAWLS:
                    self._graphs.pop(next(iter(self._graphs)))
                graph = self._graphs[row.crawl] = CrawlGraph()
            graph.add(row)

    def graph(self, crawl: str) -> CrawlGraph | None:
        """Return a copy of the graph of a crawl."""
        found = self._graphs.get(crawl)
        return None if found is None else found.copy()

    def list(self, *, crawl: str, failed: bool, host: str, limit: int) -> list[AttemptLine]:
        """Return the latest attempts, the newest first."""
        rows = self.failed if failed else self.latest
        chosen = (
            row
            for row in reversed(rows)
            if (not crawl or row.crawl == crawl) and (not host or row.host == host)
        )
        return [attempt_of(row) for row, _ in zip(chosen, range(limit), strict=False)]


def ended_at(row: LoggedAttempt) -> float:
    """Return when an attempt ended, in epoch seconds."""
    return row.started_at / _MICRO + row.total_ms / 1000


def attempt_of(row: LoggedAttempt) -> AttemptLine:
    return AttemptLine(
        at=ended_at(row),
        crawl=row.crawl,
        trace=trace_id(row.fingerprint),
        url=row.url,
        host=row.host,
        status=row.status,
        outcome=row.outcome,
        failure=row.failure,
        reason=row.reason,
        worker=row.worker,
        exit=row.exit,
        ms=round(max(row.total_ms - row.queue_ms, 0.0), 1),
        bytes=row.wire_bytes,
        items=row.items,
        sent=bool(row.sent),
    )
