"""The screen of `shoal top`: the crawls of a store, bottlenecks, workers and slowest hosts."""

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult

from shoal.cli.views.crawl_screen import STATES, Line, figure_line, progress_bar, state_figures, to_segments
from shoal.cli.views.format import by_count, count, duration, plural, sparkline, table
from shoal.cli.views.workers import crawls_of, doing_of, mixed_versions, roles_of, sandbox_lines
from shoal.services.inspect.bottlenecks import find_bottlenecks, host_remark
from shoal.services.inspect.monitor import HostQueue, Overview, seconds_left
from shoal.services.inspect.status import CrawlStatus, FleetStatus

if TYPE_CHECKING:
    from shoal.services.inspect.status import Heartbeat

STALE_AFTER_S = 10.0  # without a heartbeat, after which a worker is shown in red
_DOING = {"working": "green", "writing": "green", "waiting": "yellow", "draining": "yellow"}
_NAME = (12, 40)  # columns for a name, at least and at most
_WORKER_FIGURES = 35  # columns beside a worker's name and its roles, the first word of what it does included
_HOST_FIGURES = 38  # columns beside a host's name
_SETTLED = ("done", "gone", "dead", "filtered")


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

    def __init__(self) -> None:
        self._overview: Overview | None = None
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
        lines = [*_head(now, list(self._rates), width)]
        if self._delay_s:
            text = f"no answer from the store for {duration(self._delay_s)}: the figures are from before"
            lines.append([(text, "red")])
        fleet = now.status.fleet
        sections = [
            _crawls(now, width, height),
            Section(
                [[]], [[(one.text, "yellow")] for one in find_bottlenecks(now.status, now.at)], "bottleneck"
            ),
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


def _head(now: Overview, rates: Sequence[float], width: int) -> Iterator[Line]:
    status = now.status
    if status.fleet is not None:
        who = plural(len(status.fleet.workers), "worker")
    else:
        who = f"in use by {status.owner}" if status.owner else "not in use"
    rate = "" if now.rate is None else f"  {now.rate:,.1f} requests/s  "
    store = _cut(status.store, max(width - len(who) - len(rate) - 2, _NAME[0]))
    room = min(width - len(store) - len(who) - len(rate) - 2, 40)
    yield [
        (store, "bold"),
        (f"  {who}", "" if status.owner or (status.fleet and status.fleet.workers) else "yellow"),
        (rate, "bold"),
        (sparkline(rates, room) if room > 0 and len(rates) > 1 else "", "green"),
    ]
    if not status.crawls:
        yield [("no crawls", "dim")]


# --- crawls --------------------------------------------------------------------------------------


def _crawls(now: Overview, width: int, height: int) -> Section:
    """Show each crawl in full if half of the window is enough, otherwise as one line."""
    blocks = [line for crawl in now.status.crawls for line in _crawl_block(crawl, now, width)]
    if len(blocks) <= height // 2:
        return Section([], blocks, "line")
    return _table(now)


def _crawl_block(crawl: CrawlStatus, now: Overview, width: int) -> Iterator[Line]:
    yield []
    yield [(crawl.name, "bold"), ("  paused" if crawl.paused else "", "yellow")]
    yield progress_bar(crawl.counts, width)
    queue = state_figures(crawl.counts, STATES[:4])
    if (fleet := now.status.fleet) is not None:
        queue.append(("to write", fleet.stages[crawl.name]["sink"].waiting, "cyan"))
    yield figure_line("queue", queue)
    yield figure_line("settled", state_figures(crawl.counts, STATES[4:]))


def _table(now: Overview) -> Section:
    crawls = sorted(now.status.crawls, key=_ended)
    states = [state for state, _ in STATES if any(crawl.counts[state] for crawl in crawls)]
    ahead = [state for state in states if state not in _SETTLED]
    behind = [state for state in states if state in _SETTLED]
    to_write = _to_write(now, crawls)
    last = ["to write"] if any(to_write.values()) else []
    rows = [
        [
            _cut(crawl.name, _NAME[1]),
            _share(crawl),
            *(count(crawl.counts[state]) for state in ahead),
            *(count(to_write[crawl.name]) for _ in last),
            *(count(crawl.counts[state]) for state in behind),
        ]
        for crawl in crawls
    ]
    heading, *lines = table(["crawls", "settled", *ahead, *last, *behind], rows)
    styles = ["dim" if _ended(crawl) else "yellow" if crawl.paused else "" for crawl in crawls]
    drawn_lines: list[Line] = [[line] for line in zip(lines, styles, strict=True)]
    return Section([[], [(heading, "dim")]], drawn_lines, "crawl")


def _to_write(now: Overview, crawls: Sequence[CrawlStatus]) -> Mapping[str, int]:
    fleet = now.status.fleet
    return {crawl.name: fleet.stages[crawl.name]["sink"].waiting if fleet else 0 for crawl in crawls}


def _settled(crawl: CrawlStatus) -> int:
    return sum(crawl.counts[state] for state in _SETTLED)


def _ended(crawl: CrawlStatus) -> bool:
    return _settled(crawl) == sum(crawl.counts.values())


def _share(crawl: CrawlStatus) -> str:
    known = sum(crawl.counts.values())
    return f"{int(100 * _settled(crawl) / known)}%" if known else ""


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
    heading = f"{'workers':<{room}} {'roles':<{roles}} {'out':>5} {'pages/s':>8} {'last seen':>9}  doing"
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
        (f"{_cut(worker.worker, room):<{room}} {roles_of(worker):<{roles}} ", ""),
        (f"{count(out):>5} {rate:>8,.1f} ", ""),
        (f"{duration(age):>9}", "red" if age > STALE_AFTER_S else "dim"),
        (f"  {doing_of(worker):<{doing}}", _DOING.get(worker.doing, "dim")),
        (f"  shoal {worker.shoal}" if mixed else "", "yellow"),
        (f"  {crawls_of(worker, versions)}", "dim"),
    ]


# --- hosts ---------------------------------------------------------------------------------------


def _hosts(now: Overview, width: int) -> Section:
    hosts = now.hosts
    if not hosts:
        return Section([], [], "")
    title = "slowest hosts"
    room = _name_room([title, *(host.host for host in hosts)], width - _HOST_FIGURES)
    heading = f"{title:<{room}} {'waiting':>9} {'every':>9} {'at once':>8} {'left':>8}"
    head: list[Line] = [[], [(heading, "dim"), (f"  {by_count(now.held)}", "yellow")]]
    return Section(head, [_host(host, now.at, room) for host in hosts], "host")


def _host(host: HostQueue, now: float, room: int) -> Line:
    every = duration(host.interval) if host.interval > 0 else "no limit"
    still = seconds_left(host, now)
    return [
        (f"{_cut(host.host, room):<{room}} {count(host.queued):>9} {every:>9} {host.concurrency:>8} ", ""),
        (f"{_time(still):>8}", "yellow" if host.paused else "dim"),
        ("" if host.paused else f"  {host_remark(host, now)}", "yellow"),
    ]


def _time(seconds: float) -> str:
    if math.isinf(seconds):
        return "paused"
    return duration(seconds) if seconds else ""


def _name_room(names: Sequence[str], most: int) -> int:
    """Return the columns that names need, limited by the window."""
    return max(min(max(map(len, names)), most, _NAME[1]), _NAME[0])


def _cut(name: str, room: int) -> str:
    """Shorten a name in the middle: the start says what it is, the end which one."""
    if len(name) <= room:
        return name
    end = (room - 1) // 2
    return f"{name[: room - 1 - end]}…{name[len(name) - end :]}"
