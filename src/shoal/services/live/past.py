"""Figures of the whole fetch log, computed in the background: over millions of rows that takes seconds.

The first request for a crawl starts the computation and is answered with `pending`; later ones get the
result, which is computed again when it is asked for and older than a minute. One computation runs at a time.
"""

import asyncio
import logging
import time
from collections import Counter
from dataclasses import dataclass, field

from shoal.model.api.live import HistoryFigures
from shoal.model.errors import ShoalError
from shoal.services.analysis.figures import Figures, read_figures
from shoal.services.analysis.query import open_log

log = logging.getLogger(__name__)

FRESH_S = 60.0
MAX_KEPT = 50  # crawls
NOT_FAILED = frozenset({"gone", "robots", "scope", "depth", "trap", "budget"})  # ended by a rule
PENDING = HistoryFigures(state="pending")


@dataclass(slots=True)
class PastFigures:
    """Answers requests for the whole log of a crawl, or of all."""

    dsn: str
    _known: dict[str, tuple[float, HistoryFigures]] = field(default_factory=dict)
    _wanted: asyncio.Queue[str] = field(default_factory=lambda: asyncio.Queue(MAX_KEPT))
    _queued: set[str] = field(default_factory=set)

    def history(self, crawl: str) -> HistoryFigures:
        """Return what is known, and have it computed if that is old."""
        at, found = self._known.get(crawl, (0.0, PENDING))
        if time.monotonic() - at > FRESH_S and crawl not in self._queued and not self._wanted.full():
            self._queued.add(crawl)
            self._wanted.put_nowait(crawl)
        return found

    async def run(self) -> None:
        """Compute what is asked for, until cancelled."""
        while True:
            crawl = await self._wanted.get()
            try:
                async with open_log(self.dsn, crawl or None) as database:
                    found = history_of(await asyncio.to_thread(read_figures, database))
            except ShoalError as error:
                found = HistoryFigures(state="missing", problem=str(error))
            except Exception as error:  # damaged data, or a bug: it must not end the server
                log.exception("history.failed", extra={"crawl": crawl})
                problem = f"the fetch log cannot be read ({type(error).__name__}): see the log of the server"
                found = HistoryFigures(state="missing", problem=problem)
            self._known[crawl] = (time.monotonic(), found)
            while len(self._known) > MAX_KEPT:
                self._known.pop(next(iter(self._known)))
            self._queued.discard(crawl)


def history_of(figures: Figures | None) -> HistoryFigures:
    """Return the figures of a log as points in time."""
    if figures is None:
        return HistoryFigures(state="missing", problem="the fetch log has no attempts yet")
    return HistoryFigures(
        step_s=figures.step_s,
        points=[
            [
                one.at,
                round(one.pages / one.seconds, 3),
                round(one.failures / one.seconds, 3),
                round(one.wire_bytes / one.seconds, 1),
                None,
                one.p50_ms,
                one.p95_ms,
                one.p99_ms,
                None,
                None,
                None,
                None,
            ]
            for one in figures.bins
        ],
        failure_classes=dict(
            Counter(
                {one.name: one.count for one in figures.failure_classes if one.name not in NOT_FAILED}
            ).most_common()
        ),
    )
