"""Quarantine: a host that brings ever more URLs of one pattern is likely making them up.

A pattern is a URL with its numbers made equal and the values of its query left out. One link in `SAMPLE`,
chosen by fingerprint, is looked at and counts for as many: it takes nothing for the others, and a pattern
that matters has thousands. Once a pattern has brought more than it may within `SPAN`, its links are dropped
for the rest of the run: counted by rule, and told in the log.
"""

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence

from shoal.model.request import Link, unpack

log = logging.getLogger(__name__)

SAMPLE = 16
SPAN = 3600.0

_digits = re.compile(r"\d+").sub
_values = re.compile(r"=[^&]*").sub


def pattern_of(url: str) -> str:
    """Give the pattern of a canonical URL, its host included."""
    address, _, query = url.partition("?")
    _, _, host, path = address.split("/", 3)
    names = f"?{_values('', query)}" if query else ""
    return f"{host}/{_digits('0', path)}{names}"


class Quarantine:
    """Watches the links of a crawl. `most` URLs of one pattern may come in an hour; 0: any number."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._since = clock()
        self._counts: Counter[str] = Counter()
        self._closed: set[str] = set()
        self._hosts: set[str] = set()  # of closed patterns: only their links are looked at one by one

    def admitted(self, links: Sequence[Link]) -> Sequence[Link]:
        """Give the links that may go on."""
        if not self._most:
            return links
        for link in links:
            if not link.fingerprint % SAMPLE:
                self._count(link)
        if not self._hosts:
            return links
        return tuple(link for link in links if link.host not in self._hosts or not self._is_closed(link))

    def _count(self, link: Link) -> None:
        now = self._clock()
        if now - self._since > SPAN:
            self._since = now
            self._counts.clear()
        pattern = pattern_of(unpack(link.packed).url)
        self._counts[pattern] += SAMPLE
        if self._counts[pattern] > self._most and pattern not in self._closed:
            self._closed.add(pattern)
            self._hosts.add(link.host)
            log.warning("links.quarantined", extra={"pattern": pattern, "more_than": self._most})

    def _is_closed(self, link: Link) -> bool:
        return pattern_of(unpack(link.packed).url) in self._closed
