"""A site that gives a crawl its work in bursts: an index on one host, whose pages link to many other hosts.

The specification is JSON, see `BurstSpec`. The robots.txt of the index asks for a pause between its pages, so
a polite crawler gets the links of one index page at a time.
"""

import msgspec
from tests.site.server import Answer, Site


class BurstSpec(msgspec.Struct, frozen=True):
    bursts: int  # index pages
    pages: int  # that each of them links to
    pause_s: float  # between two index pages
    latency_s: float  # of a page


def build(spec: str, authorities: list[str]) -> Site:
    """Make the site; the server process calls this. The first host has the index."""
    return Bursts(msgspec.json.decode(spec, type=BurstSpec), authorities)


class Bursts:
    def __init__(self, spec: BurstSpec, authorities: list[str]) -> None:
        self._spec = spec
        self._hosts = authorities

    def answer(self, host: int, path: str, now: float) -> Answer:
        match path.strip("/").split("/"):
            case ["robots.txt"] if host == 0:
                text = f"User-agent: *\nCrawl-delay: {self._spec.pause_s:g}\n"
                return Answer(200, text.encode(), content_type="text/plain")
            case ["index", number] if host == 0:
                return Answer(200, "".join(self._links(int(number))).encode())
            case ["page", burst, number] if host > 0:
                title = f"<title>page {number} of burst {burst}</title>"
                return Answer(200, title.encode(), delay=self._spec.latency_s)
        return Answer(404, b"")

    def _links(self, burst: int) -> list[str]:
        hosts = self._hosts[1:]
        links = [
            f'<a href="http://{hosts[number % len(hosts)]}/page/{burst}/{number}">{number}</a>'
            for number in range(self._spec.pages)
        ]
        if burst + 1 < self._spec.bursts:
            links.append(f'<a href="http://{self._hosts[0]}/index/{burst + 1}">next</a>')
        return links
