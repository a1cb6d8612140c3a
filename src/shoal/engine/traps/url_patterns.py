"""Quarantine: a host that brings ever more URLs of one pattern is probably generating them.

One link in `SAMPLE`, chosen by fingerprint, is inspected and counts for that many: the others cost nothing,
and a pattern that matters has thousands. A pattern that has brought more URLs than allowed within an hour
is closed: its links are dropped, counted by rule, logged, and shown by `status`. A later run continues with
that, unless it allows more.

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


class PatternQuarantine:
    """Allows `limit` URLs of one pattern per hour; 0: any number."""

    def __init__(
        self,
        limit: int,
        closed: MutableMapping[str, ClosedPattern] | None = None,
        counters: TrapCounters | None = None,
    ) -> None:
        self._limit = limit
        self._closed = {} if closed is None else closed  # by pattern
        self._counters = counters or TrapCounters()
        self._counted: set[int] = set()  # fingerprints; below, those of the previous generation
        self._counted_before: set[int] = set()
        # Only links to these hosts are checked one by one.
        self._hosts: set[str] = set()
        self._hosts_of = 0  # closed patterns that `_hosts` was made from; other workers add some

    def admitted(self, links: Sequence[Link]) -> Sequence[Link]:
        """Return the links that are not in a closed pattern."""
        if not self._limit:
            return links
        for link in links:
            if not link.fingerprint % SAMPLE and not self._was_counted(link.fingerprint):
                self._count(link)
        if len(self._closed) != self._hosts_of:
            self._hosts = {pattern.partition("/")[0] for pattern in self._closed}
            self._hosts_of = len(self._closed)
        if not self._hosts:
            return links
        return tuple(link for link in links if link.host not in self._hosts or not self._is_closed(link))

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
        if self._counters.count_url(pattern, SAMPLE) > self._limit and pattern not in self._closed:
            self._closed[pattern] = ClosedPattern(self._limit, url)
            facts = {"pattern": pattern, "more_than": self._limit, "example": url}
            log.warning("links.quarantined", extra=facts)

    def _is_closed(self, link: Link) -> bool:
        return pattern_of(unpack(link.packed).url) in self._closed
