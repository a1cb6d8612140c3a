"""A Python prompt with one page loaded."""

import json
import os
import sys
import tempfile
import webbrowser
from code import InteractiveConsole
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shoal.cli.views.format import size
from shoal.cli.views.output import print_json, print_lines, print_message
from shoal.model.request import Request
from shoal.spider.html.links import Links
from shoal.spider.html.selector import Selector, SelectorList
from shoal.spider.page import Page
from shoal.spider.spider import Spider
from shoal.spider.text.content_type import ContentKind

HELP = """\
page              the page: .url .status .headers .text .css() .xpath() .links() .json()
css(query)        select by CSS, for example css("h1::text").get()
xpath(query)      select by XPath
links(query)      links of the page, or of a part of it
fetch(url)        load another page
view()            open the page in a browser, or print where it was saved
Ctrl-D exits. What you type runs as your code, in this process."""


SPIDER_HELP = """
spider            the spider; its handlers by name: {handlers}
run()             run the handler that the URL of the page chooses"""


class Prompt:
    """Evaluates what the user types; `page` is the page that was loaded last."""

    def __init__(self, load: Callable[[str], Page], *, as_json: bool = False) -> None:
        self._load = load
        self._as_json = as_json
        self._names: dict[str, Any] = {"fetch": self.open, "view": self.view}
        self._help = HELP

    def open(self, place: str) -> None:
        """Load a page and print its status and size."""
        page = self._load(place)
        self._names.update(page=page, css=page.css, xpath=page.xpath, links=page.links)
        print_message(f"{page.url}: status {page.status}, {page.kind.name.lower()}, {size(len(page.body))}")

    def use(self, spider: Spider) -> None:
        """Make a spider and its handlers available; names of the prompt itself win."""
        handlers = {
            name: _listing(route.handler) for name, route in spider.routes.items() if name.isidentifier()
        }
        self._names = {**handlers, **self._names, "spider": spider, "run": lambda: self._run(spider)}
        self._help += SPIDER_HELP.format(handlers=", ".join(handlers))

    def _run(self, spider: Spider) -> object:
        page: Page = self._names["page"]
        route = spider.route_for(page.request, page.url)
        return None if route is None else _listing(route.handler)(page)

    def view(self) -> str:
        """Save the page, open it in a browser if there is one, and return the path of the file."""
        page: Page = self._names["page"]
        suffix = ".html" if page.kind is ContentKind.HTML else f".{page.kind.name.lower()}"
        with tempfile.NamedTemporaryFile(prefix="shoal-page-", suffix=suffix, delete=False) as file:
            file.write(page.body)
        if sys.stdin.isatty() and any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")):
            webbrowser.open(Path(file.name).as_uri())
        return file.name

    def interact(self) -> None:
        """Read from the terminal until the user exits."""
        import readline  # noqa: F401 - gives input() editing and history

        with _display_with(self._show):
            InteractiveConsole(self._names).interact(banner=self._help, exitmsg="")

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


def _listing(handler: Callable[[Any], object]) -> Callable[[Page], object]:
    """Return a handler that returns a list where it is a generator: a prompt shows no generator."""

    def call(page: Page) -> object:
        returned = handler(page)
        return list(returned) if isinstance(returned, Iterator) else returned

    return call


def plain(value: object) -> object:
    """Return a result in the form to print: text for selectors, URLs for links."""
    match value:
        case list() if type(value) is list:
            return [one for part in map(plain, value) for one in (part if isinstance(part, list) else [part])]
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
