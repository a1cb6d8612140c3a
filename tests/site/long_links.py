"""A site whose pages have links that are nearly as long as a URL may be.

Large pages travel compressed: on the wire they are far below the limit of a body, in memory they are not.
"""

import gzip
import hashlib
from collections.abc import Iterator

import msgspec
from tests.site.server import Answer, Site


class Shape(msgspec.Struct, frozen=True):
    pages: int
    links: int  # of each page
    length: int  # of the path of each link


def build(spec: str, authorities: list[str]) -> Site:
    """Make the site that `spec` (a shape as JSON) describes; the server process calls this."""
    return LongLinks(msgspec.json.decode(spec, type=Shape))


class LongLinks:
    """`/` links to the pages `/page/N`; the pages link to others that do not exist."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def answer(self, host: int, path: str, now: float) -> Answer:
        shape = self._shape
        if path == "/":
            return _page(f"/page/{number}" for number in range(shape.pages))
        if path.startswith("/page/"):
            name = path.removeprefix("/page/")
            return _page(f"/missing/{name}/{number}/{_tail(number, shape)}" for number in range(shape.links))
        return Answer(404, b"")


def _tail(number: int, shape: Shape) -> str:
    """Return the end of a path, which compresses far but not as far as a bomb."""
    digest = hashlib.sha256(b"%d" % number).hexdigest()
    return (digest * (shape.length // len(digest) + 1))[: shape.length]


def _page(hrefs: Iterator[str]) -> Answer:
    body = "".join(f'<a href="{href}">x</a>' for href in hrefs).encode()
    return Answer(200, gzip.compress(body, 6), (("Content-Encoding", "gzip"),))
