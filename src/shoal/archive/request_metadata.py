"""The metadata of a page's request that handlers need, stored with the page as one WARC header.

The store deletes requests that have ended; without their route and data a page could not be parsed again
years later. Headers and body of a request are left out: they may contain secrets, and no handler needs
them.
"""

from base64 import b64decode, b64encode
from typing import Any

import msgspec

from shoal.archive.errors import PageDamaged
from shoal.archive.redaction import redact_rendering
from shoal.model.limits import KIB
from shoal.model.rendering import Rendering
from shoal.model.request import HTTP, Request

MAX_BYTES = 8 * KIB  # encoded; readers of WARC files do not expect longer headers


class _RequestMetadata(msgspec.Struct, frozen=True, omit_defaults=True):
    method: str = "GET"
    depth: int = 0
    route: str = ""
    data: dict[str, Any] = {}
    found_on: int = 0
    chain: tuple[str, ...] = ()  # URLs that redirected to the page
    via: tuple[str, ...] = ()
    returned: bool = False
    found_on_url: str = ""
    unique: str = ""
    pool: str = HTTP
    render: Rendering | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_RequestMetadata).decode


def format_metadata(request: Request) -> bytes:
    """Return the header line of a request; empty for a plain seed, which has only defaults."""
    if not (
        request.depth
        or request.route
        or request.data
        or request.method != "GET"
        or request.chain
        or request.unique
        or request.pool != HTTP
    ):
        return b""
    metadata = _RequestMetadata(
        request.method,
        request.depth,
        request.route,
        request.data,
        request.found_on,
        request.chain,
        request.via,
        request.returned,
        request.found_on_url,
        request.unique,
        request.pool,
        None if request.render is None else redact_rendering(request.render),
    )
    encoded = _encode(metadata)
    if len(encoded) > MAX_BYTES:
        encoded = _encode(msgspec.structs.replace(metadata, chain=(), via=()))
    if len(encoded) > MAX_BYTES:
        encoded = _encode(msgspec.structs.replace(metadata, data={}, chain=(), via=(), render=None))
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
        chain=metadata.chain,
        via=metadata.via,
        returned=metadata.returned,
        found_on_url=metadata.found_on_url,
        unique=metadata.unique,
        pool=metadata.pool,
        render=metadata.render,
    )
