"""What to fetch, and the packed form in which the frontier keeps it."""

from collections.abc import Mapping
from typing import Any, NewType

import msgspec

from shoal.model.url import canonical, fingerprint_of, host_key

Fingerprint = NewType("Fingerprint", int)
"""63-bit identity of a request inside a crawl, over canonical method + URL + body."""

FIRST, NORMAL, LAST = 1, 5, 10  # priorities; lower goes first


class Request(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    # Millions of these lie in the frontier: one letter a field is worth the table here.
    rename={
        "url": "u",
        "method": "m",
        "headers": "h",
        "body": "b",
        "priority": "p",
        "depth": "d",
        "pool": "o",
        "route": "r",
        "data": "x",
        "found_on": "f",
        "chain": "c",
    },
):
    """One thing to fetch. The URL is canonical once the request is on its way (`Link.to`)."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = {}
    body: bytes = b""
    priority: int = NORMAL
    depth: int = 0
    pool: str = "http"
    route: str = ""  # handler by name; empty: by URL pattern
    data: dict[str, Any] = {}  # the user's own, never read by Shoal
    found_on: int = 0  # fingerprint of the page that linked here; 0: a seed
    chain: tuple[str, ...] = ()  # URLs that redirected here, oldest first


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Request).decode


def unpack(packed: bytes) -> Request:
    """Undo `Link.packed`."""
    return _unpack(packed)


class Link(msgspec.Struct, frozen=True, array_like=True):
    """A request on its way into the frontier: identity and lane worked out, the rest packed.

    Made where the request is found (a parse child), so that the frontier's owner only has to store it.
    """

    fingerprint: int
    host: str
    priority: int
    pool: str
    packed: bytes

    @classmethod
    def to(cls, request: Request) -> "Link":
        """Canonicalise and pack `request`; raise `Rejected` if its URL can never be fetched."""
        url = canonical(request.url)
        if url != request.url:
            request = msgspec.structs.replace(request, url=url)
        return cls(
            fingerprint_of(request.method, url, request.body),
            host_key(url),
            min(max(request.priority, FIRST), LAST),
            request.pool,
            _pack(request),
        )


def trace_id(fingerprint: int) -> str:
    """Name a request in logs and traces: the same words at every station, on every machine."""
    return f"{fingerprint:016x}"
