"""Near-duplicate pages: 64 bits that differ little where two texts differ little, and a memory of them.

Every pair of neighbouring words votes on each of the 64 bits, and the majority decides (Charikar 2002). With
3 words changed, 7 of 10 pages of a manual stay within 3 bits; different pages of it, with all their common
navigation, are 15 bits and more apart (`python bench/content.py --book`). All votes are counted at once: the
words' hashes side by side make one long integer, and folding it in half, again and again, adds up the tallies
of all 64 bits in a dozen steps.

The same text has the same hash in every process: it may be stored and sent about.
"""

import zlib
from collections import deque
from itertools import pairwise

SAMPLE = 64  # pages of which one is hashed: it takes two thirds of what parsing takes

_TEXT = 64 * 1024  # characters looked at
_AT_LEAST = 32  # words; with fewer, all login pages of the world are one
_LONG_WORD = 12  # a text whose words are longer on average does not put spaces between them
_WORDS = 1 << 16  # hashes remembered

_BUCKET = 32  # hashes that share a band; more are made on purpose

_BITS = 64
_ALL = (1 << _BITS) - 1


class _Hashes(dict[str, bytes]):
    """The hashes of words, worked out once for the words that a site uses again and again."""

    def __missing__(self, word: str) -> bytes:
        # A cheap hash of 32 bits, spread over 64: there is no defence here against words made to collide,
        # whoever writes the words can make any two pages look alike anyway.
        mixed = zlib.crc32(word.encode("utf-8", "surrogatepass")) * 0x9E3779B97F4A7C15 & _ALL
        hashed = self[word] = (mixed ^ mixed >> 32).to_bytes(8, "little")
        return hashed


_hashes = _Hashes()


def simhash(text: str) -> int | None:
    """Return 64 bits that stand for a text; None: it is too short to tell."""
    text = text[:_TEXT]
    words = text.split()
    if len(text) > _LONG_WORD * len(words):
        words = list("".join(words))
    if len(words) < _AT_LEAST:
        return None
    if len(_hashes) > _WORDS:
        _hashes.clear()
    lanes = int.from_bytes(b"".join(map(_hashes.__getitem__, words)), "little")
    # The neighbour's hash is laid over shifted by some bits more, so that "a b" is not "b a".
    return _majority(lanes ^ lanes >> _BITS + 21, len(words))


def distance(one: int, other: int) -> int:
    """Count the bits in which two hashes differ."""
    return (one ^ other).bit_count()


def _majority(lanes: int, count: int) -> int:
    """Say for each bit whether it is set in more than half of `count` lanes of 64."""
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
            # The first plane, by far the largest, has no carry: not touching it again saves a third.
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
    """A memory of the latest pages of all hosts, asked whether a host has shown something this close before.

    Two hashes that differ in at most `distance` bits are equal in at least one of `distance` + 1 bands of
    bits, so only pages that share a band are compared. A page that is close to an earlier one is not
    remembered itself: a trap with a million pages takes the room of one. Some 400 bytes a page.
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
        """Return an earlier hash of `host` that is this close; if there is none, remember this one."""
        keys = self._keys(host, simhash)
        for key in keys:
            for earlier in self._buckets.get(key, ()):
                if (earlier ^ simhash).bit_count() <= self._distance:
                    return earlier
        for key in keys:
            self._buckets[key] = (simhash, *self._buckets.get(key, ())[: _BUCKET - 1])
        self._latest.append((host, simhash))
        if len(self._latest) > self._capacity:
            self._forget(*self._latest.popleft())
        return None

    def _forget(self, host: str, simhash: int) -> None:
        for key in self._keys(host, simhash):
            bucket = tuple(other for other in self._buckets.get(key, ()) if other != simhash)
            if bucket:
                self._buckets[key] = bucket
            else:
                self._buckets.pop(key, None)

    def _keys(self, host: str, simhash: int) -> list[int]:
        # `hash` differs between processes, but these never leave this one. 60 bits: what a small int holds.
        return [hash((host, low, simhash >> low & mask)) & 0xFFF_FFFF_FFFF_FFFF for low, mask in self._bands]
