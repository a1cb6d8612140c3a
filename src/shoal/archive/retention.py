"""Deletes expired segments."""

from collections.abc import Iterable
from datetime import date, timedelta

from shoal.archive.contract import Segments
from shoal.archive.names import SegmentName


def expired_segments(segments: Iterable[SegmentName], *, keep_days: int, today: date) -> list[SegmentName]:
    """Return the segments whose day was more than `keep_days` ago; 0 keeps everything."""
    if keep_days <= 0:
        return []
    last_expired = today - timedelta(days=keep_days + 1)
    return [segment for segment in segments if segment.day <= last_expired]


def expire(segments: Segments, *, keep_days: int, today: date) -> list[str]:
    """Delete expired segments and return their names. After a crash, the next call deletes the rest."""
    expired = expired_segments(segments.segments(), keep_days=keep_days, today=today)
    if expired:
        # Stored first, so that a reader of a deleted segment knows the reason.
        segments.mark_expired(max(segment.day for segment in expired))
    for segment in expired:
        segments.remove(segment)
    return [str(segment) for segment in expired]
