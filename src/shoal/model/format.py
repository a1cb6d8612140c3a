"""Numbers and times as people read them."""

import math


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
    if not math.isfinite(seconds):
        return "an unknown time"
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
