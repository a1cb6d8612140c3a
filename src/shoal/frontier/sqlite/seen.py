"""The seen-set: exact, and about nine bytes a fingerprint.

Fingerprints are uniform 63-bit numbers, so their high bits choose a bucket and every bucket fills alike. A
bucket is a sorted array of machine integers: a Python set of as many would take eight times the memory, a
Bloom filter would lose requests. With the high bits choosing, doubling the number of buckets cuts each of
them in two.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator

FULL = 384  # mean size at which buckets are halved: the search is short and the arrays' headers do not weigh
FP_BITS = 63


class SeenSet:
    __slots__ = ("_bits", "_buckets", "_shift", "_size")

    def __init__(self) -> None:
        self._size = 0
        self._bits = 0
        self._shift = FP_BITS
        self._buckets: list[array[int]] = [array("q")]

    @classmethod
    def of(cls, batches: Iterable["array[int]"], expected: int) -> "SeenSet":
        """Build one from unsorted fingerprints: three times as fast as adding them one by one."""
        loaded = cls()
        bits = max(0, (2 * expected // FULL).bit_length() - 1)
        shift = FP_BITS - bits
        unsorted: list[array[int]] = [array("q") for _ in range(1 << bits)]
        for batch in batches:
            for fp in batch:
                unsorted[fp >> shift].append(fp)
        loaded._bits, loaded._shift = bits, shift
        loaded._buckets = [array("q", sorted(set(bucket))) for bucket in unsorted]
        loaded._size = sum(map(len, loaded._buckets))
        return loaded

    def add(self, fp: int) -> bool:
        """Take a fingerprint in; False: it was there."""
        bucket = self._buckets[fp >> self._shift]
        place = bisect_left(bucket, fp)
        if place < len(bucket) and bucket[place] == fp:
            return False
        bucket.insert(place, fp)
        self._size += 1
        if self._size > FULL << self._bits:
            self._halve()
        return True

    def same_as(self, other: "SeenSet") -> bool:
        """Compare with a set that was built for as many."""
        return self._bits == other._bits and self._buckets == other._buckets

    def __contains__(self, fp: int) -> bool:
        bucket = self._buckets[fp >> self._shift]
        place = bisect_left(bucket, fp)
        return place < len(bucket) and bucket[place] == fp

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[int]:
        for bucket in self._buckets:
            yield from bucket

    def _halve(self) -> None:
        self._bits += 1
        self._shift -= 1
        halves: list[array[int]] = []
        for number, bucket in enumerate(self._buckets):
            middle = bisect_left(bucket, (2 * number + 1) << self._shift)
            halves += (bucket[:middle], bucket[middle:])
        self._buckets = halves
