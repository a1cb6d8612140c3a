"""Identical pages: a site that serves the same text under ever more addresses, each with a new session id.

One page in `SAMPLE`, of those that bring new links, carries a digest of its text. Pages are put together by
site and by the shape of their URL, in which ids are made equal. A shape with more equal pages than allowed,
and more of them than others, is closed: links to it are dropped, and requests that wait are filtered, both
counted by rule. Other shapes of the site are not affected.
"""

import logging
from collections.abc import MutableMapping

from shoal.engine.traps.counts import TrapCounters
from shoal.model.crawl_totals import ClosedPattern
from shoal.model.traps.text_digest import SAMPLE
from shoal.model.traps.url_pattern import shape_of
from shoal.model.url import host_key, site_of

log = logging.getLogger(__name__)


class IdenticalPages:
    """Allows `limit` pages of one shape with the same text; 0: any number."""

    def __init__(
        self, limit: int, closed: MutableMapping[str, ClosedPattern], counters: TrapCounters
    ) -> None:
        self._limit = limit
        self._closed = closed  # by shape
        self._counters = counters

    def count(self, url: str, digest: int) -> None:
        """Record a page whose text was digested."""
        if not self._limit:
            return
        shape = shape_of(url, site_of(host_key(url)))
        pages = self._counters.shapes.add(shape, SAMPLE)
        equal = self._counters.identical.add(f"{shape} {digest:016x}", SAMPLE)
        if equal > self._limit and 2 * equal > pages and shape not in self._closed:
            self._closed[shape] = ClosedPattern(self._limit, url)
            facts = {"pattern": shape, "more_than": self._limit, "example": url}
            log.warning("pages.identical", extra=facts)

    def is_closed(self, url: str) -> bool:
        """Return whether a URL has a shape that was closed."""
        return bool(self._closed) and shape_of(url, site_of(host_key(url))) in self._closed
