"""The seen-set: exact, at about nine bytes per fingerprint.

Fingerprints are uniform 63-bit numbers, so their high bits choose a bucket and all buckets fill evenly. A
bucket is a sorted array of machine integers. A Python set would take eight times the memory, and a Bloom
filter would lose requests. Because the high bits choose, doubling the number of buckets splits each of them
in two.

Only fingerprints of crawls without a key are not uniform: a site can choose URLs whose high bits are equal. A
bucket that is full takes no more, and the rest goes to a Python set: eight times the memory, no more time.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator

MAX_MEAN_SIZE = 384  # of a bucket before all are split: short searches, and little overhead per array
MAX_SIZE = 8 * MAX_MEAN_SIZE  # of a bucket: 24 KB to move for an insertion
FP_BITS = 63


class SeenSet:
    __slots__ = ("_beyond", "_bits", "_buckets", "_shift", "_size")

    def __init__(self) -> None:
        self._size = 0
        self._bits = 0
        self._shift = FP_BITS
        self._buckets: list[array[int]] = [array("q")]
        self._beyond: set[int] = set()  # those whose buckets were full

    @classmethod
    def of(cls, batches: Iterable["array[int]"], expected: int) -> "SeenSet":
        """Build a set from unsorted fingerprints: three times as fast as adding them one by one."""
        loaded = cls()
        bits = max(0, (2 * expected // MAX_MEAN_SIZE).bit_length() - 1)
        shift = FP_BITS - bits
        unsorted: list[array[int]] = [array("q") for _ in range(1 << bits)]
        for batch in batches:
            for fp in batch:
                unsorted[fp >> shift].append(fp)
        loaded._bits, loaded._shift = bits, shift
        loaded._buckets = [loaded._bounded(sorted(set(bucket))) for bucket in unsorted]
        loaded._size = sum(map(len, loaded._buckets)) + len(loaded._beyond)
        return loaded

    def _bounded(self, fps: list[int]) -> "array[int]":
        self._beyond.update(fps[MAX_SIZE:])
        return array("q", fps[:MAX_SIZE])

    def add(self, fp: int) -> bool:
        """Add a fingerprint; return False if it was there."""
        bucket = self._buckets[fp >> self._shift]
        place = bisect_left(bucket, fp)
        if place < len(bucket) and bucket[place] == fp:
            return False
        if self._beyond and fp in self._beyond:
            return False
        if len(bucket) < MAX_SIZE:
            bucket.insert(place, fp)
        else:
            self._beyond.add(fp)
        self._size += 1
        if self._size > MAX_MEAN_SIZE << self._bits:
            self._split_buckets()
        return True

    def same_as(self, other: "SeenSet") -> bool:
        """Compare with a set that was built for the same number of fingerprints."""
        if self._beyond or other._beyond:  # which ones these are depends on the order
            return sorted(self) == sorted(other)
        return self._bits == other._bits and self._buckets == other._buckets

    def __contains__(self, fp: int) -> bool:
        bucket = self._buckets[fp >> self._shift]
        place = bisect_left(bucket, fp)
        return (place < len(bucket) and bucket[place] == fp) or fp in self._beyond

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[int]:
        for bucket in self._buckets:
            yield from bucket
        yield from self._beyond

    def _split_buckets(self) -> None:
        self._bits += 1
        self._shift -= 1
        halves: list[array[int]] = []
        for number, bucket in enumerate(self._buckets):
            middle = bisect_left(bucket, (2 * number + 1) << self._shift)
            halves += (bucket[:middle], bucket[middle:])
        self._buckets = halves
