"""What a crawl counts over its whole life besides its requests, kept with its other figures.

No request was ever made of the links that a rule keeps out, and no page accounts for what a hook yields: the
frontier counts neither.
"""

from collections.abc import Iterable

import msgspec

from shoal.model.outcome import Done, Outcome
from shoal.model.page import ParseResult

KEY = "sums"
PART = "sums/"  # and the worker's name: what one worker of a fleet has counted


class ClosedPattern(msgspec.Struct, frozen=True):
    """Why a pattern of URLs counts as a trap."""

    more_than: int  # the limit that it went beyond
    example: str  # URL


class CrawlTotals(msgspec.Struct):
    """Sums that grow with every commit and survive a restart."""

    links: dict[str, int] = {}  # not followed, by rule
    rejected: int = 0  # items that did not fit their model
    withheld: int = 0  # items of pages that call another address their own
    hook_items: int = 0  # items that `on_error` hooks have made
    hook_faults: int = 0  # hooks that raised or hung
    quarantined: dict[str, ClosedPattern] = {}  # patterns that brought too many URLs
    lookalikes: dict[str, ClosedPattern] = {}  # patterns that brought too many near-identical pages

    @classmethod
    def load(cls, stored: bytes | None) -> "CrawlTotals":
        return cls() if stored is None else msgspec.json.decode(stored, type=cls)

    def dump(self) -> bytes:
        return msgspec.json.encode(self)

    def reopen(self, *, per_pattern: int, lookalikes: int) -> None:
        """Forget the patterns that broke limits lower than these; 0: no limit."""
        self.quarantined = _beyond(self.quarantined, per_pattern)
        self.lookalikes = _beyond(self.lookalikes, lookalikes)

    def add(self, outcome: Outcome, result: ParseResult) -> bool:
        """Add what a page, or a hook, has brought; returns whether that changes anything here."""
        # Only a hook yields something for a request that has no page to show, and only its fault comes here.
        hooked = 0 if isinstance(outcome, Done) else len(result.items)
        faulty = result.fault is not None
        if not (result.dropped or result.rejected or result.withheld or hooked or faulty):
            return False
        self.rejected += len(result.rejected)
        self.withheld += result.withheld
        self.hook_items += hooked
        self.hook_faults += faulty
        for rule, count in result.dropped.items():
            self.links[rule] = self.links.get(rule, 0) + count
        return True


def total(parts: Iterable[CrawlTotals]) -> CrawlTotals:
    """Add up what the workers of a fleet have counted, each for itself."""
    whole = CrawlTotals()
    for part in parts:
        whole.rejected += part.rejected
        whole.withheld += part.withheld
        whole.hook_items += part.hook_items
        whole.hook_faults += part.hook_faults
        whole.quarantined |= part.quarantined
        whole.lookalikes |= part.lookalikes
        for rule, count in part.links.items():
            whole.links[rule] = whole.links.get(rule, 0) + count
    return whole


def _beyond(closed: dict[str, ClosedPattern], most: int) -> dict[str, ClosedPattern]:
    return {pattern: why for pattern, why in closed.items() if 0 < most <= why.more_than}
