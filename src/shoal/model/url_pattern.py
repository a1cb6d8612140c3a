"""Patterns: URLs that are alike but for their numbers and the values of their query."""

import re

_digits = re.compile(r"\d+").sub
_values = re.compile(r"=[^&]*").sub


def pattern_of(url: str) -> str:
    """Give the pattern of a canonical URL, its host included."""
    address, _, query = url.partition("?")
    _, _, host, path = address.split("/", 3)
    names = f"?{_values('', query)}" if query else ""
    return f"{host}/{_digits('0', path)}{names}"
