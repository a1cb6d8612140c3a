"""The screen of `shoal top`: the crawls of a store, bottlenecks, workers and slowest hosts."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult

from shoal.cli.views.exits import spending_text
from shoal.cli.views.format import by_count, count, duration, plural, sparkline, table
from shoal.cli.views.hosts import host_lines, stored_host
from shoal.cli.views.lines import Line, figure_lines, figures_of, progress_bar, shorten, to_segments
from shoal.cli.views.words import AHEAD, ENDED, counts_ahead, counts_ended, plain_counts
from shoal.cli.views.workers import crawls_of, doing_of, mixed_versions, roles_of, sandbox_lines
from shoal.model.alert import Alert, Level
from shoal.model.exits.spending import WARN_AT
from shoal.model.printable import printable
from shoal.services.inspect.bottlenecks import Bottleneck, beyond_alerts, find_bottlenecks
from shoal.services.inspect.monitor import Overview
from shoal.services.inspect.status import CrawlStatus, FleetStatus

if TYPE_CHECKING:
    from shoal.services.inspect.status import Heartbeat

STALE_AFTER_S = 10.0  # without a heartbeat, after which a worker is shown in red
_DOING = {"working": "green", "writing": "green", "waiting": "yellow", "draining": "yellow"}
_TO_WRITE = "to write"
_LEFT_OUT_FIRST = ("gone", "skipped", "to retry", "in progress", _TO_WRITE, "held", "ended", "failed")
_NAME = (12, 40)  # columns for a name, at least and at most
_WORKER_FIGURES = 41  # columns beside a worker's name and its roles, the first word of what it does included


@dataclass(frozen=True, slots=True)
class Section:
    """Lines that belong together; `noun` names what each of them shows."""

    head: Sequence[Line]
    lines: Sequence[Line]
    noun: str

    def fit(self, room: int) -> list[Line]:
        """Return at most `room` lines; the last one counts those that were cut."""
        if not self.lines:
            return []
        body = room - len(self.head)
        if len(self.lines) <= body:
            return [*self.head, *self.lines]
        shown = self.lines[: max(body - 1, 0)]
        return [
            *self.head,
            *shown,
            [(f"and {plural(len(self.lines) - len(shown), f'more {self.noun}')}", "dim")],
        ]


class TopScreen:
    """Draws the latest overview."""

    def __init__(self, hint: str = "") -> None:
        self._overview: Overview | None = None
        self._hint = hint  # which key quits
        self._rates: deque[float] = deque(maxlen=60)
        self._delay_s = 0.0

    def show(self, overview: Overview) -> None:
        self._overview = overview
        self._delay_s = 0.0
        if overview.rate is not None:
            self._rates.append(overview.rate)

    def record_delay(self, seconds: float) -> None:
        """Record that the store has not answered for `seconds`: the overview is that old."""
        self._delay_s = seconds

    def lines(self, width: int, height: int) -> list[Line]:
        """Format the overview; lines that do not fit are counted."""
        now = self._overview
        if now is None:
            return [[("loading", "dim")]]
        lines = [*_head(now, list(self._rates), width, self._hint)]
        if self._delay_s:
            text = f"no answer from the store for {duration(self._delay_s)}: the figures are from before"
            lines.append([(text, "red")])
        fleet = now.status.fleet
        sections = [
            _crawls(now, width, height),
            Section([[]], [_alert_line(alert) for alert in now.status.alerts], "alert"),
            Section([[]], [[(one.text, "yellow")] for one in _bottlenecks(now)], "bottleneck"),
            _workers(fleet, now.at, width) if fleet is not None else Section([], [], ""),
            _hosts(now, width),
        ]
        wanted = [len(one.head) + len(one.lines) if one.lines else 0 for one in sections]
        # One line stays free for the cursor, or the first line would scroll out of the window.
        for section, room in zip(sections, share_lines(wanted, height - len(lines) - 1), strict=True):
            lines += section.fit(room)
        return lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from to_segments(self.lines(options.max_width, options.size.height), console, options)


def _alert_line(alert: Alert) -> Line:
    style = "bold red" if alert.level is Level.CRITICAL else "bold yellow"
    return [(f"{alert.level.value}  ", style), (printable(alert.text), "red" if style == "bold red" else "")]


def _bottlenecks(now: Overview) -> Iterator[Bottleneck]:
    return beyond_alerts(find_bottlenecks(now.status, now.at), now.status.alerts)


def share_lines(wanted: Sequence[int], room: int) -> list[int]:
    """Divide lines evenly; what one section does not need goes to the others."""
    granted = [0] * len(wanted)
    short = [at for at, lines in enumerate(wanted) if lines]
    while short and room > 0:
        part = max(1, room // len(short))
        for at in list(short):
            more = min(part, wanted[at] - granted[at], room)
            granted[at] += more
            room -= more
            if granted[at] == wanted[at]:
                short.remove(at)
    return granted


def _head(now: Overview, rates: Sequence[float], width: int, hint: str) -> Iterator[Line]:
    status = now.status
    if status.fleet is not None:
        who = plural(len(status.fleet.workers), "worker")
    else:
        who = f"in use by {status.owner}" if status.owner else "not in use"
    rate = "" if now.rate is None else f"  {now.rate:,.1f} requests/s  "
    if len(who) + len(rate) + _NAME[0] > width:
        who = who.partition(" by ")[0]
    store = shorten(status.store, max(width - len(who) - len(rate) - 2, _NAME[0]))
    used = len(store) + len(who) + len(rate) + 2
    quits = f"  {hint}" if hint and used + len(hint) + 2 <= width else ""
    room = min(width - used - len(quits), 40)
    yield [
        (store, "bold"),
        (f"  {who}", "" if status.owner or (status.fleet and status.fleet.workers) else "yellow"),
        (rate, "bold"),
        (sparkline(rates, room) if room > 0 and len(rates) > 1 else "", "green"),
        (quits, "dim"),
    ]
    if not status.crawls:
        yield [("no crawls", "dim")]


# --- crawls --------------------------------------------------------------------------------------


def _crawls(now: Overview, width: int, height: int) -> Section:
    """Show each crawl in full if half of the window is enough, otherwise as one line."""
    blocks = [line for crawl in now.status.crawls for line in _crawl_block(crawl, now, width)]
    if len(blocks) <= height // 2:
        return Section([], blocks, "line")
    return _table(now, width)


def _crawl_block(crawl: CrawlStatus, now: Overview, width: int) -> Iterator[Line]:
    yield []
    halted = "  paused" if crawl.paused else "  stopped" if crawl.stopped else ""
    yield [(crawl.name, "bold"), (halted, "yellow")]
    yield progress_bar(crawl.counts, width)
    queue = figures_of(counts_ahead(crawl.counts))
    if (fleet := now.status.fleet) is not None:
        queue.append(("to write", fleet.stages[crawl.name]["sink"].waiting, "cyan"))
    yield from figure_lines("queue", queue, width)
    yield from figure_lines("ended", figures_of(counts_ended(crawl.counts)), width)
    if crawl.spending is not None:
        style = "yellow" if crawl.spending.share >= WARN_AT else ""
        yield [(f"{'exits':<10}", "dim"), (spending_text(crawl.spending), style)]


def _table(now: Overview, width: int) -> Section:
    crawls = sorted(now.status.crawls, key=_ended)
    counts = {crawl.name: plain_counts(crawl.counts) for crawl in crawls}
    to_write = _to_write(now, crawls)
    figures = {word: [count(counts[crawl.name][word]) for crawl in crawls] for word in AHEAD}
    figures[_TO_WRITE] = [count(to_write[crawl.name]) for crawl in crawls]
    figures |= {word: [count(counts[crawl.name].get(word, 0)) for crawl in crawls] for word in ENDED}
    shown = {word: column for word, column in figures.items() if any(cell != "0" for cell in column)}
    shown = {"ended": [_share(crawl) for crawl in crawls]} | shown
    names = min(max(len(crawl.name) for crawl in crawls), _NAME[1])
    for word in _LEFT_OUT_FIRST:
        if _NAME[0] + sum(max(map(len, (word, *cells))) + 2 for word, cells in shown.items()) <= width:
            break
        shown.pop(word, None)
    room = width - sum(max(map(len, (word, *cells))) + 2 for word, cells in shown.items())
    names = max(min(names, room), _NAME[0])
    rows = [
        [shorten(crawl.name, names), *(cells[number] for cells in shown.values())]
        for number, crawl in enumerate(crawls)
    ]
    heading, *lines = table(["crawls", *shown], rows)
    styles = [
        "dim" if _ended(crawl) else "yellow" if crawl.paused or crawl.stopped else "" for crawl in crawls
    ]
    drawn_lines: list[Line] = [[line] for line in zip(lines, styles, strict=True)]
    return Section([[], [(heading, "dim")]], drawn_lines, "crawl")


def _to_write(now: Overview, crawls: Sequence[CrawlStatus]) -> Mapping[str, int]:
    fleet = now.status.fleet
    return {crawl.name: fleet.stages[crawl.name]["sink"].waiting if fleet else 0 for crawl in crawls}


def _number_ended(crawl: CrawlStatus) -> int:
    return sum(counts_ended(crawl.counts).values())


def _ended(crawl: CrawlStatus) -> bool:
    return _number_ended(crawl) == sum(crawl.counts.values())


def _share(crawl: CrawlStatus) -> str:
    known = sum(crawl.counts.values())
    return f"{int(100 * _number_ended(crawl) / known)}%" if known else ""


# --- workers -------------------------------------------------------------------------------------


def _workers(fleet: FleetStatus, now: float, width: int) -> Section:
    workers = fleet.workers
    if not workers:
        return Section([], [], "")
    roles = max(len("roles"), *(len(roles_of(worker)) for worker in workers))
    room = _name_room([worker.worker for worker in workers], width - roles - _WORKER_FIGURES)
    mixed = len({worker.shoal for worker in workers}) > 1
    versions = mixed_versions(workers)
    doing = max(len(doing_of(worker)) for worker in workers)
    heading = (
        f"{'workers':<{room}} {'roles':<{roles}} {'in progress':>11} {'pages/s':>8} {'last seen':>9}  doing"
    )
    lines = [_worker(worker, now, (room, roles, doing), versions, mixed=mixed) for worker in workers]
    weak: list[Line] = [[(line, "red")] for line in sandbox_lines(workers)]
    return Section([[], *weak, [(heading, "dim")]], lines, "worker")


def _worker(
    worker: "Heartbeat",
    now: float,
    columns: tuple[int, int, int],
    versions: Mapping[str, int],
    *,
    mixed: bool,
) -> Line:
    room, roles, doing = columns
    age = max(0.0, now - worker.beaten_at)
    out = sum(at.in_flight for at in worker.crawls)
    rate = sum(at.rate for at in worker.crawls)
    return [
        (f"{shorten(worker.worker, room):<{room}} {roles_of(worker):<{roles}} ", ""),
        (f"{count(out):>11} {rate:>8,.1f} ", ""),
        (f"{duration(age):>9}", "red" if age > STALE_AFTER_S else "dim"),
        (f"  {doing_of(worker):<{doing}}", _DOING.get(worker.doing, "dim")),
        (f"  shoal {worker.shoal}" if mixed else "", "yellow"),
        (f"  {crawls_of(worker, versions)}", "dim"),
    ]


# --- hosts ---------------------------------------------------------------------------------------


def _hosts(now: Overview, width: int) -> Section:
    if not now.hosts:
        return Section([], [], "")
    rows = [stored_host(host, now.at) for host in now.hosts]
    heading, *lines = host_lines(rows, width, note=by_count(now.held))
    return Section([[], heading], lines, "host")


def _name_room(names: Sequence[str], most: int) -> int:
    """Return the columns that names need, limited by the window."""
    return max(min(max(map(len, names)), most, _NAME[1]), _NAME[0])
