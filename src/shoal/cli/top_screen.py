"""The picture of a whole store: its crawls, its workers, and the hosts that take longest."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult

from shoal.cli.figures import count, counted, duration, sparkline
from shoal.cli.fleet_figures import TO_DO, roles_of, vacancies
from shoal.cli.screen import STATES, Line, drawn, labelled, picked, progress_bar
from shoal.runtime.looking.overview import HostQueue, Overview
from shoal.runtime.looking.status import CrawlStatus, Fleet

if TYPE_CHECKING:
    from shoal.runtime.looking.fleet_status import Heartbeat

SILENT = 10.0  # seconds without a sign of life, after which something is wrong with a worker
_DOING = {"working": "green", "draining": "yellow"}
_NAME = (12, 40)  # columns for a name, at least and at most
_WORKER_FIGURES = 33  # columns beside a worker's name and its roles
_HOST_FIGURES = 38  # columns beside a host's name
_LEAST_HOSTS = 4  # lines that workers leave to hosts


class TopScreen:
    """Draws the latest overview."""

    def __init__(self) -> None:
        self._overview: Overview | None = None
        self._rates: deque[float] = deque(maxlen=60)
        self._silent = 0.0

    def show(self, overview: Overview) -> None:
        self._overview = overview
        self._silent = 0.0
        if overview.rate is not None:
            self._rates.append(overview.rate)

    def wait(self, seconds: float) -> None:
        """Tell that the store has not answered for so long: what is shown is as old."""
        self._silent = seconds

    def lines(self, width: int, height: int) -> list[Line]:
        """Lay the overview out; what does not fit into the window is counted."""
        now = self._overview
        if now is None:
            return [[("looking", "dim")]]
        lines = [*_head(now, list(self._rates), width)]
        if self._silent:
            lines.append([(f"no answer for {duration(self._silent)}: this is how it was then", "red")])
        lines += _fitted([line for crawl in now.status.crawls for line in _crawl(crawl, now, width)], height)
        if now.status.fleet is not None:
            room = height - len(lines) - _LEAST_HOSTS
            lines += _fitted([*_workers(now.status.fleet, now.at, width)], room)
        lines += islice(_hosts(now.hosts, width), max(0, height - len(lines) - 1))
        return lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from drawn(self.lines(options.max_width, options.size.height), console, options)


def _fitted(lines: list[Line], room: int) -> list[Line]:
    """Cut a list short, saying how much is missing."""
    if len(lines) <= max(room, 4):
        return lines
    shown = lines[: max(room, 4) - 1]
    return [*shown, [(f"and {counted(len(lines) - len(shown), 'more line')}", "dim")]]


def _head(now: Overview, rates: Sequence[float], width: int) -> Iterator[Line]:
    status = now.status
    if status.fleet is not None:
        who = counted(len(status.fleet.workers), "worker")
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


def _crawl(crawl: CrawlStatus, now: Overview, width: int) -> Iterator[Line]:
    yield []
    paused = ("  paused: shoal resume lets it go on", "yellow") if crawl.paused else ("", "")
    yield [(crawl.name, "bold"), paused]
    yield progress_bar(crawl.counts, width)
    yield labelled("queue", picked(crawl.counts, STATES[:4]))
    yield labelled("settled", picked(crawl.counts, STATES[4:]))
    if now.status.fleet is not None:
        fleet = now.status.fleet
        stages = fleet.stages[crawl.name]
        yield labelled("left", [(TO_DO[name], stage.waiting, "cyan") for name, stage in stages.items()])
        for role in vacancies(fleet, crawl.name):
            yield [(f"{'':<10}no worker has the role {role}", "yellow")]


def _workers(fleet: Fleet, now: float, width: int) -> Iterator[Line]:
    if not fleet.workers:
        return
    roles = max(len("roles"), *(len(roles_of(worker)) for worker in fleet.workers))
    room = _name_room([worker.worker for worker in fleet.workers], width - roles - _WORKER_FIGURES)
    mixed = len({worker.shoal for worker in fleet.workers}) > 1
    yield []
    yield [
        (
            f"{'workers':<{room}} {'roles':<{roles}} {'doing':<8} {'out':>5} {'pages/s':>8} {'silent':>8}",
            "dim",
        )
    ]
    for worker in fleet.workers:
        yield _worker(worker, now, room, roles, mixed=mixed)


def _worker(worker: "Heartbeat", now: float, room: int, roles: int, *, mixed: bool) -> Line:
    silent = max(0.0, now - worker.beaten_at)
    out = sum(at.in_flight for at in worker.crawls)
    rate = sum(at.rate for at in worker.crawls)
    crawls = " ".join(f"{at.crawl}@{at.version[:6]}" for at in worker.crawls)
    return [
        (f"{_cut(worker.worker, room):<{room}} {roles_of(worker):<{roles}} ", ""),
        (f"{worker.doing:<8} ", _DOING.get(worker.doing, "dim")),
        (f"{count(out):>5} {rate:>8,.1f} ", ""),
        (f"{duration(silent):>8} ", "red" if silent > SILENT else "dim"),
        (f" shoal {worker.shoal}" if mixed else "", "yellow"),
        (f" {crawls}", "dim"),
    ]


def _hosts(hosts: Sequence[HostQueue], width: int) -> Iterator[Line]:
    if not hosts:
        return
    title = "slowest hosts"
    room = _name_room([title, *(host.host for host in hosts)], width - _HOST_FIGURES)
    yield []
    yield [(f"{title:<{room}} {'waiting':>9} {'every':>9} {'at once':>8} {'left':>8}", "dim")]
    for host in hosts:
        every = duration(host.interval) if host.interval > 0 else "no limit"
        yield [
            (
                f"{_cut(host.host, room):<{room}} {count(host.queued):>9} {every:>9} {host.concurrency:>8} ",
                "",
            ),
            (f"{_left(host):>8}", "yellow" if host.paused else "dim"),
        ]


def _left(host: HostQueue) -> str:
    if host.paused:
        return "paused"
    return duration(host.queued * host.interval) if host.interval > 0 else ""


def _name_room(names: Sequence[str], most: int) -> int:
    """Give names the columns that they need, as far as the window has them."""
    return max(min(max(map(len, names)), most, _NAME[1]), _NAME[0])


def _cut(name: str, room: int) -> str:
    """Shorten a name in the middle: its beginning says what it is, its end which one."""
    if len(name) <= room:
        return name
    end = (room - 1) // 2
    return f"{name[: room - 1 - end]}…{name[len(name) - end :]}"
