"""What must not reach the archive: the values by which a crawl is known to a server."""

import re
from functools import lru_cache

REDACTED = "redacted"

_SECRET = re.compile(
    r"auth|cookie|token|secret|passw|credential|session|signature|api-?key|access-?key", re.I
)


@lru_cache(maxsize=1024)
def is_secret(name: str) -> bool:
    """Say whether a request header of this name can carry a credential."""
    return _SECRET.search(name) is not None


def without_value(cookie: str) -> str:
    """Blank the value in a Set-Cookie header; its name and attributes tell how a site behaves, and stay."""
    pair, semicolon, attributes = cookie.partition(";")
    name, equals, _ = pair.partition("=")
    if not equals:  # the whole pair is then the value of a cookie without a name
        return REDACTED + semicolon + attributes
    return f"{name}={REDACTED}{semicolon}{attributes}"
