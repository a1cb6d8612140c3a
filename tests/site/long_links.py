"""A site whose pages have links that are nearly as long as a URL may be."""

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
            name, tail = path.removeprefix("/page/"), "y" * shape.length
            return _page(f"/missing/{name}/{number}/{tail}" for number in range(shape.links))
        return Answer(404, b"")


def _page(hrefs: Iterator[str]) -> Answer:
    return Answer(200, "".join(f'<a href="{href}">x</a>' for href in hrefs).encode())
