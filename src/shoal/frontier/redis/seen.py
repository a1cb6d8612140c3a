"""How a crawl remembers what it has seen: exactly, or for less memory in a Bloom filter.

Exact is the default and the cheaper one to ask; it takes about nine bytes a fingerprint. A filter takes less
than two, but has to be sized in advance, and now and then takes a new link for one that it has seen, which
loses that link. How often is computed from how full the filter is, and shown with the counts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

MAX_BITS = 1 << 32  # a Redis string ends at 512 MiB
SPREAD = 1.25  # hosts are not alike: a shard may get so much more than its share


def seen_hash(fingerprint: int) -> int:
    """Give what says in which bucket of seen.lua a fingerprint is: its first 31 bits of 63, backwards."""
    return int(f"{fingerprint >> 32:031b}"[::-1], 2)


def bucket_of(hash: int, buckets: int) -> int:
    """Give the bucket of a hash where there are so many, as seen.lua does."""
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
        """Size a filter that mistakes a share `rate` of new links once it holds as many as `expected`."""
        bits = min(max(math.ceil(-expected * math.log(rate) / math.log(2) ** 2), 64), MAX_BITS)
        return cls(bits, max(round(bits / max(expected, 1) * math.log(2)), 1))

    def false_positives(self, size: int) -> float:
        """Return the share of new links that are mistaken for seen ones when the filter holds `size`."""
        return float((1.0 - math.exp(-self.hashes * size / self.bits)) ** self.hashes)


@dataclass(frozen=True, slots=True)
class Approximate:
    """How many links a crawl is expected to meet, and the share of new ones that it may mistake by then."""

    links: int
    rate: float = 0.001

    def per_shard(self, shards: int) -> Bloom:
        return Bloom.for_links(math.ceil(self.links / shards * SPREAD), self.rate)


def mistaken(shards: Sequence[Sequence[bytes | None]]) -> float:
    """Return the share of new links that a crawl mistakes, from size, bits and hashes of each shard."""
    filters = [
        (int(size or 0), Bloom(int(bits), int(hashes))) for size, bits, hashes in shards if bits and hashes
    ]
    held = sum(size for size, _ in filters)
    # A link is as likely to fall to a shard as those before it were.
    return sum(size * bloom.false_positives(size) for size, bloom in filters) / held if held else 0.0
