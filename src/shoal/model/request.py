"""Requests, and the packed form in which the frontier stores them."""

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
    # The frontier stores millions of these: one-letter names save more than this table costs.
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
    """A request to fetch one URL. A handler yields it to have it fetched.

    Attributes:
        url: the URL. It is made canonical when the request is added to the frontier. method: the HTTP method.
        headers: headers for this request, in addition to the crawl's. body: the body to send. priority: 1
        (first) to 10 (last). depth: links between a start URL and this one. Shoal sets it. pool: the worker
        pool that fetches it. route: the name of the handler for the page. Default: chosen by URL. data: a
        small dict of the spider's own, passed on as `page.data`. Shoal stores it and does not read it.
        found_on: the fingerprint of the page that yielded it; 0 for a seed. Shoal sets it. chain: the URLs
        that redirected here, oldest first. Shoal sets it.

    Two requests with the same method, URL and body are the same request: the second one is not fetched.

    Example: `yield shoal.Request(url="https://shop.example/search", method="POST", body=b"q=fish")`
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = {}
    body: bytes = b""
    priority: int = NORMAL
    depth: int = 0
    pool: str = "http"
    route: str = ""
    data: dict[str, Any] = {}
    found_on: int = 0
    chain: tuple[str, ...] = ()


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Request).decode


def unpack(packed: bytes) -> Request:
    """Return the request in `Link.packed`."""
    return _unpack(packed)


class Link(msgspec.Struct, frozen=True, array_like=True):
    """A request for the frontier: fingerprint and lane computed, the rest packed.

    Created in the parse child that finds the request, so that the frontier only has to store it.
    """

    fingerprint: int
    host: str
    priority: int
    pool: str
    packed: bytes

    @classmethod
    def to(cls, request: Request) -> "Link":
        """Canonicalise and pack `request`. Raises `Rejected` if its URL is not valid."""
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
    """Return the id of a request in logs and traces: the same in every process, on every machine."""
    return f"{fingerprint:016x}"
