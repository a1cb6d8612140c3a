"""A site whose pages link to URLs that were chosen by their fingerprints."""

from collections.abc import Iterator
from hashlib import sha256
from itertools import count, islice

from tests.site.server import Answer, Site

# A shard of the seen-set on Redis has one bucket per 200 fingerprints. Those that begin with these bits are all in
# bucket 9 of 32 until it is split, when the shard has 8,200 of them; then all of them move.
PREFIX = "100101"
PER_PAGE = 9_000


def chosen(origin: str, number: int) -> list[str]:
    """Return paths whose URLs have unkeyed fingerprints with the prefix. 8,000 take half a second."""
    return list(islice(_chosen(origin), number))


def _chosen(origin: str) -> Iterator[str]:
    begun, wanted, shift = sha256(f"GET {origin}/".encode()), int(PREFIX, 2), 8 - len(PREFIX)
    for n in count():
        tried = begun.copy()
        tried.update(b"%x\n" % n)
        if tried.digest()[0] >> shift == wanted:
            yield f"/{n:x}"


def build(spec: str, authorities: list[str]) -> Site:
    """Make the site with that many links; the server process calls this."""
    return ChosenSite(chosen(f"http://{authorities[0]}", int(spec)))


class ChosenSite:
    def __init__(self, paths: list[str]) -> None:
        self._pages = [paths[first : first + PER_PAGE] for first in range(0, len(paths), PER_PAGE)]

    def answer(self, host: int, path: str, now: float) -> Answer:
        if path == "/":
            return _page(f"/list/{n}" for n in range(len(self._pages)))
        if path.startswith("/list/"):
            return _page(self._pages[int(path.removeprefix("/list/"))])
        return Answer(404, b"")


def _page(links: Iterator[str] | list[str]) -> Answer:
    anchors = "".join(f'<a href="{link}"></a>' for link in links)
    return Answer(200, f"<!doctype html>{anchors}".encode())
