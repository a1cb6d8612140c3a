"""Removes credentials from what goes into the archive."""

import re

import msgspec

from shoal.model.rendering import Fill, Rendering

REDACTED = "redacted"

# Names of form fields vary more: `author` must not match.
_SECRET_FIELD = re.compile(rb"passw|pwd|token|secret|credential|session|auth(?!or)|(?:api|access).?key", re.I)
_IN_FORM = re.compile(rb"(?:(?<=&)|^)([^=&]+)=[^&]*")
_MULTIPART = re.compile(rb"(--[^\r\n]{1,200})\r\ncontent-disposition: form-data;", re.I)
_PART_NAME = re.compile(rb'name="([^"\r\n]*)"')
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
    if (parts := _MULTIPART.match(body)) is not None:
        return _redact_parts(body, parts[1])
    if body.lstrip()[:1] in (b"{", b"["):
        return _IN_JSON.sub(lambda field: _redact(field, b'%b"%b"'), body)
    return _IN_FORM.sub(lambda field: _redact(field, b"%b=%b"), body)


def redact_rendering(rendering: Rendering) -> Rendering:
    """Return a rendering without what it types into fields that are named like a credential."""
    actions = tuple(
        msgspec.structs.replace(action, text=REDACTED)
        if isinstance(action, Fill) and _SECRET_FIELD.search(action.selector.encode())
        else action
        for action in rendering.actions
    )
    return msgspec.structs.replace(rendering, actions=actions)


def _redact_parts(body: bytes, boundary: bytes) -> bytes:
    """Return a multipart form without the values of secret fields; the rest stays byte by byte."""
    parts = body.split(boundary)
    for number, part in enumerate(parts):
        head, end, _ = part.partition(b"\r\n\r\n")
        name = _PART_NAME.search(head)
        if end and name is not None and _SECRET_FIELD.search(name[1]):
            parts[number] = head + end + REDACTED.encode() + b"\r\n"
    return boundary.join(parts)


def _redact(field: re.Match[bytes], template: bytes) -> bytes:
    return template % (field[1], REDACTED.encode()) if _SECRET_FIELD.search(field[1]) else field[0]
