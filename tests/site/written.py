"""A site that is written down page by page."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import msgspec
from tests.site.server import Answer, ServedSite, Site, serving


@dataclass(frozen=True, slots=True)
class Sheet:
    """One page as the test wants it answered."""

    body: str = ""
    status: int = 200
    headers: list[tuple[str, str]] = field(default_factory=list)


def serving_written(sheets: dict[str, Sheet]) -> AbstractAsyncContextManager[ServedSite]:
    """Serve these pages by path on one host; every other path is a 404."""
    return serving("tests.site.written:build", msgspec.json.encode(sheets).decode(), hosts=1)


def build(spec: str, authorities: list[str]) -> Site:
    """Make the site of `spec` (pages by path as JSON); the server process calls this."""
    return WrittenSite(msgspec.json.decode(spec, type=dict[str, Sheet]))


def _start(path: str) -> str:
    return "" if path == "/robots.txt" else "<!doctype html>"


class WrittenSite:
    def __init__(self, sheets: dict[str, Sheet]) -> None:
        self._answers = {
            path: Answer(sheet.status, f"{_start(path)}{sheet.body}".encode(), tuple(sheet.headers))
            for path, sheet in sheets.items()
        }

    def answer(self, host: int, path: str, now: float) -> Answer:
        return self._answers.get(path, Answer(404, b""))
