"""Crawler traps: URL spaces without end, which no single page shows and a parse child cannot see."""

from typing import Protocol

from shoal.engine.traps.counts import TrapCounters
from shoal.engine.traps.identical_pages import IdenticalPages
from shoal.engine.traps.near_duplicates import NearDuplicateTrap
from shoal.engine.traps.url_patterns import PatternQuarantine
from shoal.model.crawl_totals import CrawlTotals
from shoal.model.limits import LinkLimits
from shoal.model.page import ParseResult
from shoal.model.request import Link, unpack


class PatternWatch(Protocol):
    """The part of a crawl's scope that near-duplicates need."""

    def watch_pattern(self, pattern: str) -> None:
        """Have every page of a URL pattern hashed from now on."""


class Traps:
    """Filters the links of every page, by their URL patterns and by the text of that page."""

    def __init__(
        self, limits: LinkLimits, totals: CrawlTotals, scope: PatternWatch, counters: TrapCounters
    ) -> None:
        self._quarantine = PatternQuarantine(limits.per_pattern, totals.quarantined, counters)
        allowed, watched = limits.near_duplicates, totals.near_duplicates
        self._near_duplicates = NearDuplicateTrap(allowed, watched, scope.watch_pattern, counters.alike)
        self._closed_shapes = totals.identical
        self._identical = IdenticalPages(limits.identical_pages, totals.identical, counters)

    def is_closed(self, url: str) -> bool:
        """Return whether a URL has the shape of a trap, so that it is not requested."""
        return self._identical.is_closed(url)

    def filter_links(self, links: tuple[Link, ...], result: ParseResult, url: str) -> tuple[Link, ...]:
        """Return the links of a page that do not lead into a trap."""
        if result.simhash is not None and self._near_duplicates.is_trap(url, result.simhash):
            return ()
        if result.text_digest is not None:
            self._identical.count(url, result.text_digest)
        if self._closed_shapes:
            links = tuple([link for link in links if not self.is_closed(unpack(link.packed).url)])
        return tuple(self._quarantine.admitted(links))
