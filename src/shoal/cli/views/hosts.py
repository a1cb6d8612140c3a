"""The slowest hosts, with the same columns in `shoal crawl`, `shoal top` and `shoal status`."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shoal.cli.views.format import count, duration
from shoal.cli.views.lines import Line, shorten
from shoal.services.crawl import HostSnapshot
from shoal.services.inspect.bottlenecks import MIN_SLOW, host_remark
from shoal.services.inspect.monitor import HostQueue, seconds_left

TITLE = "slowest hosts"
_FIGURES = 23  # columns beside a host's name and its waiting requests, without the remark
_WAITING = 8  # columns for waiting requests, at least
_REMARK = 14
_NAME = (11, 44)  # columns for a name, at least and at most


@dataclass(frozen=True, slots=True)
class HostRow:
    """A host that delays a crawl."""

    host: str
    waiting: int
    interval: float  # seconds between requests; 0: no limit
    left: float  # seconds that its pace needs for the waiting requests; inf: it is paused
    remark: str = ""  # why it is slow, or that it fails


def running_host(host: HostSnapshot) -> HostRow:
    """Return the row of a host that this process fetches from."""
    left = math.inf if host.paused else host.next_turn + max(host.waiting - 1, 0) * host.interval
    remarks = [
        *([f"{count(host.failures)} failed"] if host.failures else []),
        *([f"slowed {host.slow:.1f}x"] if host.slow >= MIN_SLOW and not host.paused else []),
    ]
    return HostRow(host.host, host.waiting, host.interval, left, ", ".join(remarks))


def stored_host(host: HostQueue, now: float) -> HostRow:
    """Return the row of a host as a store has it."""
    remark = "" if host.paused else host_remark(host, now)
    return HostRow(host.host, host.queued, host.interval, seconds_left(host, now), remark)


def host_lines(rows: Sequence[HostRow], width: int, *, title: str = TITLE, note: str = "") -> Iterator[Line]:
    """Yield a heading and a line for each host: name, waiting, rate limit, time left, remark."""
    names = max([len(title), *(len(row.host) for row in rows)])
    waiting = max([_WAITING, *(len(count(row.waiting)) + 1 for row in rows)])
    figures = waiting + _FIGURES
    remarks = _REMARK if width >= _NAME[0] + figures + _REMARK else 0
    room = max(min(names, width - figures - remarks, _NAME[1]), _NAME[0])
    title = title if len(title) <= room else "hosts"
    yield [
        (f"{shorten(title, room):<{room}}{'waiting':>{waiting}}{'rate limit':>13}{'time left':>10}", "dim"),
        (f"  {note}" if note else "", "yellow"),
    ]
    for row in rows:
        left = "paused" if math.isinf(row.left) else duration(row.left) if row.left > 0 else "due"
        name = f"{shorten(row.host, room):<{room}}"
        yield [
            (f"{name}{count(row.waiting):>{waiting}}{rate_limit(row.interval):>13}", ""),
            (f"{left:>10}", "yellow" if math.isinf(row.left) else "dim"),
            (f"  {row.remark}" if row.remark else "", "yellow"),
        ]


def rate_limit(interval: float) -> str:
    """Return how often a host may be asked: `20/s`, `1 in 30 s`, `none`."""
    if interval <= 0:
        return "none"
    if interval <= 1:
        return f"{1 / interval:.3g}/s"
    return f"1 in {interval:.3g} s" if interval < 100 else f"1 in {duration(interval)}"
