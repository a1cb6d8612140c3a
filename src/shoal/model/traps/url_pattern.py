"""URL patterns: URLs that differ only in their numbers and query values have the same pattern.

Shapes are coarser: ids in the path are equal as well, and so are all hosts of a site.
"""

import re

from shoal.model.url import host_key, site_of

_digits = re.compile(r"\d+").sub
_values = re.compile(r"=[^&]*").sub
_matrix_values = re.compile(r"=[^;/]*").sub
_LONG_SEGMENT = 16  # characters of letters only: longer than most words, as long as a session id


def pattern_of(url: str) -> str:
    """Return the pattern of a canonical URL, host included."""
    address, _, query = url.partition("?")
    _, _, host, path = address.split("/", 3)
    names = f"?{_values('', query)}" if query else ""
    return f"{host}/{_digits('0', path)}{names}"


def shape_of(url: str, site: str) -> str:
    """Return the shape of a canonical URL of a site: without query values and without ids in its path.

    A segment counts as an id if it has a digit, or is one long word.
    """
    address, _, query = url.partition("?")
    path = _matrix_values("=", address.split("/", 3)[3])
    names = f"?{_values('', query)}" if query else ""
    return f"{site}/{'/'.join([_kind(segment) for segment in path.split('/')])}{names}"


def shape_of_url(url: str) -> str:
    """Return the shape of a canonical URL, within its site."""
    return shape_of(url, site_of(host_key(url)))


def _kind(segment: str) -> str:
    name, _, rest = segment.partition(";")
    if any(map(str.isdigit, name)) or (len(name) >= _LONG_SEGMENT and name.isalpha()):
        name = "*"
    return f"{name};{rest}" if rest else name
