"""A site with a part that has no end: the same page under every number, beside books that differ.

The page counts its visitors, so no two answers are equal.
"""

import random

from tests.site.server import Answer, Site

BOOKS = 250
NUMBERED = 2_000
_SAME = " ".join(["come", "in", "and", "find", "out"] * 20)


def build(spec: str, authorities: list[str]) -> Site:
    """Make the site; the server process calls this."""
    return MazeSite()


class MazeSite:
    def __init__(self) -> None:
        self._visitors = 0

    def answer(self, host: int, path: str, now: float) -> Answer:
        _, name, *rest = path.split("/")
        match name:
            case "":
                return _page("Two ways", "/maze/1", "/book/1")
            case "maze":
                number = int(rest[0])
                self._visitors += 1
                return _page(
                    f"{_SAME} visitor {7_919 * self._visitors}",
                    f"/maze/{2 * number}",
                    f"/maze/{2 * number + 1}",
                )
            case "book":
                number = int(rest[0])
                next_ones = [n for n in (2 * number, 2 * number + 1) if n <= BOOKS]
                return _page(_prose(number), *(f"/book/{n}" for n in next_ones))
            case "numbers":
                return _page("All of them", *(f"/number/{n}" for n in range(NUMBERED)))
            case "number":
                return _page("A number")
        return Answer(404, b"")


def _page(text: str, *links: str) -> Answer:
    anchors = "".join(f'<a href="{link}"></a>' for link in links)
    return Answer(200, f"<!doctype html><p>{text}</p>{anchors}".encode())


def _prose(number: int) -> str:
    rng = random.Random(number)
    return " ".join(f"word{rng.randrange(1000)}" for _ in range(100))
