"""Patterns of URLs that were closed because they bring nothing new, and large ones that are crawled."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from shoal.cli.views.format import count

if TYPE_CHECKING:
    from shoal.model.crawl_totals import ClosedPattern

MAX_PATTERNS = 5


def pattern_lines(
    closed: "Mapping[str, ClosedPattern]", large: "Mapping[str, ClosedPattern]", *, of: str = ""
) -> Iterator[str]:
    """Yield the patterns whose links are held back, and those with very many URLs, which are not."""
    yield from _lines(
        f"held{of}",
        {
            pattern: f"more than {count(why.more_than)} pages bring nothing new, such as {why.example}"
            for pattern, why in closed.items()
        },
    )
    yield from _lines(
        f"large{of}",
        {
            pattern: f"more than {count(why.more_than)} URLs within an hour, such as {why.example};"
            " all are crawled"
            for pattern, why in large.items()
        },
    )


def _lines(label: str, patterns: Mapping[str, str]) -> Iterator[str]:
    for pattern, why in islice(patterns.items(), MAX_PATTERNS):
        yield f"{label}: {pattern}: {why}"
    if len(patterns) > MAX_PATTERNS:
        yield f"{label}: {count(len(patterns) - MAX_PATTERNS)} more patterns"
