"""Removes credentials from what goes into the archive."""

import re

REDACTED = "redacted"

# Names of form fields vary more: `author` must not match.
_SECRET_FIELD = re.compile(rb"passw|pwd|token|secret|credential|session|auth(?!or)|(?:api|access).?key", re.I)
_IN_FORM = re.compile(rb"(?:(?<=&)|^)([^=&]+)=[^&]*")
_IN_JSON = re.compile(rb'("(?:[^"\\]|\\.)*"\s*:\s*)"(?:[^"\\]|\\.)*"')


def redact_cookie(cookie: str) -> str:
    """Return a Set-Cookie header without the value; name and attributes show how a site behaves, and stay."""
    pair, semicolon, attributes = cookie.partition(";")
    name, equals, _ = pair.partition("=")
    if not equals:  # a cookie without a name: all of it is the value
        return REDACTED + semicolon + attributes
    return f"{name}={REDACTED}{semicolon}{attributes}"


def redact_body(body: bytes) -> bytes:
    """Return a request body without the values of form or JSON fields that are named like a credential."""
    if body.lstrip()[:1] in (b"{", b"["):
        return _IN_JSON.sub(lambda field: _redact(field, b'%b"%b"'), body)
    return _IN_FORM.sub(lambda field: _redact(field, b"%b=%b"), body)


def _redact(field: re.Match[bytes], template: bytes) -> bytes:
    return template % (field[1], REDACTED.encode()) if _SECRET_FIELD.search(field[1]) else field[0]
