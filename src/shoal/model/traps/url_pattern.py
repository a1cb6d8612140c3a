"""URL patterns: URLs that differ only in their numbers and query values have the same pattern."""

import re

_digits = re.compile(r"\d+").sub
_values = re.compile(r"=[^&]*").sub


def pattern_of(url: str) -> str:
    """Return the pattern of a canonical URL, host included."""
    address, _, query = url.partition("?")
    _, _, host, path = address.split("/", 3)
    names = f"?{_values('', query)}" if query else ""
    return f"{host}/{_digits('0', path)}{names}"
