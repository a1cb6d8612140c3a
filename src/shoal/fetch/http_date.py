"""Dates in HTTP headers."""

from datetime import UTC
from email.utils import parsedate_to_datetime

MAX_CHARS = 64  # every valid form is shorter


def http_date(text: str) -> float | None:
    """Return a date as epoch seconds; None if it is not a date."""
    if not text or len(text) > MAX_CHARS:
        return None
    try:
        when = parsedate_to_datetime(text)
        # Python would read a date without a zone as local time.
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
