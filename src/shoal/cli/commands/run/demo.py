"""`shoal demo`: crawl a small shop on this machine and watch, or keep the shop open."""

from typing import Annotated

import typer

from shoal.cli.input.options import Json, Quiet, examples, option
from shoal.model.errors import Misconfigured

EXAMPLES = examples(
    ("Watch", "shoal demo"),
    ("Inspect the result", "shoal status --store shoal-demo"),
    ("See what happens at a site that does not like crawlers", "shoal demo --wall"),
    ("Watch in a browser, on the dashboard", "shoal demo --watch"),
    ("Keep the shop open, and try a spider of your own on it", "shoal demo --serve"),
)

Serve = Annotated[bool, option("--serve", "", "Keep the shop open until Ctrl-C, and print a spider for it.")]
WallShop = Annotated[
    bool,
    option(
        "--wall",
        "",
        "Crawl a shop with a rate limit, a challenge and JavaScript pages, and say what was done.",
    ),
]
Watch = Annotated[
    bool, option("--watch", "", "Open the dashboard in a browser, and keep it open until Ctrl-C.")
]
Port = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        max=65_535,
        help="With --serve: its port; 0 is any free one. [dim]Default: 8000, or a free one.[/dim]",
        show_default=False,
    ),
]


def command(
    *,
    serve: Serve = False,
    watch: Watch = False,
    wall: WallShop = False,
    port: Port = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Crawl a small shop on this machine, and watch.

    Takes about 15 seconds and sends nothing beyond this machine. Replaces ./shoal-demo. With --serve it
    crawls nothing: the shop stays open for your own spider. With --watch it crawls for a minute, and the
    dashboard shows it. With --wall it crawls a shop that does not like to be crawled.
    """
    if serve + watch + wall > 1:
        raise Misconfigured("--serve, --watch and --wall do different things: give one of them")
    if serve:
        from shoal.cli.demo.serve import serve_shop

        return serve_shop(port, quiet=quiet, json=json)
    if wall:
        from shoal.cli.demo.climb import crawl_wall

        return crawl_wall(quiet=quiet, json=json)
    if port is not None:
        raise Misconfigured("--port is for --serve: shoal demo --serve --port 8000")
    from shoal.cli.demo.visit import crawl_shop, watch_shop

    return (watch_shop if watch else crawl_shop)(quiet=quiet, json=json)
