"""Quarantine: a host that brings ever more URLs of one pattern is likely making them up.

One link in `SAMPLE`, chosen by fingerprint, is looked at and counts for as many: it takes nothing for the
others, and a pattern that matters has thousands. Once a pattern has brought more than it may within `SPAN`,
its links are dropped: counted by rule, told in the log and shown by `status`. A later run goes on with that,
unless it allows more.

Memory is bounded: the most frequent patterns are counted, and links that were counted are remembered in two
generations, as many as stand for a million URLs.
"""

import logging
import time
from collections.abc import Callable, MutableMapping, Sequence

from shoal.engine.traps.heavy_hitters import HeavyHitters
from shoal.model.crawl_totals import ClosedPattern
from shoal.model.request import Link, unpack
from shoal.model.url_pattern import pattern_of

log = logging.getLogger(__name__)

SAMPLE = 64
SPAN = 3600.0
PATTERNS = 4096
GENERATION = 8192  # fingerprints


class PatternQuarantine:
    """Watches the links of a crawl. `most` URLs of one pattern may come in an hour; 0: any number."""

    def __init__(
        self,
        most: int,
        closed: MutableMapping[str, ClosedPattern] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._closed = {} if closed is None else closed  # by pattern
        self._clock = clock
        self._since = clock()
        self._counts = HeavyHitters(PATTERNS)
        self._counted: set[int] = set()  # fingerprints, and those of the generation before
        self._counted_before: set[int] = set()
        # Only links of these are looked at one by one.
        self._hosts = {pattern.partition("/")[0] for pattern in self._closed}

    def admitted(self, links: Sequence[Link]) -> Sequence[Link]:
        """Give the links that may go on."""
        if not self._most:
            return links
        for link in links:
            if not link.fingerprint % SAMPLE and not self._was_counted(link.fingerprint):
                self._count(link)
        if not self._hosts:
            return links
        return tuple(link for link in links if link.host not in self._hosts or not self._is_closed(link))

    def _was_counted(self, fingerprint: int) -> bool:
        """Tell whether a link is a repetition: sites have far more links than URLs."""
        if fingerprint in self._counted or fingerprint in self._counted_before:
            return True
        self._counted.add(fingerprint)
        if len(self._counted) > GENERATION:
            self._counted, self._counted_before = set(), self._counted
        return False

    def _count(self, link: Link) -> None:
        now = self._clock()
        if now - self._since > SPAN:
            self._since = now
            self._counts.clear()
        url = unpack(link.packed).url
        pattern = pattern_of(url)
        if self._counts.add(pattern, SAMPLE) > self._most and pattern not in self._closed:
            self._closed[pattern] = ClosedPattern(self._most, url)
            self._hosts.add(link.host)
            facts = {"pattern": pattern, "more_than": self._most, "example": url}
            log.warning("links.quarantined", extra=facts)

    def _is_closed(self, link: Link) -> bool:
        return pattern_of(unpack(link.packed).url) in self._closed
