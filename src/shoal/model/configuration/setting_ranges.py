"""The range of every setting that is a number.

A range keeps a slip of the keyboard from using up memory, file descriptors or a counter's bits: it is as
wide as any real crawl needs, and narrow enough that every value in it works.
"""

from collections.abc import Iterator
from dataclasses import dataclass

_DAY_S = 86_400
_YEAR_S = 366 * _DAY_S
_MANY = 10**12  # requests or pages: more than a store can hold
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Range:
    low: float
    high: float
    or_zero: bool = False  # 0 is allowed as well

    def __contains__(self, value: float) -> bool:
        """Return whether a number is allowed; infinity and nan never are."""
        return self.low <= value <= self.high or (self.or_zero and value == 0)

    def __str__(self) -> str:
        return f"{'0 or ' if self.or_zero else ''}{_plain(self.low)} to {_plain(self.high)}"

    def describe(self, noun: str) -> str:
        zero = "0, or " if self.or_zero else ""
        return f"{zero}a {noun} from {_plain(self.low)} to {_plain(self.high)}"


def _plain(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.12g}"


_CRAWL = {
    "browser_pages": Range(0, _MANY),
    "browser_pages_per_host": Range(0, _MANY),
    "rate": Range(0.0001, 100_000, or_zero=True),
    "address_rate": Range(0.0001, 100_000, or_zero=True),
    "burst": Range(1, 10_000),
    "per_host": Range(1, 10_000),
    "concurrency": Range(1, 10_000),  # each has a task, and mostly a socket
    "max_pages": Range(0, _MANY),
    "depth": Range(0, 1_000_000),
    "procs": Range(0, 1_024),
    "weight": Range(0.001, 1_000),
    "max_dead": Range(0, _MANY),
    "max_crashes": Range(1, 1_000),
    "approximate_links": Range(0, 10**11),
    "lease": Range(0.01, _DAY_S),
    "grace": Range(0, _DAY_S),
    "robots_min_ttl": Range(0.1, _DAY_S),
    "max_crawl_delay": Range(0.1, _DAY_S),
    "budget": Range(0.000_001, 1e9, or_zero=True),
    "budget_gb": Range(0.000_001, 1e9, or_zero=True),
}
_RETRY = {
    "max_retries": Range(0, 1_000),
    "base": Range(0.001, 1_000),
    "ceiling": Range(0, _YEAR_S),
    "max_rests": Range(0, 1_000_000),
    "rest": Range(0, _YEAR_S),
    "rest_ceiling": Range(0, _YEAR_S),
}
_SLOWDOWN = {
    "threshold": Range(0.000_001, 1_000_000),
    "reach": Range(0, 1_000_000),
    "at_least": Range(1, 1_000_000),
    "window": Range(1, 100_000),  # responses that are kept per host
    "floor": Range(0, _YEAR_S),
    "ceiling": Range(0.000_001, _YEAR_S),
}
_FETCH = {
    "header_bytes": Range(1, 64 << 20),
    "header_lines": Range(1, 1_000_000),
    "wire_bytes": Range(1, 4 * _GIB),
    "body_bytes": Range(1, 4 * _GIB),
    "ratio": Range(1, 1_000_000),
    "ratio_from": Range(1, 4 * _GIB),
    "encodings": Range(0, 10),
    "connect": Range(0.001, _DAY_S),
    "tls": Range(0.001, _DAY_S),
    "first_byte": Range(0.001, _DAY_S),
    "idle": Range(0.001, _DAY_S),
    "total": Range(0.001, _DAY_S),
    "slow_rate": Range(0, _GIB),
    "slow_after": Range(0, _DAY_S),
    "redirects": Range(0, 100),
    "robots_bytes": Range(1, 64 << 20),
}
_LINKS = {
    "url_bytes": Range(1, 65_536),
    "segments": Range(1, 65_536),
    "repeated_segments": Range(1, 65_536),
    "per_page": Range(1, 10_000_000),
    "again": Range(0, 1_000_000),
    "identical_pages": Range(0, _MANY),
    "per_site": Range(0, _MANY),
    "bytes_per_page": Range(1, _GIB),
    "per_pattern": Range(0, _MANY),
    "near_duplicates": Range(0, _MANY),
    "per_host": Range(0, _MANY),
}
_PARSE = {
    "cpu": Range(0.001, _DAY_S),
    "wall": Range(0.001, _DAY_S),
    "memory_bytes": Range(1, 1 << 42),
    "output_bytes": Range(1, 4 * _GIB),
    "items": Range(1, 100_000_000),
    "crashes": Range(1, 1_000),
}
_PROXIES = {
    "sticky": Range(1, _DAY_S),
    "connections": Range(1, 1_000),
    "cool_off": Range(0.1, _DAY_S),
    "patience": Range(1, 30 * _DAY_S),
}
_BROWSER = {
    "pages": Range(1, 1_000),
    "page_s": Range(0.1, 3_600),
    "wire_bytes": Range(1, 4 * _GIB),
    "memory_bytes": Range(64 << 20, 1 << 42),
    "processes": Range(1, 10_000),
    "nodes": Range(1, 100_000_000),
    "dom_bytes": Range(1, _GIB),
    "navigations": Range(0, 10_000),
    "popups": Range(0, 1_000),
    "context_pages": Range(1, 1_000_000),
    "context_s": Range(0.1, _DAY_S),
    "browser_pages": Range(1, 1_000_000),
    "idle_s": Range(0.1, _DAY_S),
}
_FETCH_LOG = {"keep_days": Range(0, 36_500), "part_bytes": Range(1, _GIB)}
_RECRAWL = {"keep": Range(0, 100), "after": Range(0, 1e11)} | {
    "budget": Range(0, 1e12),
    "first_interval": Range(0, _YEAR_S),
    "shortest_interval": Range(0, _YEAR_S),
    "longest_interval": Range(0, _YEAR_S),
}
_WORKER = {
    "max_crawls": Range(1, 10_000),
    "procs": Range(0, 1_024),
    "max_spiders": Range(1, 1_024),
}
_ALERTS = {
    "every": Range(0.1, 3_600),
    "window": Range(1, _DAY_S),
    "wait": Range(0, _DAY_S),
    "calm": Range(0, _DAY_S),
    "min_attempts": Range(1, _MANY),
    "queue_depth": Range(1, _MANY),
    "success": Range(0, 1),
    "host_success": Range(0, 1),
    "p95": Range(0.001, _DAY_S),
    "dead_letters": Range(0, 1),
    "bandwidth": Range(0, 1),
    "error_budget": Range(0, 1),
    "store_memory": Range(0.01, 1),
    "disk_free": Range(0, 1 << 50),
    "stalled": Range(0.1, _DAY_S),
    "pause": Range(1, _YEAR_S),
}
_ARCHIVE = {"segment_bytes": Range(1, 1 << 42), "keep_days": Range(0, 36_500)}


def _all() -> Iterator[tuple[str, Range]]:
    tables = {
        "crawl": _CRAWL,
        "retry": _RETRY,
        "slowdown": _SLOWDOWN,
        "fetch": _FETCH,
        "links": _LINKS,
        "parse": _PARSE,
        "archive": _ARCHIVE,
        "fetch_log": _FETCH_LOG,
        "recrawl": _RECRAWL,
        "worker": _WORKER,
        "proxies": _PROXIES,
        "browser": _BROWSER,
        "alerts": _ALERTS,
        "tracing": {"sample": Range(0, 1)},
    }
    for table, ranges in tables.items():
        for name, allowed in ranges.items():
            yield f"{table}.{name}", allowed


RANGES: dict[str, Range] = dict(_all())
"""What each key that is a number allows. A test checks that no number is missing."""
