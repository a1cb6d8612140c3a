"""`shoal shell`: load one page and try selectors at a Python prompt.

What the user types runs in this process with all its rights. Nothing of the page is executed.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import Config, Json, examples, option, setting
from shoal.model.errors import Misconfigured

if TYPE_CHECKING:
    from shoal.model.settings import Settings
    from shoal.spider.page import Page

EXAMPLES = examples(
    ("Try selectors on a page", "shoal shell https://books.toscrape.com/"),
    ("On a saved page", "shoal shell pages/book.html --url https://books.toscrape.com/"),
    ("One expression, in a script", "echo 'css(\"h1::text\").get()' | shoal shell https://example.com/"),
)

Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="A URL to fetch, or a file.", show_default=False)
]
Url = Annotated[
    str | None, option("--url", "URL", "The URL that a file was saved from; its links are relative to it.")
]
Robots = Annotated[bool | None, setting("--robots/--no-robots", "", "crawl.robots", default="yes")]
AllowPrivate = Annotated[bool | None, setting("--allow-private", "", "crawl.allow_private")]
UserAgent = Annotated[
    str | None, setting("--user-agent", "TEXT", "crawl.user_agent", default="Shoal, version and contact")
]


def command(
    target: Target,
    *,
    url: Url = None,
    robots: Robots = None,
    allow_private: AllowPrivate = None,
    user_agent: UserAgent = None,
    config: Config = None,
    json: Json = False,
) -> int:
    """Load one page and try selectors on it, at a Python prompt.

    Fetches once, with the limits of a crawl. Without a terminal, reads expressions from standard input and
    prints their values; stops at the first that fails.
    """
    from shoal.cli.input.settings_loader import load_settings
    from shoal.cli.process.exit_codes import ExitCode
    from shoal.cli.views.prompt import Prompt

    flags = {
        "crawl.robots": robots,
        "crawl.allow_private": allow_private,
        "crawl.user_agent": user_agent,
    }
    set_flags = {key: value for key, value in flags.items() if value is not None}
    settings = load_settings(set_flags, config=config).settings

    def load(place: str) -> "Page":
        return load_page(place, url or "", settings)

    prompt = Prompt(load, as_json=json)
    prompt.open(target)
    if sys.stdin.isatty():
        prompt.interact()
        return ExitCode.FINISHED
    return ExitCode.FINISHED if prompt.evaluate(sys.stdin) else ExitCode.USAGE


def load_page(place: str, url: str, settings: "Settings") -> "Page":
    """Fetch a page, or read it from a file."""
    from shoal.spider.page import Page

    if "://" not in place:
        return _read_file(Path(place), url)
    if url:
        raise Misconfigured("--url is for files: it names the URL that a file was saved from")

    import uvloop

    from shoal.services.inspect.one_page import look_at

    return Page(uvloop.run(look_at(place, settings)))


def _read_file(path: Path, url: str) -> "Page":
    from mimetypes import guess_type

    from shoal.spider.page import Page

    try:
        body = path.read_bytes()
    except OSError as error:
        hint = "" if path.exists() or "." not in path.name else f"; did you mean https://{path} ?"
        raise Misconfigured(f"{path}: cannot be read: {error.strerror or error}{hint}") from None
    kind = guess_type(path.name)[0] or "text/html"
    return Page.of(body, url=url or "https://page.example/", content_type=kind)
