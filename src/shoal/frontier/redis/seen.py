"""The seen-set of a crawl: exact, or a Bloom filter for less memory.

Exact is the default and faster to query; it takes about nine bytes per fingerprint. A filter takes less than
two, but has to be sized in advance, and sometimes reports a new link as seen, which loses that link. The
share is computed from how full the filter is, and shown with the counts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

MAX_BITS = 1 << 32  # a Redis string ends at 512 MiB
SPREAD = 1.25  # hosts differ in size: a shard may get this much more than its share


def seen_hash(fingerprint: int) -> int:
    """Return the hash that selects the bucket in seen.lua: the first 31 of 63 bits, reversed."""
    return int(f"{fingerprint >> 32:031b}"[::-1], 2)


def bucket_of(hash: int, buckets: int) -> int:
    """Return the bucket of a hash among `buckets`, as seen.lua does."""
    whole = 1 << (buckets.bit_length() - 1)
    bucket = hash % (2 * whole)
    return bucket - whole if bucket >= buckets else bucket


@dataclass(frozen=True, slots=True)
class Bloom:
    """The size of a filter."""

    bits: int
    hashes: int

    @classmethod
    def for_links(cls, expected: int, rate: float) -> "Bloom":
        """Return a filter that reports a share `rate` of new links as seen once it holds `expected` links."""
        bits = min(max(math.ceil(-expected * math.log(rate) / math.log(2) ** 2), 64), MAX_BITS)
        return cls(bits, max(round(bits / max(expected, 1) * math.log(2)), 1))

    def false_positives(self, size: int) -> float:
        """Return the share of new links that are reported as seen when the filter holds `size`."""
        return float((1.0 - math.exp(-self.hashes * size / self.bits)) ** self.hashes)


@dataclass(frozen=True, slots=True)
class Approximate:
    """The number of links that a crawl is expected to find, and the share of false positives by then."""

    links: int
    rate: float = 0.001

    def per_shard(self, shards: int) -> Bloom:
        return Bloom.for_links(math.ceil(self.links / shards * SPREAD), self.rate)


def false_positive_share(shards: Sequence[Sequence[bytes | None]]) -> float:
    """Return the share of new links that are reported as seen, from size, bits and hashes of each shard."""
    filters = [
        (int(size or 0), Bloom(int(bits), int(hashes))) for size, bits, hashes in shards if bits and hashes
    ]
    held = sum(size for size, _ in filters)
    # Weighted by size: a new link falls to a shard as often as earlier ones did.
    return sum(size * bloom.false_positives(size) for size, bloom in filters) / held if held else 0.0
