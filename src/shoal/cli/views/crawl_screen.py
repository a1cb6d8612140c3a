"""The live screen of a running crawl: one snapshot in, at most one window of lines out.

The process that crawls also draws the screen, so this module makes terminal segments itself: a fifth of what
tables and wrapped text cost. It reads the window's size each time, so a resize takes effect at the next
snapshot.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment

from shoal.cli.views.format import count, duration, size, sparkline
from shoal.model.printable import printable
from shoal.services.crawl import HostSnapshot, Snapshot

Part = tuple[str, str]  # text, style
Line = Sequence[Part]

_QUEUED = (("waiting", "cyan"), ("delayed", "yellow"))
_HELD = (("leased", "cyan"), ("parsing", "cyan"))
_SETTLED = (("done", "green"), ("gone", "yellow"), ("dead", "red"), ("filtered", ""))
STATES = (*_QUEUED, *_HELD, *_SETTLED)

_HOST_FIGURES = 40  # columns beside a host's name
_REMARK = 14  # columns for why it is slow, if the window is wide enough
_NAME = (16, 44)  # columns for a host's name, at least and at most


class Screen:
    """Draws the latest snapshot."""

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
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
        head = list(_head(self._snapshot, self._rates, width))
        # One line stays free for the cursor, or the first line would scroll out of the window.
        return head + list(_hosts(self._snapshot, width, rows=height - len(head) - 1))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from to_segments(self.lines(options.max_width, options.size.height), console, options)


def to_segments(lines: Iterable[Line], console: Console, options: ConsoleOptions) -> RenderResult:
    """Yield terminal segments for lines, each cut at the edge of the window."""
    for line in lines:
        room = options.max_width
        for raw, style in line:
            text = printable(raw[:room])  # the console does this as well, but after the line has its width
            yield Segment(text[:room], console.get_style(style) if style else None)
            room -= min(len(text), room)
        yield Segment.line()


def _head(now: Snapshot, rates: Sequence[float], width: int) -> Iterator[Line]:
    state = ("stopping: finishing requests in progress", "yellow") if now.draining else ("crawling", "dim")
    yield [(now.crawl, "bold"), ("  ", ""), state, (f"  {duration(now.elapsed)}", "dim")]
    yield []
    figures = f"{count(now.pages)} pages   {count(now.items)} items   {size(now.bytes)}   "
    rate = f"{now.rate:,.1f} pages/s  "
    room = min(width - len(figures) - len(rate), 40)
    yield [(figures, ""), (rate, "bold"), (sparkline(list(rates), room) if room > 0 else "", "green")]
    yield progress_bar(now.counts, width)
    yield _time_left(now)
    yield []
    yield figure_line("queue", [*state_figures(now.counts, _QUEUED), *state_figures(now.counts, _HELD)])
    yield figure_line(
        "working", [("in flight", now.in_flight, "cyan"), ("to parse", now.parse_backlog, "cyan")]
    )
    yield figure_line("settled", state_figures(now.counts, _SETTLED))
    if now.filtered:
        yield figure_line("filtered", _largest(now.filtered, "cyan"))
    if now.failures:
        yield figure_line("failures", _largest(now.failures, "red"))


def state_figures(counts: Mapping[str, int], states: Iterable[Part]) -> list[tuple[str, int, str]]:
    """Return name, number and style of some states."""
    return [(state, counts.get(state, 0), style) for state, style in states]


def _largest(counts: Mapping[str, int], style: str) -> list[tuple[str, int, str]]:
    return [(name, number, style) for name, number in sorted(counts.items(), key=lambda one: -one[1])[:5]]


def figure_line(label: str, figures: Iterable[tuple[str, int, str]]) -> Line:
    """Return a line of numbers with their names, after a label."""
    line: list[Part] = [(f"{label:<10}", "dim")]
    for name, number, style in figures:
        line += [(count(number), style if number else "dim"), (f" {name}   ", "" if number else "dim")]
    return line


def progress_bar(counts: Mapping[str, int], width: int) -> Line:
    """Return a bar for the settled share of the known requests."""
    known = sum(counts.values())
    settled = sum(counts.get(state, 0) for state, _ in _SETTLED)
    share = settled / known if known else 0.0
    legend = f"  {int(share * 100)}% of {count(known)} known"
    room = max(min(width - len(legend), 60), 0)
    full = int(room * share)
    return [("━" * full, "green"), ("─" * (room - full), "bright_black"), (legend, "dim")]


def _time_left(now: Snapshot) -> Line:
    if now.eta is None:
        return [("time left: unknown", "dim")]
    reason = f", bounded by {now.eta_reason}" if now.eta_reason else ""
    return [(f"about {duration(now.eta)} left", ""), (reason, "dim")]


def _hosts(now: Snapshot, width: int, rows: int) -> Iterator[Line]:
    both = (("slowest hosts", now.slowest, ""), ("failing hosts", now.failing, "red"))
    groups = [group for group in both if group[1]]
    for title, hosts, style in groups:
        room = rows // len(groups) - 2  # a blank line and the heading
        if room < 1:
            return
        yield []
        yield _host_row(title, ("waiting", "out", "failed", "every", "next"), "", width, "dim")
        for host in hosts[:room]:
            yield _host_row(host.host, _host_figures(host), _remark(host), width, style)


def _host_row(name: str, figures: Sequence[str], remark: str, width: int, style: str) -> Line:
    room = max(min(width - _HOST_FIGURES - _REMARK, _NAME[1]), _NAME[0])
    shown = name if len(name) <= room else f"{name[: room - 1]}…"
    waiting, out, failed, every, turn = figures
    heading = style == "dim"
    return [
        (f"{shown:<{room}}", style if heading else ""),
        (f"{waiting:>9}{out:>5}", style if heading else ""),
        (f"{failed:>8}", style),
        (f"{every:>9}{turn:>9}  ", "dim"),
        (remark, "yellow"),
    ]


def _host_figures(host: HostSnapshot) -> tuple[str, str, str, str, str]:
    every = duration(host.interval) if host.interval > 0 else "no limit"
    turn = duration(host.next_turn) if host.next_turn > 0 else "due"
    return count(host.waiting), count(host.in_flight), count(host.failures), every, turn


def _remark(host: HostSnapshot) -> str:
    if host.paused:
        return "paused"
    return f"slowed {host.slow:.1f}x" if host.slow > 1.0 else ""


def progress_fields(now: Snapshot) -> dict[str, object]:
    """Return the same numbers as fields of a log line."""
    left = {} if now.eta is None else {"eta": duration(now.eta), "bounded_by": now.eta_reason}
    return {
        "crawl": now.crawl,
        "pages": now.pages,
        "items": now.items,
        "pages_per_s": round(now.rate, 1),
        **{state: now.counts[state] for state, _ in STATES if now.counts.get(state)},
        "in_flight": now.in_flight,
        "failures": sum(now.failures.values()),
        **left,
    }
