"""A site with a branch per crawl: `/NAME/SIZE/` leads to SIZE - 1 pages below it.

Each page links to at most `FANOUT` others: page n to those from n * FANOUT + 1 on, where `/NAME/SIZE/` is 0.

Each page takes as many seconds as the specification of the site says.
"""

from tests.site.server import Answer, Site


def build(spec: str, authorities: list[str]) -> Site:
    """Make the site; the server process calls this."""
    return Branches(float(spec or 0))


FANOUT = 5_000  # fewer than the links that are taken from one page


class Branches:
    def __init__(self, delay: float) -> None:
        self._delay = delay

    def answer(self, host: int, path: str, now: float) -> Answer:
        match path.strip("/").split("/"):
            case ["robots.txt"]:
                return Answer(404, b"")
            case [name, size]:
                return Answer(200, f"<title>{name}</title>{links(name, size, 0)}".encode())
            case [name, size, number]:
                text = f"<title>{name} {number} of {size}</title>{links(name, size, int(number))}"
                return Answer(200, text.encode(), delay=self._delay)
        return Answer(404, b"")


def links(name: str, size: str, number: int) -> str:
    first = number * FANOUT + 1
    return "".join(
        f'<a href="/{name}/{size}/{n}">{n}</a>' for n in range(first, min(first + FANOUT, int(size)))
    )
