"""Traps: what a parse child cannot see, because it takes many pages to notice."""

from collections import Counter

import msgspec

from shoal.engine.scope_state import ScopeState
from shoal.engine.traps.near_duplicates import NearDuplicateTrap
from shoal.engine.traps.url_patterns import PatternQuarantine
from shoal.model.crawl_totals import CrawlTotals
from shoal.model.failure import FailureClass
from shoal.model.limits import LinkLimits
from shoal.model.page import ParseResult


class Traps:
    """Judges the links of every page, by their patterns and by the pages that they were found on."""

    def __init__(self, limits: LinkLimits, totals: CrawlTotals, border: ScopeState) -> None:
        self._quarantine = PatternQuarantine(limits.per_pattern, totals.quarantined)
        self._lookalikes = NearDuplicateTrap(limits.lookalikes, totals.near_duplicates, border.watch)

    def sift(self, result: ParseResult, url: str) -> ParseResult:
        """Take out the links that lead into a trap, counted by rule like those that a child drops."""
        links = self._quarantine.admitted(result.links)
        if result.simhash is not None and self._lookalikes.is_trap(url, result.simhash):
            links = ()
        if len(links) == len(result.links):
            return result
        dropped = Counter(result.dropped) + Counter({FailureClass.TRAP.value: len(result.links) - len(links)})
        return msgspec.structs.replace(result, links=tuple(links), dropped=dict(dropped))
