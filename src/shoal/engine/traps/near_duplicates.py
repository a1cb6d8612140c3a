"""Near-duplicates: a host that serves the same page under ever more addresses has no end.

One page in a few (`SAMPLE`) carries a hash of its visible text. A URL pattern that has brought more
near-identical pages than allowed is watched from then on: the parse children hash every page of it, and the
links of pages that resemble an earlier one are dropped and counted by rule. Their items are kept, and so are
the links of pages with different text.

A later run continues with that, unless it allows more; it has to see one such page again first.
"""

import logging
from collections.abc import Callable, MutableMapping

from shoal.engine.traps.counts import SharedCounts
from shoal.model.crawl_totals import ClosedPattern
from shoal.model.traps.simhash import SAMPLE, NearDuplicates
from shoal.model.traps.url_pattern import pattern_of

log = logging.getLogger(__name__)

CAPACITY = 5_000  # pages remembered, about 400 bytes each


class NearDuplicateTrap:
    """Allows `limit` near-identical pages per URL pattern; 0: any number."""

    def __init__(
        self,
        limit: int,
        watched: MutableMapping[str, ClosedPattern],
        on_watch: Callable[[str], None],
        counts: SharedCounts | None = None,
    ) -> None:
        self._limit = limit
        self._watched = watched  # by pattern
        self._on_watch = on_watch
        self._pages = NearDuplicates(capacity=CAPACITY)
        self._counts = counts or SharedCounts()

    def is_trap(self, url: str, simhash: int) -> bool:
        """Record a page that was hashed; return whether its links lead to more of the same."""
        if not self._limit:
            return False
        pattern = pattern_of(url)
        if self._pages.seen(pattern, simhash) is None:
            return False
        if pattern not in self._watched:
            if self._counts.add(pattern, SAMPLE) <= self._limit:
                return False
            self._watched[pattern] = ClosedPattern(self._limit, url)
            self._on_watch(pattern)
            facts = {"pattern": pattern, "more_than": self._limit, "example": url}
            log.warning("pages.near_duplicates", extra=facts)
        return True
