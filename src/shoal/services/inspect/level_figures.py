"""What the pages of a crawl took at each level, and which levels this machine lacks."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from shoal.archive.fetch_log import FetchLogReader, LoggedAttempt
from shoal.archive.registry import open_segments
from shoal.fetch.browser.chromium import missing_program
from shoal.fetch.levels import can_impersonate
from shoal.model.exits.spending import GB
from shoal.model.levels.ladder import LADDER
from shoal.model.levels.learned import pattern_of_level

MAX_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class LevelFigures:
    """What the pages of one level took."""

    level: str
    tries: int
    pages: int
    items: int
    wire_bytes: int
    seconds: float
    cost: float


@dataclass(frozen=True, slots=True)
class PartFigures:
    """How the pages of one part of a host were fetched."""

    part: str  # as levels are learned: `/fish/*`
    pages: Mapping[str, int]  # that were fetched, by level
    failures: Mapping[str, int]  # attempts that failed, by class


def missing_levels() -> list[str]:
    """Return which levels are not available on this machine, and what to install."""
    found = []
    if not can_impersonate():
        found.append(
            "the extra `impersonate` is not installed: pages that only browsers are shown go to a browser"
            " (pip install 'shoal[impersonate]')"
        )
    if why := missing_program():
        found.append(f"{why}; without one, pages that JavaScript fills stay empty")
    return found


def level_figures(folder: str, crawl: str, prices: Mapping[str, float]) -> list[LevelFigures]:
    """Return what each level took in the last attempts of a crawl, cheapest first, without unused levels.

    `prices`: of exits, per GB.
    """
    rows = _sent(folder, crawl)
    by_level = {level: [row for row in rows if row.level == level] for level in LADDER}
    return [
        LevelFigures(
            level,
            len(some),
            sum(row.outcome == "done" for row in some),
            sum(row.items for row in some),
            sum(row.wire_bytes for row in some),
            sum(row.total_ms for row in some) / 1000,
            sum(row.wire_bytes / GB * prices.get(row.exit, 0.0) for row in some),
        )
        for level, some in by_level.items()
        if some
    ]


def part_figures(folder: str, crawl: str) -> list[PartFigures]:
    """Return how each part of the hosts was fetched in the last attempts of a crawl, in order of the URLs."""
    by_part: dict[str, list[LoggedAttempt]] = {}
    for row in sorted(_sent(folder, crawl), key=lambda row: row.url):
        by_part.setdefault(pattern_of_level(row.url), []).append(row)
    return [
        PartFigures(
            part,
            Counter(row.level for row in rows if row.outcome == "done"),
            Counter(row.failure for row in rows if row.outcome != "done"),
        )
        for part, rows in by_part.items()
    ]


def _sent(folder: str, crawl: str) -> list[LoggedAttempt]:
    log = FetchLogReader(open_segments(str(Path(folder, "archive")), crawl))
    return [row for row in log.new_rows({}, limit=MAX_ROWS) if row.stage == "fetch" and row.sent]


def figures_json(figures: Sequence[LevelFigures]) -> list[dict[str, object]]:
    return [asdict(one) for one in figures]
