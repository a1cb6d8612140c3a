"""Segments that are read from their beginning to their end.

On an object store every read is a round trip. Whoever goes through an archive asks for one small stretch
after the other: here each read fetches what will be asked for next as well.
"""

from shoal.archive.names import SegmentName
from shoal.archive.segments import Readable
from shoal.model.limits import MIB

BLOCK = 2 * MIB


class ReadAhead:
    """Reads segments through a block of one of them; what was written meanwhile is found all the same."""

    def __init__(self, segments: Readable, *, block: int = BLOCK) -> None:
        self.path = segments.path
        self.grows = segments.grows
        self._segments = segments
        self._length = block
        self._segment: SegmentName | None = None
        self._start = 0
        self._block = b""
        self._to_end = False

    def segments(self, stem: str = "") -> list[SegmentName]:
        """List what is there, oldest first; `stem`: of one writer only."""
        return self._segments.segments(stem)

    def read(self, segment: SegmentName, offset: int, length: int) -> bytes | None:
        """Return up to `length` bytes, fewer at the end; None: there is no such segment."""
        at = offset - self._start
        reach = length if not self._to_end else 0  # nothing follows the block: it has all there is
        if segment != self._segment or at < 0 or at + reach > len(self._block):
            wanted = max(length, self._length)
            block = self._segments.read(segment, offset, wanted)
            if block is None:
                return None
            self._segment, self._start, self._block, at = segment, offset, block, 0
            self._to_end = len(block) < wanted and not self.grows
        return self._block[at : at + length]

    def was_expired(self, segment: SegmentName) -> bool:
        """Say whether a segment that is not there was deleted on purpose."""
        return self._segments.was_expired(segment)
