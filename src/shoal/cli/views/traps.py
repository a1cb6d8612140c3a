"""Patterns of URLs that count as crawler traps."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from shoal.cli.views.format import count

if TYPE_CHECKING:
    from shoal.model.crawl_totals import ClosedPattern

MAX_PATTERNS = 5


def pattern_lines(
    quarantined: "Mapping[str, ClosedPattern]",
    near_duplicates: "Mapping[str, ClosedPattern]",
    identical: "Mapping[str, ClosedPattern]",
    *,
    of: str = "",
) -> Iterator[str]:
    """Yield the patterns whose links are dropped, why, and the setting that admits them."""
    yield from _lines(f"quarantined{of}", quarantined, "URLs in an hour", "links.per_pattern")
    setting = "links.near_duplicates"
    yield from _lines(f"near-duplicates{of}", near_duplicates, "near-duplicate pages", setting)
    yield from _lines(f"identical{of}", identical, "identical pages", "links.identical_pages")


def _lines(label: str, closed: "Mapping[str, ClosedPattern]", what: str, setting: str) -> Iterator[str]:
    for pattern, why in islice(closed.items(), MAX_PATTERNS):
        yield (
            f"{label}: {pattern}: more than {count(why.more_than)} {what}, such as {why.example}; "
            f"raise {setting} to admit more"
        )
    if len(closed) > MAX_PATTERNS:
        yield f"{label}: {count(len(closed) - MAX_PATTERNS)} more patterns"
