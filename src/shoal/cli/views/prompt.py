"""A Python prompt around one page."""

import json
import sys
from code import InteractiveConsole
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from shoal.cli.views.format import size
from shoal.cli.views.output import put, tell
from shoal.model.request import Request
from shoal.spider.html.links import Links
from shoal.spider.html.selector import Selector, SelectorList
from shoal.spider.page import Page

HELP = """\
page              the page: .url .status .headers .text .css() .xpath() .links() .json()
css(query)        select by CSS, for example css("h1::text").get()
xpath(query)      select by XPath
links(query)      where the page, or a part of it, leads
fetch(url)        load another page
Ctrl-D leaves. What you type runs as your own code, in this process."""


class Prompt:
    """Evaluates what a person types; `page` is the page that was loaded last."""

    def __init__(self, load: Callable[[str], Page], *, as_json: bool = False) -> None:
        self._load = load
        self._as_json = as_json
        self._names: dict[str, Any] = {"fetch": self.open}

    def open(self, place: str) -> None:
        """Load a page and say what came."""
        page = self._load(place)
        self._names.update(page=page, css=page.css, xpath=page.xpath, links=page.links)
        tell(f"{page.url}: status {page.status}, {page.kind.name.lower()}, {size(len(page.body))}")

    def converse(self) -> None:
        """Talk to a person at a terminal until they leave."""
        import readline  # noqa: F401 - gives input() editing and history

        with _showing(self._show):
            InteractiveConsole(self._names).interact(banner=HELP, exitmsg="")

    def answer(self, lines: Iterable[str]) -> bool:
        """Evaluate lines and print what they give; False: one of them failed, and the rest was left."""
        console = _Lines(self._names)
        with _showing(self._show):
            for console.number, line in enumerate(lines, 1):
                console.push(line.rstrip("\n"))
                if console.failed:
                    return False
            console.push("")  # ends a block that the input has left open
        return not console.failed

    def _show(self, value: object) -> None:
        if value is None:
            return
        value = plain(value)
        if self._as_json:
            put(json.dumps(value, default=str))
        else:
            put("\n".join(map(_text, value)) if isinstance(value, list) else _text(value))


class _Lines(InteractiveConsole):
    """Tells in one line what went wrong, and where."""

    number = 0
    failed = False

    def showsyntaxerror(self, filename: str | None = None, **_: object) -> None:
        self.showtraceback()

    def showtraceback(self) -> None:
        error = sys.exc_info()[1]
        self.failed = True
        tell(f"line {self.number}: {type(error).__name__}: {error}")


def plain(value: object) -> object:
    """Make of a result what a person wants to see: text for selectors, URLs for links."""
    match value:
        case SelectorList():
            return value.getall()
        case Selector():
            return value.get()
        case Links():
            return list(value.urls)
        case Request():
            return value.url
    return value


def _text(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    # A page must not steer a terminal; line breaks are harmless and wanted.
    return "".join(one if one.isprintable() or one == "\n" else repr(one)[1:-1] for one in text)


@contextmanager
def _showing(show: Callable[[object], None]) -> Iterator[None]:
    before, sys.displayhook = sys.displayhook, show
    try:
        yield
    finally:
        sys.displayhook = before
