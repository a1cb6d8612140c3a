"""What a handler gets to know of a page's request, kept with the page as one WARC header.

The store forgets requests that have ended; without their route and data a page could not be parsed again
years later. Header lines and body of a request stay out: they may hold secrets, and no handler needs them.
"""

from base64 import b64decode, b64encode
from typing import Any

import msgspec

from shoal.archive.errors import PageDamaged
from shoal.model.limits import KIB
from shoal.model.request import Request

LARGEST = 8 * KIB  # packed; readers of WARC files do not expect more of a header than that


class _Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    method: str = "GET"
    depth: int = 0
    route: str = ""
    data: dict[str, Any] = {}
    found_on: int = 0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Asked).decode


def spell_asked(request: Request) -> bytes:
    """Spell the header line; empty for a plain seed, which has nothing to tell."""
    if not (request.depth or request.route or request.data or request.method != "GET"):
        return b""
    packed = _encode(_Asked(request.method, request.depth, request.route, request.data, request.found_on))
    if len(packed) > LARGEST:
        packed = _encode(_Asked(request.method, request.depth, request.route, {}, request.found_on))
    return b"Shoal-Request: %b\r\n" % b64encode(packed)


def read_asked(url: str, spelled: str | None) -> Request:
    """Undo `spell_asked`; raise `PageDamaged` for what it has not spelled."""
    if spelled is None:
        return Request(url=url)
    try:
        asked = _decode(b64decode(spelled, validate=True))
    except (ValueError, msgspec.MsgspecError):
        raise PageDamaged("the header Shoal-Request cannot be read") from None
    return Request(
        url=url,
        method=asked.method,
        depth=asked.depth,
        route=asked.route,
        data=asked.data,
        found_on=asked.found_on,
    )
