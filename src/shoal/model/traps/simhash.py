"""Near-duplicate detection: a 64-bit simhash of a text, and an index of the latest hashes.

Similar texts have hashes that differ in few bits. Every pair of neighbouring words votes on each of the 64
bits, and the majority decides (Charikar 2002). With 3 words changed, 7 of 10 pages of a manual stay within 3
bits; different pages of it, with the same navigation, are 15 bits or more apart (`python bench/content.py
--book`). All votes are counted at once: the words' hashes side by side form one long integer, and folding it
in half repeatedly adds up the tallies of all 64 bits in a dozen steps.

A text has the same hash in every process, so it can be stored and sent.
"""

import zlib
from collections import deque
from itertools import pairwise

SAMPLE = 64  # one page in this many is hashed: hashing takes two thirds of the time of parsing

_MAX_CHARS = 64 * 1024
_MIN_WORDS = 32  # with fewer, all login pages would be duplicates of one another
_LONG_WORD_CHARS = 12  # average above which the text does not separate words by spaces
_MAX_CACHED_WORDS = 1 << 16

_MAX_BUCKET = 32  # hashes that share a band; only crafted pages have more

_BITS = 64
_ALL = (1 << _BITS) - 1


class _Hashes(dict[str, bytes]):
    """A cache of word hashes: a site repeats most of its words."""

    def __missing__(self, word: str) -> bytes:
        # A cheap 32-bit hash, spread over 64. It does not resist crafted collisions, but the author of the
        # pages can make any two of them similar anyway.
        mixed = zlib.crc32(word.encode("utf-8", "surrogatepass")) * 0x9E3779B97F4A7C15 & _ALL
        hashed = self[word] = (mixed ^ mixed >> 32).to_bytes(8, "little")
        return hashed


_hashes = _Hashes()


def simhash(text: str) -> int | None:
    """Return the 64-bit hash of a text; None if the text is too short."""
    text = text[:_MAX_CHARS]
    words = text.split()
    if len(text) > _LONG_WORD_CHARS * len(words):
        words = list("".join(words))
    if len(words) < _MIN_WORDS:
        return None
    if len(_hashes) > _MAX_CACHED_WORDS:
        _hashes.clear()
    lanes = int.from_bytes(b"".join(map(_hashes.__getitem__, words)), "little")
    # The neighbour's hash is shifted by 21 more bits before the XOR, so that "a b" differs from "b a".
    return _majority(lanes ^ lanes >> _BITS + 21, len(words))


def distance(one: int, other: int) -> int:
    """Return the number of bits in which two hashes differ."""
    return (one ^ other).bit_count()


def _majority(lanes: int, count: int) -> int:
    """Return the bits that are set in more than half of `count` 64-bit lanes."""
    planes = [lanes]  # planes[k] holds the binary digit k of every tally
    width = count
    while width > 1:
        width = (width + 1) // 2
        cut = width * _BITS
        low_half = (1 << cut) - 1
        folded = []
        carry = 0
        for plane in planes:
            low, high = plane & low_half, plane >> cut
            either, both = low ^ high, low & high
            # The first plane, by far the largest, has no carry: skipping it saves a third of the time.
            folded.append(either ^ carry if carry else either)
            carry = both | either & carry if carry else both
        planes = [*folded, carry]
    above, equal = 0, _ALL
    for digit in reversed(range(len(planes))):
        if count // 2 >> digit & 1:
            equal &= planes[digit]
        else:
            above |= equal & planes[digit]
            equal &= ~planes[digit]
    return above


class NearDuplicates:
    """An index of the latest page hashes of all hosts.

    Two hashes that differ in at most `distance` bits are equal in at least one of `distance` + 1 bands of
    bits, so only pages that share a band are compared. A page that is close to an earlier one is not added: a
    trap with a million pages takes the space of one. About 400 bytes per page.
    """

    def __init__(self, *, distance: int = 3, capacity: int = 50_000) -> None:
        self._distance = distance
        self._capacity = capacity
        bands = distance + 1
        edges = [_BITS * band // bands for band in range(bands + 1)]
        self._bands = [(low, (1 << high - low) - 1) for low, high in pairwise(edges)]
        self._latest: deque[tuple[str, int]] = deque()
        self._buckets: dict[int, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self._latest)

    def seen(self, host: str, simhash: int) -> int | None:
        """Return an earlier hash of `host` within `distance` of this one, or add this one."""
        keys = self._keys(host, simhash)
        for key in keys:
            for earlier in self._buckets.get(key, ()):
                if (earlier ^ simhash).bit_count() <= self._distance:
                    return earlier
        for key in keys:
            self._buckets[key] = (simhash, *self._buckets.get(key, ())[: _MAX_BUCKET - 1])
        self._latest.append((host, simhash))
        if len(self._latest) > self._capacity:
            self._remove(*self._latest.popleft())
        return None

    def _remove(self, host: str, simhash: int) -> None:
        for key in self._keys(host, simhash):
            bucket = tuple(other for other in self._buckets.get(key, ()) if other != simhash)
            if bucket:
                self._buckets[key] = bucket
            else:
                self._buckets.pop(key, None)

    def _keys(self, host: str, simhash: int) -> list[int]:
        # `hash` differs between processes, but these keys stay in this one. 60 bits fit CPython's small ints.
        return [hash((host, low, simhash >> low & mask)) & 0xFFF_FFFF_FFFF_FFFF for low, mask in self._bands]
