"""The live screen of a running crawl: one snapshot in, at most one window of lines out.

The process that crawls also draws the screen, so this module makes terminal segments itself: a fifth of what
tables and wrapped text cost. It reads the window's size each time, so a resize takes effect at the next
snapshot.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console, ConsoleOptions, RenderResult

from shoal.cli.views.format import count, duration, size, sparkline
from shoal.cli.views.hosts import host_lines, running_host
from shoal.cli.views.lines import Figure, Line, figure_lines, figures_of, progress_bar, to_segments, wrapped
from shoal.cli.views.words import counts_ahead, counts_ended
from shoal.services.crawl import Snapshot

STATES = ("waiting", "delayed", "leased", "parsing", "done", "gone", "dead", "filtered", "held")
_NARROW = 60  # columns below which the speed gets a separate line


class Screen:
    """Draws the latest snapshot; `hint` says which key stops the crawl."""

    def __init__(self, hint: str = "") -> None:
        self._snapshot: Snapshot | None = None
        self._hint = hint
        self._rates: deque[float] = deque(maxlen=60)  # one per second
        self._next_rate = 0.0

    def show(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        if snapshot.elapsed >= self._next_rate:
            self._next_rate = snapshot.elapsed + 1.0
            self._rates.append(snapshot.rate)

    def lines(self, width: int, height: int) -> list[Line]:
        """Format the snapshot; hosts get the lines that remain."""
        if self._snapshot is None:
            return [[("starting", "dim")]]
        head = list(_head(self._snapshot, self._rates, width, self._hint))
        # One line stays free for the cursor, or the first line would scroll out of the window.
        return head + list(_hosts(self._snapshot, width, rows=height - len(head) - 1))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from to_segments(self.lines(options.max_width, options.size.height), console, options)


def _head(now: Snapshot, rates: Sequence[float], width: int, hint: str) -> Iterator[Line]:
    state = ("stopping: finishing requests in progress", "yellow") if now.draining else ("crawling", "dim")
    yield [
        (now.crawl, "bold"),
        ("  ", ""),
        state,
        (f"  {duration(now.elapsed)}", "dim"),
        (f"  {hint}" if hint and not now.draining else "", "dim"),
    ]
    yield []
    yield from _speed(now, rates, width)
    yield progress_bar(now.counts, width)
    yield _time_left(now)
    yield []
    yield from figure_lines("queue", figures_of(counts_ahead(now.counts)), width)
    yield from figure_lines("ended", figures_of(counts_ended(now.counts)), width)
    links = [("duplicates", now.duplicates, ""), ("retries", now.retries, "yellow")]
    if now.duplicates or now.retries:
        yield from figure_lines("repeated", links, width)
    if now.filtered:
        yield from figure_lines("skipped", _largest(now.filtered, "cyan"), width)
    if now.failures:
        yield from figure_lines("errors", _largest(now.failures, "red"), width)
    if now.last_error:
        yield from wrapped("last error", now.last_error, "red", width, rows=2)


def _speed(now: Snapshot, rates: Sequence[float], width: int) -> Iterator[Line]:
    figures = f"{count(now.pages)} pages   {count(now.items)} items   {size(now.bytes)}   "
    rate = f"{now.rate:,.1f} pages/s  "
    if width < _NARROW:
        yield [(figures, "")]
        figures = ""
    room = min(width - len(figures) - len(rate), 40)
    yield [(figures, ""), (rate, "bold"), (sparkline(list(rates), room) if room > 0 else "", "green")]


def _largest(counts: Mapping[str, int], style: str) -> list[Figure]:
    return [(name, number, style) for name, number in sorted(counts.items(), key=lambda one: -one[1])[:5]]


def _time_left(now: Snapshot) -> Line:
    if now.eta is None:
        return [(f"time left: unknown{f', {now.eta_reason}' if now.eta_reason else ''}", "dim")]
    reason = f", bounded by {now.eta_reason}" if now.eta_reason else ""
    return [(f"about {duration(now.eta)} left", ""), (reason, "dim")]


def _hosts(now: Snapshot, width: int, rows: int) -> Iterator[Line]:
    slow = {host.host for host in now.slowest}
    both = (
        ("slowest hosts", now.slowest),
        ("failing hosts", [host for host in now.failing if host.host not in slow]),
    )
    groups = [group for group in both if group[1]]
    for title, hosts in groups:
        room = rows // len(groups) - 2  # a blank line and the heading
        if room < 1:
            return
        yield []
        yield from host_lines([running_host(host) for host in hosts[:room]], width, title=title)


def progress_fields(now: Snapshot) -> dict[str, object]:
    """Return the same numbers as fields of a log line."""
    left = {} if now.eta is None else {"eta": duration(now.eta)}
    bound = {"bounded_by": now.eta_reason} if now.eta is not None and now.eta_reason else {}
    return {
        "crawl": now.crawl,
        "pages": now.pages,
        "items": now.items,
        "pages_per_s": round(now.rate, 1),
        **{state: now.counts[state] for state in STATES if now.counts.get(state)},
        "in_flight": now.in_flight,
        "failures": sum(now.failures.values()),
        **left,
        **bound,
    }
