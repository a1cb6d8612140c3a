"""Crawler traps: URL spaces without end, which no single page shows and a parse child cannot see."""

from collections import Counter
from typing import Protocol

import msgspec

from shoal.engine.traps.near_duplicates import NearDuplicateTrap
from shoal.engine.traps.url_patterns import PatternQuarantine
from shoal.model.crawl_totals import CrawlTotals
from shoal.model.failure import FailureClass
from shoal.model.limits import LinkLimits
from shoal.model.page import ParseResult


class PatternWatch(Protocol):
    """The part of a crawl's scope that near-duplicates need."""

    def watch_pattern(self, pattern: str) -> None:
        """Have every page of a URL pattern hashed from now on."""


class Traps:
    """Filters the links of every page, by their URL patterns and by the text of that page."""

    def __init__(self, limits: LinkLimits, totals: CrawlTotals, scope: PatternWatch) -> None:
        self._quarantine = PatternQuarantine(limits.per_pattern, totals.quarantined)
        allowed, watched = limits.near_duplicates, totals.near_duplicates
        self._near_duplicates = NearDuplicateTrap(allowed, watched, scope.watch_pattern)

    def filter_links(self, result: ParseResult, url: str) -> ParseResult:
        """Drop the links that lead into a trap, counted by rule like those that a parse child drops."""
        links = self._quarantine.admitted(result.links)
        if result.simhash is not None and self._near_duplicates.is_trap(url, result.simhash):
            links = ()
        if len(links) == len(result.links):
            return result
        dropped = Counter(result.dropped) + Counter({FailureClass.TRAP.value: len(result.links) - len(links)})
        return msgspec.structs.replace(result, links=tuple(links), dropped=dict(dropped))
