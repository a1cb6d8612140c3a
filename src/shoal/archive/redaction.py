"""What must not reach the archive: the values by which a crawl is known to a server."""

import re
from functools import lru_cache

REDACTED = "redacted"

_SECRET = re.compile(
    r"auth|cookie|token|secret|passw|credential|session|signature|api-?key|access-?key", re.I
)

# Fields of a form have names of all kinds: an author is none.
_SECRET_FIELD = re.compile(rb"passw|pwd|token|secret|credential|session|auth(?!or)|(?:api|access).?key", re.I)
_IN_FORM = re.compile(rb"(?:(?<=&)|^)([^=&]+)=[^&]*")
_IN_JSON = re.compile(rb'("(?:[^"\\]|\\.)*"\s*:\s*)"(?:[^"\\]|\\.)*"')


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


def without_secrets(body: bytes) -> bytes:
    """Blank what a form, or JSON, sends under the name of a credential; the rest of a body stays as it is."""
    if body.lstrip()[:1] in (b"{", b"["):
        return _IN_JSON.sub(lambda field: _blanked(field, b'%b"%b"'), body)
    return _IN_FORM.sub(lambda field: _blanked(field, b"%b=%b"), body)


def _blanked(field: re.Match[bytes], spelled: bytes) -> bytes:
    return spelled % (field[1], REDACTED.encode()) if _SECRET_FIELD.search(field[1]) else field[0]
