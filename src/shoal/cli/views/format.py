"""Numbers, times and untrusted text as people read them."""

import json
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence

_BARS = "▁▂▃▄▅▆▇█"
_UNQUOTED = re.compile(r'[^\s"=]+')


def count(number: int) -> str:
    return f"{number:,}"


def plural(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 page`, `2,000 pages`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def size(count_bytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count_bytes < 1000:
            return f"{count_bytes:.0f} {unit}" if unit == "B" else f"{count_bytes:.1f} {unit}"
        count_bytes /= 1000
    return f"{count_bytes:,.1f} TB"


def duration(seconds: float) -> str:
    """Return at most two units: `40 ms`, `0.4 s`, `12 s`, `3m 05s`, `2h 10m`, `4d 03h`."""
    if 0 < seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3600}h {whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d {whole % 86_400 // 3600:02}h"


def by_count(counts: Mapping[str, int]) -> str:
    """Return counts, largest first: `timeout 3, dns 1`."""
    largest_first = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{name} {number:,}" for name, number in largest_first)


def sparkline(values: Sequence[float], width: int) -> str:
    """Return a bar for each of the last `width` values, scaled to the largest of them."""
    shown = values[-width:]
    top = max(shown, default=0.0)
    if top <= 0:
        return _BARS[0] * len(shown)
    return "".join(_BARS[min(int(value / top * len(_BARS)), len(_BARS) - 1)] for value in shown)


def table(
    heading: Sequence[str], rows: Sequence[Sequence[str]], *, words: Collection[int] = (0,)
) -> Iterator[str]:
    """Yield aligned lines: columns of words to the left, numbers to the right."""
    lines = [heading, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heading))]
    for line in lines:
        cells = (
            cell.ljust(width) if column in words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def utc_time(seconds: float) -> str:
    """Return a time since the epoch as UTC text."""
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))


def quote_value(value: object) -> str:
    """Return a value as text that cannot end the line, start a new field or control a terminal."""
    text = str(value)
    if _UNQUOTED.fullmatch(text) and text.isprintable():
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
