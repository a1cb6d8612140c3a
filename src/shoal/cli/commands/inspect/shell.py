"""`shoal shell`: load one page and try selectors at a Python prompt.

What the user types runs in this process with all its rights. Nothing of the page is executed.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import Arguments, Config, Json, examples, option, setting
from shoal.model.errors import Misconfigured

if TYPE_CHECKING:
    from shoal.cli.views.prompt import Prompt
    from shoal.model.settings import Settings
    from shoal.spider.page import Page

EXAMPLES = examples(
    ("Try selectors on a page", "shoal shell https://books.toscrape.com/"),
    ("With your spider's handlers", "shoal shell books.py https://books.toscrape.com/"),
    ("A page that scripts fill", "shoal shell --render https://app.example/"),
    ("On a saved page", "shoal shell pages/book.html --url https://books.toscrape.com/"),
    ("One expression, in a script", "echo 'css(\"h1::text\").get()' | shoal shell https://example.com/"),
)

Target = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="A URL to fetch, a file, or a spider.", show_default=False),
]
PageArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[PAGE]",
        help="With a spider: the URL or file. Default: its first start URL.",
        show_default=False,
    ),
]
Url = Annotated[
    str | None, option("--url", "URL", "The URL that a file was saved from; its links are relative to it.")
]
Robots = Annotated[bool | None, setting("--robots/--no-robots", "", "crawl.robots", default="yes")]
Render = Annotated[
    bool, option("--render", "", "Render the page in Chromium first; also page.screenshot, page.pdf.")
]
AllowPrivate = Annotated[bool | None, setting("--allow-private", "", "crawl.allow_private")]
UserAgent = Annotated[
    str | None, setting("--user-agent", "TEXT", "crawl.user_agent", default="Shoal, version and contact")
]


def command(
    target: Target,
    page: PageArgument = None,
    *,
    argument: Arguments = None,
    url: Url = None,
    render: Render = False,
    robots: Robots = None,
    allow_private: AllowPrivate = None,
    user_agent: UserAgent = None,
    config: Config = None,
    json: Json = False,
) -> int:
    """Load one page and try selectors on it, at a Python prompt.

    Fetches once, with the limits of a crawl. A spider's handlers are available by their names. Without a
    terminal, reads expressions from standard input and prints their values; stops at the first that fails.
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
        return load_page(place, url or "", settings, render=render)

    prompt = Prompt(load, as_json=json)
    prompt.open(
        _use_spider(prompt, target, page, argument or ()) if is_spider(target) else _only(target, page)
    )
    if sys.stdin.isatty():
        prompt.interact()
        return ExitCode.FINISHED
    return ExitCode.FINISHED if prompt.evaluate(sys.stdin) else ExitCode.USAGE


def is_spider(target: str) -> bool:
    """Return whether TARGET names a spider, not a page."""
    from shoal.cli.input.target import names_file, names_module

    return "://" not in target and (names_file(target) or names_module(target))


def _only(target: str, page: str | None) -> str:
    if page is not None:
        raise Misconfigured(f"{target!r} is not a spider: name one page, or a spider and then a page")
    return target


def _use_spider(prompt: "Prompt", target: str, page: str | None, arguments: Sequence[str]) -> str:
    """Load a spider into this process, as what the user types is; return the page to open."""
    from shoal.cli.input.target import read_target
    from shoal.spider.source import load

    spider = load(read_target([target], arguments=arguments).source)
    prompt.use(spider)
    if page is None and not spider.start:
        raise Misconfigured(f"spider {spider.name!r} has no start URL: name a page: shoal shell {target} URL")
    return page or spider.start[0].url


def load_page(place: str, url: str, settings: "Settings", *, render: bool = False) -> "Page":
    """Fetch a page, or read it from a file."""
    from shoal.model.rendering import Rendering
    from shoal.spider.page import Page

    if "://" not in place:
        if render:
            raise Misconfigured("--render is for URLs: a file is shown as it was saved")
        return _read_file(Path(place), url)
    if url:
        raise Misconfigured("--url is for files: it names the URL that a file was saved from")

    import uvloop

    from shoal.services.inspect.one_page import look_at

    rendering = Rendering(screenshot=True, pdf=True) if render else None
    return Page(uvloop.run(look_at(place, settings, render=rendering)))


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
