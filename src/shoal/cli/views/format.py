"""Numbers, times and untrusted text as people read them."""

import json
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence

from shoal.model.format import count, duration, plural, size

__all__ = [
    "by_count",
    "by_reason",
    "count",
    "duration",
    "plural",
    "quote_value",
    "size",
    "sparkline",
    "table",
    "utc_time",
]

_BARS = "▁▂▃▄▅▆▇█"
MAX_VALUE_CHARS = 8_000
MAX_REASONS_SHOWN = 10
_UNQUOTED = re.compile(r'[^\s"=]+')


def by_count(counts: Mapping[str, int]) -> str:
    """Return counts, largest first: `timeout 3, dns 1`."""
    largest_first = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{name} {number:,}" for name, number in largest_first)


def by_reason(counts: Mapping[str, int]) -> str:
    """Return how many items were dropped, and for which reasons: `3 items (no price 2, sold out 1)`."""
    most = dict(sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:MAX_REASONS_SHOWN])
    rest = sum(counts.values()) - sum(most.values())
    reasons = by_count({quote_value(reason): number for reason, number in most.items()})
    more = f", for other reasons {rest:,}" if rest else ""
    return f"{plural(sum(counts.values()), 'item')} ({reasons}{more})"


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
    if len(text) > MAX_VALUE_CHARS:
        text = f"{text[:MAX_VALUE_CHARS]}... ({len(text) - MAX_VALUE_CHARS:,} more characters)"
    if _UNQUOTED.fullmatch(text) and text.isprintable():
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
