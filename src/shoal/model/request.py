"""Requests, and the packed form in which the frontier stores them."""

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NewType

import msgspec

from shoal.model.errors import Rejected
from shoal.model.http.request_parts import PARTS, Fields, compose_fields
from shoal.model.rendering import Rendering, refuse_rendering
from shoal.model.url import canonical, fingerprint_of, host_key

Fingerprint = NewType("Fingerprint", int)
"""63-bit identity of a request inside a crawl, over canonical method + URL + body, under the crawl's key."""

FIRST, NORMAL, LAST = 1, 5, 10  # priorities; lower goes first

FINGERPRINT_KEY = "fingerprint_key"
"""The name under which a crawl's own key for fingerprints is stored with it; without one: unkeyed."""

HTTP, BROWSER = "http", "browser"
"""The pools that are built in; the name of a user-made pool starts with that of the one which it divides."""

MAX_NAME_BYTES = 255  # of a host or a pool: the frontier packs their length into one byte


def new_fingerprint_key() -> bytes:
    """Return a random key for the fingerprints of a new crawl."""
    return secrets.token_bytes(16)


class _RequestType(msgspec.StructMeta):
    """Makes `Request(url, json=...)` work (`request_parts`). Decoding a stored request does not call it."""

    if not TYPE_CHECKING:

        def __call__(cls, *url, **given):  # noqa: N805
            if url:
                if len(url) > 1 or "url" in given:
                    raise TypeError("Request takes one argument without a name: the URL")
                given["url"] = url[0]
            if not PARTS.isdisjoint(given):
                given = compose_fields(given)
            if "render" in given:
                given = _rendered_fields(given)
            return super().__call__(**given)


class Request(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    metaclass=_RequestType,
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
        "unique": "q",
        "again": "n",
        "found_on": "f",
        "found_on_url": "g",
        "chain": "c",
        "via": "v",
        "returned": "k",
        "series": "s",
        "exit_kind": "e",
        "country": "t",
        "level": "l",
        "escalated": "y",
        "render": "w",
    },
):
    """A request to fetch one URL. A handler yields it to have it fetched.

    Some arguments become part of the fields below: `params` (a dict) is added to the query of the URL;
    `json` (any value) or `form` (a dict) is the body, sent by POST unless `method` says otherwise;
    `auth=(user, password)` is the header Authorization; `cookies` (a dict) is the header Cookie, and those
    of the crawl are sent beside them. Contradictions raise `ValueError`.

    Headers go to the origin of the URL only: a redirect to another one loses all that may be secret. They
    are not archived, and leave the store when the request has ended.

    Two requests with the same method, URL and body are the same request: the second one is not fetched,
    unless it has `again=True` or another `unique`. At most `links.again` such requests in a row are
    followed from page to page; a longer chain counts as a trap.

    Example:

        yield shoal.Request("https://shop.example/search", form={"q": "fish"}, route="results")
    """

    url: str  # made canonical when the request is added to the frontier
    method: str = "GET"  # the HTTP method
    headers: Mapping[str, str] = {}  # for this request, in addition to the crawl's
    body: bytes = b""  # the body to send
    priority: int = NORMAL  # 1 (first) to 10 (last)
    pool: str = HTTP  # the worker pool that fetches it
    route: str = ""  # the name of the handler for the page; empty: chosen by URL
    data: dict[str, Any] = {}  # a small dict of the spider's own, passed on as `page.data`
    unique: str = ""  # part of its identity: the same URL with another text is another request
    again: int = 0  # True: fetch it even if it was fetched before; Shoal counts how many led here in a row
    depth: int = 0  # links between a start URL and this one; Shoal sets it
    found_on: int = 0  # the fingerprint of the page that yielded it; 0: a seed; Shoal sets it
    found_on_url: str = ""  # the URL of that page, if the spider asks for it; Shoal sets it
    exit_kind: str = ""  # the kind of exit to use, such as `residential`; empty: that of the host or crawl
    country: str = ""  # the country that the exit should be in, such as `de`; empty: as for `exit_kind`
    level: str = ""  # the client that fetches it: plain or impersonate; empty: that of the host or the crawl
    escalated: str = ""  # the level that it was raised to after a block or an empty page; Shoal sets it
    render: Rendering | None = None  # how a browser renders it; True as an argument: with the usual options
    chain: tuple[str, ...] = ()  # the URLs that redirected here, oldest first; Shoal sets it
    via: tuple[str, ...] = ()  # the URLs that redirected to the page that yielded it; Shoal sets it
    returned: bool = False  # a redirect led back here, as after a log-in; Shoal sets it
    series: int = 0  # links in a row that led here between URLs with other numbers only; Shoal sets it

    if TYPE_CHECKING:

        def __init__(
            self,
            url: str,
            *,
            method: str = "GET",
            params: Fields | None = None,
            json: Any = None,
            form: Fields | None = None,
            body: bytes = b"",
            headers: Mapping[str, str] = {},
            auth: tuple[str, str] | None = None,
            cookies: Mapping[str, str] | None = None,
            priority: int = NORMAL,
            pool: str = HTTP,
            route: str = "",
            data: dict[str, Any] = {},  # noqa: B006
            unique: str = "",
            again: int = 0,
            depth: int = 0,
            found_on: int = 0,
            found_on_url: str = "",
            exit_kind: str = "",
            country: str = "",
            level: str = "",
            escalated: str = "",
            render: Rendering | bool | None = None,
            chain: tuple[str, ...] = (),
            via: tuple[str, ...] = (),
            returned: bool = False,
            series: int = 0,
        ) -> None: ...


def _rendered_fields(given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a request with its argument `render`, and with the pool that renders pages."""
    render, fields = given["render"], {name: value for name, value in given.items() if name != "render"}
    if render is None or render is False:
        return fields
    if isinstance(render, Rendering):
        if reason := refuse_rendering(render):
            raise ValueError(f"render: {reason}")
        fields["render"] = render
    elif render is not True:
        raise TypeError(f"render takes True or a Rendering, not {render!r}")
    pool = fields.get("pool", HTTP)
    if pool != HTTP and not pool.startswith(BROWSER):
        raise ValueError(
            f"the pool {pool!r} renders nothing: leave it out, or name one that starts with {BROWSER!r}"
        )
    return {**fields, "pool": BROWSER if pool == HTTP else pool}


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


def with_rendering(request: Request, rendering: Rendering | None) -> Request:
    """Return the request as a crawl sends it that renders its pages; sitemaps and feeds are not rendered."""
    if rendering is None or request.pool != HTTP or request.route.startswith("shoal."):
        return request
    render = None if rendering == Rendering() else rendering
    return msgspec.structs.replace(request, pool=BROWSER, render=render)


def via_of(page: Request) -> tuple[str, ...]:
    """Return `Request.via` for the requests that a page yields; `page` is the page's own request.

    A form that was sent passes on what led to the page with the form: a log-in may have several steps.
    """
    return page.chain if page.method == "GET" else (*page.chain, *page.via)


def returnable(page: Request) -> tuple[str, ...]:
    """Return the URLs that only redirected, and that the response to a form may link to again."""
    return () if page.method == "GET" else page.via


def request_fingerprint(request: Request, key: bytes = b"") -> int:
    """Return the fingerprint of a request with a canonical URL, under the crawl's key.

    A URL that a redirect has led back to has one more: it is fetched once more, and never a third time.
    """
    method = f"{request.method} returned" if request.returned else request.method
    return fingerprint_of(method, request.url, request.body, key, unique=request.unique)


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
            request_fingerprint(request, key),
            host,
            min(max(request.priority, FIRST), LAST),
            pool,
            _pack(request) if packed is None else packed,
        )


_NO_DIGITS = str.maketrans("", "", "0123456789")


def without_digits(url: str) -> str:
    """Return what URLs of one series have in common (`Request.series`)."""
    return url.translate(_NO_DIGITS)


def trace_id(fingerprint: int) -> str:
    """Return the id of a request in logs and traces: the same in every process, on every machine."""
    return f"{fingerprint:016x}"
