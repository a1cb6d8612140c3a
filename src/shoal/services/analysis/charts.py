"""Charts as SVG text. Pure; no script, no style attribute, no external resource: classes carry the colours.

Every text that comes from outside passes `text`, which escapes it for HTML and for the eye.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

from shoal.model.printable import printable

WIDTH, HEIGHT = 920, 240
LEFT, RIGHT, TOP, BOTTOM = 84, 12, 12, 28
BAR_WIDTH, ROW_HEIGHT, LABEL_WIDTH, VALUE_WIDTH = 560, 28, 150, 90
MAX_LABEL_CHARS = 20
TICKS = 4
TIME_LABELS = 6

Format = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    color: str  # a class of the page: c1, c2, ...
    values: Sequence[float]
    area: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    value: float
    title: str = ""  # shown when pointed at


def text(value: str, *, limit: int = 200) -> str:
    """Return text from outside as part of HTML."""
    return escape(printable(value, limit=limit))


def shortened(value: str) -> str:
    """Return a label that fits; the end of a host name tells more than its start."""
    return value if len(value) <= MAX_LABEL_CHARS else f"…{value[1 - MAX_LABEL_CHARS :]}"


def nice_ceiling(value: float) -> float:
    """Return a number that is not less than `value` and has round quarters."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value), 10 * power)


def time_label(at: float, span: float) -> str:
    """Return a time as an axis shows it; `span` are the seconds of the whole axis."""
    moment = datetime.fromtimestamp(at, UTC)
    if span > 2 * 86_400:
        return f"{moment:%d %b}"
    return f"{moment:%H:%M}" if span > 600 else f"{moment:%H:%M:%S}"


def time_chart(series: Sequence[Series], times: Sequence[float], *, label: str, show: Format) -> str:
    """Return lines over time, with a legend."""
    top = nice_ceiling(max((max(one.values, default=0.0) for one in series), default=0.0))
    plot_width, plot_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    last = max(len(times) - 1, 1)

    def x(number: int) -> float:
        return LEFT + plot_width * (number / last if len(times) > 1 else 0.5)

    def y(value: float) -> float:
        return TOP + plot_height * (1 - value / top)

    parts = [_axes(top, y, show), _time_axis(times, x)]
    for one in series:
        points = [(x(number), y(value)) for number, value in enumerate(one.values)]
        parts.append(_line(points, one, floor=TOP + plot_height))
    names = "".join(f'<li class="{one.color}">{text(one.name)}</li>' for one in series)
    return (
        f'<div class="scroll"><svg class="wide" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        f' aria-label="{text(label)}">{"".join(parts)}</svg></div>'
        f'<ul class="legend">{names}</ul>'
    )


def _axes(top: float, y: Callable[[float], float], show: Format) -> str:
    lines = []
    for number in range(TICKS + 1):
        value = top * number / TICKS
        at = y(value)
        lines.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        lines.append(f'<text class="tick end" x="{LEFT - 8}" y="{at + 4:.1f}">{text(show(value))}</text>')
    return "".join(lines)


def _time_axis(times: Sequence[float], x: Callable[[int], float]) -> str:
    if not times:
        return ""
    span = times[-1] - times[0]
    every = max(1, math.ceil(len(times) / TIME_LABELS))
    labels = []
    for number in range(0, len(times), every):
        shown = time_label(times[number], span)
        anchor = "last" if 0 < number == len(times) - 1 else "middle"
        labels.append(f'<text class="tick {anchor}" x="{x(number):.1f}" y="{HEIGHT - 8}">{shown}</text>')
    return "".join(labels)


def _line(points: Sequence[tuple[float, float]], series: Series, *, floor: float) -> str:
    if not points:
        return ""
    if len(points) == 1:
        [(x, y)] = points
        return f'<circle class="dot {series.color}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = ""
    if series.area:
        corners = f"{points[0][0]:.1f},{floor:.1f} {path} {points[-1][0]:.1f},{floor:.1f}"
        area = f'<polygon class="area {series.color}" points="{corners}"/>'
    return f'{area}<polyline class="line {series.color}" points="{path}"/>'


def bar_chart(bars: Sequence[Bar], *, label: str, show: Format, color: str = "c1") -> str:
    """Return horizontal bars, one per row, with their values."""
    top = max((bar.value for bar in bars), default=0.0) or 1.0
    height = ROW_HEIGHT * len(bars)
    room = BAR_WIDTH - LABEL_WIDTH - VALUE_WIDTH
    rows = []
    for number, bar in enumerate(bars):
        middle = ROW_HEIGHT * number + ROW_HEIGHT / 2
        length = max(room * bar.value / top, 2.0)
        title = f"<title>{text(bar.title or bar.name, limit=500)}</title>"
        edge, base, end = f"{middle - 8:.1f}", f"{middle + 4:.1f}", f"{LABEL_WIDTH + length + 8:.1f}"
        rows.append(
            f'<g>{title}<text class="label" x="0" y="{base}">{text(shortened(bar.name))}</text>'
            f'<rect class="bar {color}" x="{LABEL_WIDTH}" y="{edge}" width="{length:.1f}"'
            ' height="16" rx="3"/>'
            f'<text class="value" x="{end}" y="{base}">{text(show(bar.value))}</text></g>'
        )
    label, drawn = text(label), "".join(rows)
    return (
        f'<svg class="bars" viewBox="0 0 {BAR_WIDTH} {height}" role="img" aria-label="{label}">{drawn}</svg>'
    )
