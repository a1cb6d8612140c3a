"""Segments that have been kept long enough go."""

from collections.abc import Iterable
from datetime import date, timedelta

from shoal.archive.names import SegmentName
from shoal.archive.segments import Segments


def outlived(segments: Iterable[SegmentName], *, keep_days: int, today: date) -> list[SegmentName]:
    """Pick the segments whose day lies more than `keep_days` back; 0 keeps everything."""
    if keep_days <= 0:
        return []
    last_to_go = today - timedelta(days=keep_days + 1)
    return [segment for segment in segments if segment.day <= last_to_go]


def expire(folder: Segments, *, keep_days: int, today: date) -> list[str]:
    """Delete what has outlived its time, and name it. A crash on the way leaves the rest to the next call."""
    going = outlived(folder.segments(), keep_days=keep_days, today=today)
    if going:
        # Noted first: whoever misses a segment then learns that it was meant to go.
        folder.mark_expired(max(segment.day for segment in going))
    for segment in going:
        folder.remove(segment)
    return [str(segment) for segment in going]
