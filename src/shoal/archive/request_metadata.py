"""The metadata of a page's request that handlers need, stored with the page as one WARC header.

The store deletes requests that have ended; without their route and data a page could not be parsed again
years later. Headers and body of a request are left out: they may contain secrets, and no handler needs
them.
"""

from base64 import b64decode, b64encode
from typing import Any

import msgspec

from shoal.archive.errors import PageDamaged
from shoal.model.limits import KIB
from shoal.model.request import Request

MAX_BYTES = 8 * KIB  # encoded; readers of WARC files do not expect longer headers


class _RequestMetadata(msgspec.Struct, frozen=True, omit_defaults=True):
    method: str = "GET"
    depth: int = 0
    route: str = ""
    data: dict[str, Any] = {}
    found_on: int = 0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_RequestMetadata).decode


def format_metadata(request: Request) -> bytes:
    """Return the header line of a request; empty for a plain seed, which has only defaults."""
    if not (request.depth or request.route or request.data or request.method != "GET"):
        return b""
    metadata = _RequestMetadata(request.method, request.depth, request.route, request.data, request.found_on)
    encoded = _encode(metadata)
    if len(encoded) > MAX_BYTES:
        encoded = _encode(msgspec.structs.replace(metadata, data={}))
    return b"Shoal-Request: %b\r\n" % b64encode(encoded)


def parse_metadata(url: str, value: str | None) -> Request:
    """Return the request of a header value; raise `PageDamaged` if the value cannot be decoded."""
    if value is None:
        return Request(url=url)
    try:
        metadata = _decode(b64decode(value, validate=True))
    except (ValueError, msgspec.MsgspecError):
        raise PageDamaged("the header Shoal-Request cannot be read") from None
    return Request(
        url=url,
        method=metadata.method,
        depth=metadata.depth,
        route=metadata.route,
        data=metadata.data,
        found_on=metadata.found_on,
    )
