"""How a crawl remembers what it has seen: exactly, or for less memory in a Bloom filter.

Exact is the default and the cheaper one to ask; it takes about nine bytes a fingerprint. A filter takes less
than two, but has to be sized in advance, and now and then takes a new link for one that it has seen, which
loses that link. How often is computed from how full the filter is, and shown with the counts.
"""

import math
from dataclasses import dataclass

MAX_BITS = 1 << 32  # a Redis string ends at 512 MiB


@dataclass(frozen=True, slots=True)
class Bloom:
    """The size of a filter."""

    bits: int
    hashes: int

    @classmethod
    def for_links(cls, expected: int, rate: float) -> "Bloom":
        """Size a filter that mistakes a share `rate` of new links once it holds as many as `expected`."""
        bits = min(max(math.ceil(-expected * math.log(rate) / math.log(2) ** 2), 64), MAX_BITS)
        return cls(bits, max(round(bits / max(expected, 1) * math.log(2)), 1))

    def false_positives(self, size: int) -> float:
        """Return the share of new links that are mistaken for seen ones when the filter holds `size`."""
        return float((1.0 - math.exp(-self.hashes * size / self.bits)) ** self.hashes)
