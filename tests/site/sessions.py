"""A site that puts a new session id into every link, so that one page has any number of addresses.

`spec` says where: in the query, in the path, as letters only, or in the name of the host. The products of the
shop have no session and differ.
"""

import hashlib

from tests.site.server import Answer, Site

PRODUCTS = 300
LINKS = 4  # of each page of the trap
_TEXT = "Welcome to our shop. " * 10


def build(spec: str, authorities: list[str]) -> Site:
    """Make the site; the server process calls this."""
    return SessionSite(spec, authorities[0])


class SessionSite:
    def __init__(self, where: str, authority: str) -> None:
        self._where = where
        self._port = authority.rpartition(":")[2]
        self._served = 0

    def answer(self, host: int, path: str, now: float) -> Answer:
        if path == "/":
            return _page("Hello", [self._session(), "/product/1"])
        if path == "/robots.txt":
            return Answer(404, b"")
        if path.startswith("/product/"):
            number = int(path.removeprefix("/product/"))
            following = [n for n in (2 * number, 2 * number + 1) if n <= PRODUCTS]
            return _page(f"Product number {number}", [f"/product/{n}" for n in following])
        return _page(_TEXT, [self._session() for _ in range(LINKS)])

    def _session(self) -> str:
        self._served += 1
        id = hashlib.sha256(b"%d" % self._served).hexdigest()[:24]
        match self._where:
            case "query":
                return f"/home?sid={id}"
            case "path":
                return f"/s/{id}/home"
            case "matrix":
                return f"/home;jsessionid={id}"
            case "letters":
                return f"/s/{id.translate(_LETTERS)}/home"
            case "host":
                return f"http://h{id}.wild.example.com:{self._port}/home"
        raise ValueError(self._where)


_LETTERS = str.maketrans("0123456789", "ghijklmnop")


def _page(text: str, links: list[str]) -> Answer:
    anchors = "".join(f'<a href="{link}">more</a>' for link in links)
    return Answer(200, f"<!doctype html><p>{text}</p>{anchors}".encode())
