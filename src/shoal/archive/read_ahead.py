"""Read-ahead for scanning segments from start to end.

On an object store every read is a round trip, and a scan makes many small reads in a row. Here each read also
fetches the bytes that the next reads will need.
"""

from shoal.archive.contract import ReadableSegments
from shoal.archive.names import SegmentName
from shoal.model.limits import MIB

BLOCK_BYTES = 2 * MIB


class ReadAhead:
    """Reads segments through a buffer; a segment that grows during the scan is read to its new end."""

    def __init__(self, segments: ReadableSegments, *, block_bytes: int = BLOCK_BYTES) -> None:
        self.path = segments.path
        self.grows = segments.grows
        self._segments = segments
        self._block_bytes = block_bytes
        self._segment: SegmentName | None = None
        self._start = 0
        self._block = b""
        self._to_end = False

    def segments(self, stem: str = "") -> list[SegmentName]:
        """Return the names of all segments, oldest first; `stem`: of one writer only."""
        return self._segments.segments(stem)

    def read(self, segment: SegmentName, offset: int, length: int) -> bytes | None:
        """Return up to `length` bytes, fewer at the end; None: there is no such segment."""
        at = offset - self._start
        needed = length if not self._to_end else 0  # at the end of the segment the block has all there is
        if segment != self._segment or at < 0 or at + needed > len(self._block):
            wanted = max(length, self._block_bytes)
            block = self._segments.read(segment, offset, wanted)
            if block is None:
                return None
            self._segment, self._start, self._block, at = segment, offset, block, 0
            self._to_end = len(block) < wanted and not self.grows
        return self._block[at : at + length]

    def was_expired(self, segment: SegmentName) -> bool:
        """Return whether a segment that does not exist was deleted because it had expired."""
        return self._segments.was_expired(segment)
