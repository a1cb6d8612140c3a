"""A Python prompt with one page loaded."""

import json
import sys
from code import InteractiveConsole
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from shoal.cli.views.format import size
from shoal.cli.views.output import print_json, print_lines, print_message
from shoal.model.request import Request
from shoal.spider.html.links import Links
from shoal.spider.html.selector import Selector, SelectorList
from shoal.spider.page import Page

HELP = """\
page              the page: .url .status .headers .text .css() .xpath() .links() .json()
css(query)        select by CSS, for example css("h1::text").get()
xpath(query)      select by XPath
links(query)      links of the page, or of a part of it
fetch(url)        load another page
Ctrl-D exits. What you type runs as your code, in this process."""


class Prompt:
    """Evaluates what the user types; `page` is the page that was loaded last."""

    def __init__(self, load: Callable[[str], Page], *, as_json: bool = False) -> None:
        self._load = load
        self._as_json = as_json
        self._names: dict[str, Any] = {"fetch": self.open}

    def open(self, place: str) -> None:
        """Load a page and print its status and size."""
        page = self._load(place)
        self._names.update(page=page, css=page.css, xpath=page.xpath, links=page.links)
        print_message(f"{page.url}: status {page.status}, {page.kind.name.lower()}, {size(len(page.body))}")

    def interact(self) -> None:
        """Read from the terminal until the user exits."""
        import readline  # noqa: F401 - gives input() editing and history

        with _display_with(self._show):
            InteractiveConsole(self._names).interact(banner=HELP, exitmsg="")

    def evaluate(self, lines: Iterable[str]) -> bool:
        """Evaluate lines and print their values; stop at the first that fails and return False."""
        console = _Lines(self._names)
        with _display_with(self._show):
            for console.number, line in enumerate(lines, 1):
                console.push(line.rstrip("\n"))
                if console.failed:
                    return False
            console.push("")  # ends an open block
        return not console.failed

    def _show(self, value: object) -> None:
        if value is None:
            return
        value = plain(value)
        if self._as_json:
            print_json(json.loads(json.dumps(value, default=str)))
        else:
            print_lines(
                line for one in (value if isinstance(value, list) else [value]) for line in _text(one)
            )


class _Lines(InteractiveConsole):
    """Reports an error as one line with its line number."""

    number = 0
    failed = False

    def showsyntaxerror(self, filename: str | None = None, **_: object) -> None:
        self.showtraceback()

    def showtraceback(self) -> None:
        error = sys.exc_info()[1]
        self.failed = True
        print_message(f"line {self.number}: {type(error).__name__}: {error}")


def plain(value: object) -> object:
    """Return a result in the form to print: text for selectors, URLs for links."""
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


def _text(value: object) -> list[str]:
    """Return a value as lines: the line breaks of a page are part of what the user asked for."""
    return (value if isinstance(value, str) else repr(value)).split("\n")


@contextmanager
def _display_with(show: Callable[[object], None]) -> Iterator[None]:
    before, sys.displayhook = sys.displayhook, show
    try:
        yield
    finally:
        sys.displayhook = before
