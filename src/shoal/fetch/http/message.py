"""Requests as bytes. What frames a message is written here only; callers' headers cannot touch it."""

import re
from functools import lru_cache

import msgspec

from shoal.model.errors import Rejected

Headers = tuple[tuple[str, str], ...]

_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "expect", "upgrade", "te"})
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BAD_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]")
_TARGET = re.compile(r"/[!\"$-~]*")  # printable ASCII without a fragment: what a canonical URL has anyway
_METHOD = re.compile(r"[A-Z]+")


class Message(msgspec.Struct, frozen=True):
    """A request, ready to be written."""

    url: str
    data: bytes
    head: bool  # its answer has no body
    ranged: bool  # its answer may be a part


def compose(method: str, url: str, authority: str, headers: Headers, body: bytes) -> Message:
    """Write a request for a canonical URL; raise `Rejected` for what cannot be sent."""
    target = url[url.find("/", 8) :]
    if _TARGET.fullmatch(target) is None or _METHOD.fullmatch(method) is None:
        raise Rejected("the request line would be malformed")
    block, ranged = _block(headers)
    framing = f"Content-Length: {len(body)}\r\n" if body or method in ("POST", "PUT", "PATCH") else ""
    head = f"{method} {target} HTTP/1.1\r\nHost: {authority}\r\n{block}{framing}\r\n"
    return Message(url, head.encode("latin-1") + body, method == "HEAD", ranged)


@lru_cache(maxsize=512)
def _block(headers: Headers) -> tuple[str, bool]:
    """Write header lines. Nearly every request of a crawl has the same ones, hence the cache."""
    lines = []
    ranged = False
    for name, value in headers:
        if _NAME.fullmatch(name) is None or _BAD_VALUE.search(value) is not None:
            raise Rejected(f"header {name[:64]!r} cannot be sent")
        if name.lower() not in _OURS:
            lines.append(f"{name}: {value.strip()}\r\n")
            ranged = ranged or name.lower() == "range"
    return "".join(lines), ranged
