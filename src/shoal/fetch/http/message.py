"""Encode requests as bytes. Only this module writes framing headers; callers cannot override them."""

import re
from functools import lru_cache

import msgspec

from shoal.model.errors import Rejected

Headers = tuple[tuple[str, str], ...]

_OURS = frozenset(
    [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "expect",
        "upgrade",
        "te",
        "proxy-authorization",  # of exits, and for them alone
        "proxy-connection",
    ]
)
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BAD_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]")
_TARGET = re.compile(r"/[!\"$-~]*")  # printable ASCII without a fragment, as in every canonical URL
_METHOD = re.compile(r"[A-Z]+")
_VALIDATORS = frozenset({"If-None-Match", "If-Modified-Since"})


class EncodedRequest(msgspec.Struct, frozen=True):
    """A request as bytes."""

    url: str
    data: bytes
    head: bool  # a HEAD request: the response has no body
    ranged: bool  # has a Range header: the response may be partial
    first_bytes: int = 0  # of the body that are wanted; 0: all


def compose(
    method: str, url: str, authority: str, headers: Headers, body: bytes, *, first_bytes: int = 0
) -> EncodedRequest:
    """Encode a request for a canonical URL. Raises `Rejected` if it cannot be sent."""
    target = url[url.find("/", 8) :]
    if _TARGET.fullmatch(target) is None or _METHOD.fullmatch(method) is None:
        raise Rejected("the request line would be malformed")
    block, ranged = _blocks(headers)
    framing = f"Content-Length: {len(body)}\r\n" if body or method in ("POST", "PUT", "PATCH") else ""
    head = f"{method} {target} HTTP/1.1\r\nHost: {authority}\r\n{block}{framing}\r\n"
    return EncodedRequest(url, head.encode("latin-1") + body, method == "HEAD", ranged, first_bytes)


def _blocks(headers: Headers) -> tuple[str, bool]:
    """Return the header lines, and whether one is Range. Validators stand last, and differ by page."""
    usual = len(headers)
    while usual and headers[usual - 1][0] in _VALIDATORS:
        usual -= 1
    block, ranged = _block(headers[:usual])
    return block + "".join(_line(name, value) for name, value in headers[usual:]), ranged


def _line(name: str, value: str) -> str:
    if _NAME.fullmatch(name) is None or _BAD_VALUE.search(value) is not None:
        raise Rejected(f"header {name[:64]!r} cannot be sent")
    return f"{name}: {value.strip()}\r\n"


@lru_cache(maxsize=512)
def _block(headers: Headers) -> tuple[str, bool]:
    """Return the header lines, and whether one is Range. Cached: most requests of a crawl have the same."""
    lines = []
    ranged = False
    for name, value in headers:
        line = _line(name, value)
        if name.lower() not in _OURS:
            lines.append(line)
            ranged = ranged or name.lower() == "range"
    return "".join(lines), ranged
