"""Large patterns: a host that brings very many URLs of one pattern has a large catalogue, or generates them.

A count is no evidence of a trap, so nothing is closed: the pattern is logged and shown, and an alert asks.
One link in `SAMPLE`, chosen by fingerprint, is inspected and counts for that many: the others cost nothing,
and a pattern that matters has thousands.

Memory is bounded: only the most frequent patterns are counted, and counted links are remembered in two
generations, which represent a million URLs.
"""

import logging
from collections.abc import MutableMapping, Sequence

from shoal.engine.traps.counts import URL_SAMPLE as SAMPLE
from shoal.engine.traps.counts import TrapCounters
from shoal.model.crawl_totals import ClosedPattern
from shoal.model.request import Link, unpack
from shoal.model.traps.url_pattern import pattern_of

log = logging.getLogger(__name__)

GENERATION = 8192  # fingerprints


class LargePatterns:
    """Names patterns with more than `limit` URLs per hour; 0: none."""

    def __init__(
        self,
        limit: int,
        large: MutableMapping[str, ClosedPattern] | None = None,
        counters: TrapCounters | None = None,
    ) -> None:
        self._limit = limit
        self._large = {} if large is None else large  # by pattern
        self._counters = counters or TrapCounters()
        self._counted: set[int] = set()  # fingerprints; below, those of the previous generation
        self._counted_before: set[int] = set()

    def count(self, links: Sequence[Link]) -> None:
        """Take in the links of a page."""
        if not self._limit:
            return
        for link in links:
            if not link.fingerprint % SAMPLE and not self._was_counted(link.fingerprint):
                self._count(link)

    def _was_counted(self, fingerprint: int) -> bool:
        """Return whether a link is a repetition: sites have far more links than URLs."""
        if fingerprint in self._counted or fingerprint in self._counted_before:
            return True
        self._counted.add(fingerprint)
        if len(self._counted) > GENERATION:
            self._counted, self._counted_before = set(), self._counted
        return False

    def _count(self, link: Link) -> None:
        url = unpack(link.packed).url
        pattern = pattern_of(url)
        if self._counters.count_url(pattern, SAMPLE) > self._limit and pattern not in self._large:
            self._large[pattern] = ClosedPattern(self._limit, url)
            facts = {"pattern": pattern, "more_than": self._limit, "example": url}
            log.warning("links.large_pattern", extra=facts)
