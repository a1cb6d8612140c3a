"""Requests, and the packed form in which the frontier stores them."""

import secrets
from collections.abc import Mapping
from typing import Any, NewType

import msgspec

from shoal.model.errors import Rejected
from shoal.model.url import canonical, fingerprint_of, host_key

Fingerprint = NewType("Fingerprint", int)
"""63-bit identity of a request inside a crawl, over canonical method + URL + body, under the crawl's key."""

FIRST, NORMAL, LAST = 1, 5, 10  # priorities; lower goes first

FINGERPRINT_KEY = "fingerprint_key"
"""The name under which a crawl's own key for fingerprints is stored with it; without one: unkeyed."""

MAX_NAME_BYTES = 255  # of a host or a pool: the frontier packs their length into one byte


def new_fingerprint_key() -> bytes:
    """Return a random key for the fingerprints of a new crawl."""
    return secrets.token_bytes(16)


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

UNREADABLE = Request(url="")
"""Stands for a stored request that cannot be unpacked; it ends without being fetched."""


def pack(request: Request) -> bytes:
    """Return the packed form of a request. Raises `TypeError` if its `data` cannot be packed."""
    return _pack(request)


def unpack(packed: bytes) -> Request:
    """Return the request in `Link.packed`. Raises `msgspec.DecodeError` if it is not one."""
    try:
        return _unpack(packed)
    except RecursionError:
        raise msgspec.DecodeError("nested too deeply") from None


def unpack_stored(packed: bytes) -> Request:
    """Return a request that a store holds; `UNREADABLE` if the store is damaged or was given junk."""
    try:
        return unpack(packed)
    except msgspec.DecodeError:
        return UNREADABLE


class Link(msgspec.Struct, frozen=True, array_like=True):
    """A request for the frontier: fingerprint and lane computed, the rest packed.

    Created by the process that owns the crawl: a parse child returns requests, and is not trusted with this.
    """

    fingerprint: int
    host: str
    priority: int
    pool: str
    packed: bytes

    @classmethod
    def to(cls, request: Request, key: bytes = b"", packed: bytes | None = None) -> "Link":
        """Canonicalise and pack `request`; `key` is that of the crawl's fingerprints.

        `packed` is the request as it was packed before. Raises `Rejected` if its URL is not valid, or its
        host or pool has more than `MAX_NAME_BYTES`.
        """
        url = canonical(request.url)
        if url != request.url:
            request, packed = msgspec.structs.replace(request, url=url), None
        host, pool = host_key(url), request.pool
        if len(host) > MAX_NAME_BYTES or len(pool.encode()) > MAX_NAME_BYTES:
            longer = max(host, pool, key=len)
            raise Rejected(f"a host or pool has more than {MAX_NAME_BYTES} bytes: {longer[:80]}")
        return cls(
            fingerprint_of(request.method, url, request.body, key),
            host,
            min(max(request.priority, FIRST), LAST),
            pool,
            _pack(request) if packed is None else packed,
        )


def trace_id(fingerprint: int) -> str:
    """Return the id of a request in logs and traces: the same in every process, on every machine."""
    return f"{fingerprint:016x}"
