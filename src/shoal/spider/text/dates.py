"""Dates in pages, feeds and sitemaps: ISO 8601 and RFC 5322 (mail)."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_MAX_CHARS = 64
_YEARS = range(1970, 2101)  # 0001 and 9999 are used for "never"

_year = re.compile(r"([0-9]{4})(?:-([0-9]{2}))?")
_zone = re.compile(r"\s+(?=[+-]\d{2}:?\d{2}$)|\s*(?:UTC|GMT)$")


def parse_date(text: str) -> datetime | None:
    """Return a date in UTC, which is also the default zone; None if it is not a date from 1970 to 2100."""
    text = text.strip()
    if not text or len(text) > _MAX_CHARS:
        return None
    try:
        found = _read(text)
    except (ValueError, TypeError, IndexError, OverflowError):  # `parsedate_to_datetime` raises all of them
        return None
    if found.year not in _YEARS:
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def _read(text: str) -> datetime:
    if found := _year.fullmatch(text):
        return datetime(int(found[1]), int(found[2] or 1), 1, tzinfo=UTC)
    if text[:4].isascii() and text[:4].isdecimal():
        return datetime.fromisoformat(_zone.sub("", text))
    return parsedate_to_datetime(text)
