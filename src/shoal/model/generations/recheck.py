"""When a page is due for another request: sooner if it changes, later if it does not. Pure: no clock, no I/O.

Each page has an interval. A check that finds another content halves it, a check that finds the same makes it
half as long again; so it settles where three checks in eight find a change. Rate estimators (Cho and
Garcia-Molina, "Estimating frequency of change", 2003) need the same two counts and respond more slowly when a
page changes its habits.

With a budget, the pages that are most overdue relative to their interval go first, so requests go where
changes are. All workers of a crawl have to choose the same pages: a generation draws one line when it begins,
and a page is due if it is at the line or above it.
"""

import heapq
from collections.abc import Iterable

import msgspec

from shoal.model.generations.page_history import PageHistory

SHRINK = 0.5
GROW = 1.5

KEY = "due"
"""Name of the value in a crawl's state: the line of its generation."""


class RecheckRules(msgspec.Struct, frozen=True):
    """Seconds between two checks of a page: at first, at least and at most."""

    first_s: float = 86_400.0
    shortest_s: float = 3_600.0
    longest_s: float = 30 * 86_400.0

    def interval(self, history: PageHistory) -> float:
        """Return the interval of a page."""
        return history.interval_s or self._bounded(self.first_s)

    def after_check(self, history: PageHistory, at: float, *, changed: bool) -> float:
        """Return the interval of a page after a check.

        A check that came late counts for more: a page that has not changed for longer than its interval gets
        one that is longer than that time.
        """
        known, waited = self.interval(history), max(at - history.checked_at, 0.0)
        return self._bounded(SHRINK * min(known, waited or known) if changed else GROW * max(known, waited))

    def _bounded(self, interval_s: float) -> float:
        return min(max(interval_s, self.shortest_s), self.longest_s)


class DueLine(msgspec.Struct, frozen=True, array_like=True):
    """Which pages a generation asks for."""

    at: float  # epoch seconds when it began
    urgency: float = 1.0  # pages with less are not due
    fingerprint: int = 0  # nor are those with the same urgency and a smaller fingerprint
    first_s: float = 86_400.0  # as in `RecheckRules`
    shortest_s: float = 3_600.0

    def is_due(self, fingerprint: int, history: PageHistory) -> bool:
        waited = self.at - history.checked_at
        if waited < self.shortest_s:
            return False
        return (self._urgency(history, waited), fingerprint) >= (self.urgency, self.fingerprint)

    def _urgency(self, history: PageHistory, waited: float) -> float:
        return waited / (history.interval_s or self.first_s)


def draw_line(
    pages: Iterable[tuple[int, PageHistory]], at: float, rules: RecheckRules, *, budget: int | None
) -> DueLine:
    """Return the line of a generation that begins at `at`.

    `budget` is the number of pages that it may ask for; None: all whose interval has passed. With a budget,
    pages are taken before their interval has passed if there is something left of it.
    """
    line = DueLine(at, first_s=rules.interval(PageHistory()), shortest_s=rules.shortest_s)
    if budget is None:
        return line
    waiting = (
        ((at - history.checked_at) / (history.interval_s or line.first_s), fingerprint)
        for fingerprint, history in pages
        if at - history.checked_at >= rules.shortest_s
    )
    chosen = heapq.nlargest(max(budget, 1), waiting)
    if not chosen:
        return line
    return msgspec.structs.replace(line, urgency=chosen[-1][0], fingerprint=chosen[-1][1])


def load_line(stored: bytes | None) -> DueLine | None:
    """Return the line in the state of a crawl; None: it has none, and every page is due."""
    try:
        return None if stored is None else msgspec.msgpack.decode(stored, type=DueLine)
    except msgspec.DecodeError:
        return None


def budget_since(per_day: float, began: float, now: float) -> int | None:
    """Return how many requests a budget per day allows for the time since a generation; None: any number."""
    return int(per_day * max(now - began, 0.0) / 86_400.0) if per_day else None
