"""Dates as HTTP headers write them."""

from datetime import UTC
from email.utils import parsedate_to_datetime

LONGEST = 64  # characters; every form is shorter


def http_date(text: str) -> float | None:
    """Read a date as epoch seconds; None: not a date."""
    if not text or len(text) > LONGEST:
        return None
    try:
        when = parsedate_to_datetime(text)
        # Without a zone, Python would take it for local time.
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
