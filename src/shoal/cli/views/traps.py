"""Patterns of URLs that count as traps, told to people."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from shoal.cli.views.format import count

if TYPE_CHECKING:
    from shoal.model.crawl_totals import ClosedPattern

SHOWN = 5


def pattern_lines(
    quarantined: "Mapping[str, ClosedPattern]", lookalikes: "Mapping[str, ClosedPattern]", *, of: str = ""
) -> Iterator[str]:
    """Name the patterns whose links are left out, why, and the setting that lets them in."""
    yield from _lines(f"quarantined{of}", quarantined, "URLs in an hour", "links.per_pattern")
    yield from _lines(f"lookalikes{of}", lookalikes, "near-identical pages", "links.lookalikes")


def _lines(label: str, closed: "Mapping[str, ClosedPattern]", what: str, setting: str) -> Iterator[str]:
    for pattern, why in islice(closed.items(), SHOWN):
        yield (
            f"{label}: {pattern}: more than {count(why.more_than)} {what}, such as {why.example}; "
            f"a higher {setting} lets more in"
        )
    if len(closed) > SHOWN:
        yield f"{label}: {count(len(closed) - SHOWN)} more patterns"


def patterns_json(closed: "Mapping[str, ClosedPattern]") -> list[dict[str, object]]:
    return [
        {"pattern": pattern, "more_than": why.more_than, "example": why.example}
        for pattern, why in closed.items()
    ]
