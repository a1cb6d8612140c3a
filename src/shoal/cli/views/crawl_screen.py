"""The picture of a running crawl: one snapshot in, at most a screenful out.

It is drawn in the process that also crawls, so it makes terminal segments itself: a fifth of what tables and
wrapped text cost. It asks for the window's size each time, so a resized window is right at the next snapshot.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment

from shoal.cli.views.format import count, duration, size, sparkline
from shoal.engine.snapshot import HostSnapshot, Snapshot

Part = tuple[str, str]  # text, style
Line = Sequence[Part]

_AHEAD = (("waiting", "cyan"), ("delayed", "yellow"))
_HELD = (("leased", "cyan"), ("parsing", "cyan"))
_SETTLED = (("done", "green"), ("gone", "yellow"), ("dead", "red"), ("filtered", ""))
STATES = (*_AHEAD, *_HELD, *_SETTLED)

_HOST_FIGURES = 40  # columns beside a host's name
_REMARK = 14  # columns for why it is slow, where the window is wide enough
_NAME = (16, 44)  # columns for a host's name, at least and at most


class Screen:
    """Draws the latest snapshot."""

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._rates: deque[float] = deque(maxlen=60)  # one a second
        self._next_rate = 0.0

    def show(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        if snapshot.elapsed >= self._next_rate:
            self._next_rate = snapshot.elapsed + 1.0
            self._rates.append(snapshot.rate)

    def lines(self, width: int, height: int) -> list[Line]:
        """Lay the snapshot out; hosts get what the window has left."""
        if self._snapshot is None:
            return [[("starting", "dim")]]
        head = list(_head(self._snapshot, self._rates, width))
        # One line stays free for the cursor, or the top would scroll away.
        return head + list(_hosts(self._snapshot, width, rows=height - len(head) - 1))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from drawn(self.lines(options.max_width, options.size.height), console, options)


def drawn(lines: Iterable[Line], console: Console, options: ConsoleOptions) -> RenderResult:
    """Make terminal segments of lines, each cut at the window's edge."""
    for line in lines:
        room = options.max_width
        for text, style in line:
            yield Segment(text[:room], console.get_style(style) if style else None)
            room -= min(len(text), room)
        yield Segment.line()


def _head(now: Snapshot, rates: Sequence[float], width: int) -> Iterator[Line]:
    state = ("stopping: finishing what is in hand", "yellow") if now.draining else ("crawling", "dim")
    yield [(now.crawl, "bold"), ("  ", ""), state, (f"  {duration(now.elapsed)}", "dim")]
    yield []
    figures = f"{count(now.pages)} pages   {count(now.items)} items   {size(now.bytes)}   "
    rate = f"{now.rate:,.1f} pages/s  "
    room = min(width - len(figures) - len(rate), 40)
    yield [(figures, ""), (rate, "bold"), (sparkline(list(rates), room) if room > 0 else "", "green")]
    yield progress_bar(now.counts, width)
    yield _time_left(now)
    yield []
    yield labelled("queue", [*picked(now.counts, _AHEAD), *picked(now.counts, _HELD)])
    yield labelled("working", [("in flight", now.in_flight, "cyan"), ("to parse", now.parse_backlog, "cyan")])
    yield labelled("settled", picked(now.counts, _SETTLED))
    if now.filtered:
        yield labelled("filtered", _largest(now.filtered, "cyan"))
    if now.failures:
        yield labelled("failures", _largest(now.failures, "red"))


def picked(counts: Mapping[str, int], states: Iterable[Part]) -> list[tuple[str, int, str]]:
    """Choose the figures of some states, each with its style."""
    return [(state, counts.get(state, 0), style) for state, style in states]


def _largest(counts: Mapping[str, int], style: str) -> list[tuple[str, int, str]]:
    return [(name, number, style) for name, number in sorted(counts.items(), key=lambda one: -one[1])[:5]]


def labelled(label: str, figures: Iterable[tuple[str, int, str]]) -> Line:
    """Lay out figures with their names, behind what they are about."""
    line: list[Part] = [(f"{label:<10}", "dim")]
    for name, number, style in figures:
        line += [(count(number), style if number else "dim"), (f" {name}   ", "" if number else "dim")]
    return line


def progress_bar(counts: Mapping[str, int], width: int) -> Line:
    """Draw how much of what is known is settled; links still to be found are in neither part."""
    known = sum(counts.values())
    settled = sum(counts.get(state, 0) for state, _ in _SETTLED)
    share = settled / known if known else 0.0
    legend = f"  {int(share * 100)}% of {count(known)} known"
    room = max(min(width - len(legend), 60), 0)
    full = int(room * share)
    return [("━" * full, "green"), ("─" * (room - full), "bright_black"), (legend, "dim")]


def _time_left(now: Snapshot) -> Line:
    if now.eta is None:
        return [("time left: not known yet", "dim")]
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
    """Say the same in the fields of one log line."""
    ahead = {} if now.eta is None else {"eta": duration(now.eta), "bounded_by": now.eta_reason}
    return {
        "crawl": now.crawl,
        "pages": now.pages,
        "items": now.items,
        "pages_per_s": round(now.rate, 1),
        **{state: now.counts[state] for state, _ in STATES if now.counts.get(state)},
        "in_flight": now.in_flight,
        "failures": sum(now.failures.values()),
        **ahead,
    }
