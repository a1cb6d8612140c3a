"""`shoal try`: one URL through fetch and handler, without touching any crawl."""

from typing import Annotated

import typer

from shoal.cli.commands.inspect.shell import AllowPrivate, Robots, UserAgent
from shoal.cli.input.options import Arguments, Config, Json, Verbose, examples, option, setting

EXAMPLES = examples(
    ("What a spider makes of a page", "shoal try books.py https://books.toscrape.com/"),
    ("Its first start URL", "shoal try books.py"),
    (
        "With a handler that another URL pattern chooses",
        "shoal try books.py https://a.example/x --handler book",
    ),
    ("Fields by CSS selector, without a spider", "shoal try https://a.example/ --item name=h1 --render"),
    ("The items alone", "shoal try books.py https://books.toscrape.com/ --json | jq .items"),
)

SpiderArgument = Annotated[
    str,
    typer.Argument(
        metavar="SPIDER",
        help="books.py, books.py:name, books.toml or module:name; with --item, a URL.",
        show_default=False,
    ),
]
UrlArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[URL]", help="The page. Default: the spider's first start URL.", show_default=False
    ),
]
ItemFields = Annotated[
    list[str] | None,
    option("--item", "NAME=CSS", "A field of the record: text of the first match; repeatable."),
]
Render = Annotated[bool | None, setting("--render", "", "crawl.render")]
HandlerName = Annotated[
    str | None, option("--handler", "NAME", "The handler to run.", default="chosen by URL, as in a crawl")
]


def command(
    spider: SpiderArgument,
    url: UrlArgument = None,
    *,
    argument: Arguments = None,
    handler: HandlerName = None,
    item: ItemFields = None,
    render: Render = None,
    robots: Robots = None,
    allow_private: AllowPrivate = None,
    user_agent: UserAgent = None,
    config: Config = None,
    json: Json = False,
    verbose: Verbose = 0,
) -> int:
    """Run one URL through fetch and handler, and show what comes of it.

    Touches no crawl and stores nothing. Shows items, requests, links that are not followed, selectors that
    match nothing, whether the page is empty without JavaScript, and where the time went.
    """
    from shoal.cli.input.settings_loader import load_settings
    from shoal.cli.input.target import read_target
    from shoal.cli.process.exit_codes import ExitCode
    from shoal.cli.process.log_format import start_logging
    from shoal.cli.views.output import print_json, print_lines
    from shoal.cli.views.tried import tried_lines
    from shoal.model.errors import Misconfigured

    if "://" in spider and not item:
        raise Misconfigured(
            "shoal try takes a spider, then a URL: shoal try books.py https://example.com/; or a URL and"
            " --item: shoal try https://example.com/ --item title=h1"
        )
    if "://" in spider and url:
        raise Misconfigured(f"shoal try takes one URL; {url!r} is another one")
    flags = {
        "crawl.robots": robots,
        "crawl.allow_private": allow_private,
        "crawl.user_agent": user_agent,
        "crawl.render": render,
    }
    loaded = load_settings({key: value for key, value in flags.items() if value is not None}, config=config)
    target = read_target([spider, *([url] if url else [])], item or (), arguments=argument or ())
    start_logging(verbose=verbose, quiet=json)

    import uvloop

    from shoal.services.inspect.try_page import tried_json, try_page

    wanted = target.seeds[0] if target.seeds else ""
    tried = uvloop.run(
        try_page(target.source, wanted, loaded.settings, loaded.overrides, handler=handler or "")
    )
    if json:
        print_json(tried_json(tried))
    else:
        print_lines(tried_lines(tried))
    return ExitCode.DEAD_LETTERS if tried.problem or tried.rejected else ExitCode.FINISHED
