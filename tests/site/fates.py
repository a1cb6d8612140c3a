"""A site of two hosts whose pages meet every fate: done, retried, dead, gone, disallowed, and one that waits."""

from collections import Counter

from tests.site.server import Answer, Site

LINKS = ("/done", "/retried", "/dead", "/gone", "/private/page")
ROBOTS = b"User-agent: *\nDisallow: /private/\n"


def build(spec: str, authorities: list[str]) -> Site:
    """Make the site; the server process calls this."""
    return FatesSite(authorities)


class FatesSite:
    def __init__(self, authorities: list[str]) -> None:
        links = [*LINKS, f"http://{authorities[1]}/waiting"]
        self._start = "<title>Start</title>" + "".join(f'<a href="{link}">x</a>' for link in links)
        self._asked: Counter[str] = Counter()

    def answer(self, host: int, path: str, now: float) -> Answer:
        self._asked[path] += 1
        match path:
            case "/robots.txt":
                return Answer(200, ROBOTS, content_type="text/plain")
            case "/":
                return Answer(200, self._start.encode())
            case "/retried" if self._asked[path] <= 2:
                return Answer(503, b"busy")
            case "/dead":
                return Answer(500, b"broken")
            case "/gone":
                return Answer(404, b"no such page")
        return Answer(200, b"<title>Page</title>", delay=0.02)
