"""Lookalikes: a host that serves the same page under ever more addresses has no end.

One page in a few (`SAMPLE`) comes with a hash of the text that its readers see. Where a pattern of URLs has
brought more near-identical pages than it may, it is watched from then on: the parse children hash every page
of it, and the links of those that look like an earlier one are dropped, counted by rule. Its items are kept,
and so are the links of pages that say something else.

A later run goes on with that, unless it allows more; it has to see one page of the kind again first.
"""

import logging
from collections.abc import Callable, MutableMapping

from shoal.engine.traps.heavy_hitters import HeavyHitters
from shoal.model.crawl_totals import ClosedPattern
from shoal.model.simhash import SAMPLE, NearDuplicates
from shoal.model.url_pattern import pattern_of

log = logging.getLogger(__name__)

CAPACITY = 5_000  # pages remembered, some 400 bytes each, and patterns counted


class NearDuplicateTrap:
    """Judges the pages of a crawl. `most` near-identical ones of a pattern may come; 0: any number."""

    def __init__(
        self, most: int, watched: MutableMapping[str, ClosedPattern], on_watch: Callable[[str], None]
    ) -> None:
        self._most = most
        self._watched = watched  # by pattern
        self._on_watch = on_watch
        self._pages = NearDuplicates(capacity=CAPACITY)
        self._counts = HeavyHitters(CAPACITY)

    def is_trap(self, url: str, simhash: int) -> bool:
        """Take in a page that was hashed; tell whether its links lead to more of the same."""
        if not self._most:
            return False
        pattern = pattern_of(url)
        if self._pages.seen(pattern, simhash) is None:
            return False
        if pattern not in self._watched:
            if self._counts.add(pattern, SAMPLE) <= self._most:
                return False
            self._watched[pattern] = ClosedPattern(self._most, url)
            self._on_watch(pattern)
            facts = {"pattern": pattern, "more_than": self._most, "example": url}
            log.warning("pages.lookalike", extra=facts)
        return True
