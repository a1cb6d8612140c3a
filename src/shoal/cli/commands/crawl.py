"""`shoal crawl`: what can be said on the command line, and nothing more; `running` does it."""

import inspect
import sys
from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer

from shoal.cli.input.options import Config, Json, Quiet, Verbose, examples, option, setting

EXAMPLES = examples(
    ("One record per page: url, status, title, depth, links", "shoal crawl https://example.com/"),
    (
        "Fields by CSS selector, into a table",
        "shoal crawl https://a.example/ --item name=h1 --item price=.price --out x.csv",
    ),
    ("Your own spider, from a file", "shoal crawl books.py"),
    ("A spider without code, in TOML", "shoal crawl books.toml"),
    ("Your own spider, from a module", "shoal crawl myproject.spiders:books"),
    ("Politely, but not for ever", "shoal crawl https://example.com/ --rate 1 --depth 3 --max-pages 1000"),
    ("Go on after Ctrl-C, a crash or a power cut: the same again", "shoal crawl books.py"),
)

_WHAT, _HOW, _WHERE = "What to crawl", "How to behave", "Where it goes"
_what = partial(setting, panel=_WHAT)
_how = partial(setting, panel=_HOW)
_where = partial(option, panel=_WHERE)

Targets = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TARGET",
        help="Start URLs; or a spider (books.py, books.toml, module:name), then URLs instead of its own.",
        show_default=False,
    ),
]
Items = Annotated[
    list[str] | None,
    option("--item", "NAME=CSS", "A field of each record: text of the first match.", panel=_WHAT),
]
Sitemaps = Annotated[
    list[str] | None,
    option("--sitemap", "URL", "A sitemap or feed to start from as well; repeatable.", panel=_WHAT),
]
Seeds = Annotated[
    str | None,
    option("--seeds", "FILE", "Start URLs, one a line; - is standard input.", panel=_WHAT),
]
Follow = Annotated[str | None, _what("--follow", "REGEX", "crawl.follow")]
SameHost = Annotated[
    bool | None,
    _what("--same-host/--any-host", "", "crawl.same_host", default="same host"),
]
Depth = Annotated[str | None, _what("--depth", "N", "crawl.depth", default="no limit")]
MaxPages = Annotated[str | None, _what("--max-pages", "N", "crawl.max_pages", default="0")]

Rate = Annotated[str | None, _how("--rate", "N", "crawl.rate", default="2")]
PerHost = Annotated[str | None, _how("--per-host", "N", "crawl.per_host", default="4")]
Concurrency = Annotated[str | None, _how("--concurrency", "N", "crawl.concurrency", default="64")]
Robots = Annotated[bool | None, _how("--robots/--no-robots", "", "crawl.robots", default="yes")]
AllowPrivate = Annotated[bool | None, _how("--allow-private", "", "crawl.allow_private")]
UserAgent = Annotated[
    str | None, _how("--user-agent", "TEXT", "crawl.user_agent", default="Shoal, version and contact")
]
Procs = Annotated[str | None, _how("--procs", "N", "crawl.procs", default="0")]
MaxDead = Annotated[str | None, _how("--max-dead", "N", "crawl.max_dead", default="any number")]

Store = Annotated[str | None, setting("--store", "FOLDER", "store", default="shoal-data", panel=_WHERE)]
Outputs = Annotated[
    list[str] | None,
    _where(
        "--out",
        "PATH",
        "Items, as .jsonl, .csv, .sqlite or .parquet; repeatable.",
        default="jsonl in the store",
    ),
]
Name = Annotated[
    str | None, _where("--crawl", "NAME", "Name of this crawl.", default="the spider's, or the host")
]
Resume = Annotated[
    bool, _where("--resume/--fresh", "", "Go on where this crawl stopped, or start again?", default="resume")
]


def command(
    target: Targets = None,
    *,
    item: Items = None,
    sitemap: Sitemaps = None,
    seeds: Seeds = None,
    follow: Follow = None,
    same_host: SameHost = None,
    depth: Depth = None,
    max_pages: MaxPages = None,
    rate: Rate = None,
    per_host: PerHost = None,
    concurrency: Concurrency = None,
    robots: Robots = None,
    allow_private: AllowPrivate = None,
    user_agent: UserAgent = None,
    procs: Procs = None,
    max_dead: MaxDead = None,
    store: Store = None,
    out: Outputs = None,
    crawl: Name = None,
    resume: Resume = True,
    config: Config = None,
    quiet: Quiet = False,
    json: Json = False,
    verbose: Verbose = 0,
) -> int:
    """Crawl from start URLs, or with a spider.

    A crawl that was interrupted goes on where it stopped: type the same command again.
    """
    from shoal.cli.input.crawl_options import asked_of, plan_of

    plan = plan_of(asked_of(locals()))

    # Only now what takes a while to load: a mistyped flag is answered at once.
    from shoal.cli.process.run_crawl import Shown, run_plan
    from shoal.cli.views.summary import again

    return run_plan(plan, Shown(quiet=quiet, json=json, verbose=verbose), resume=again(sys.argv[1:]))


def like_crawl(other: Callable[..., int]) -> Callable[..., int]:
    """Let another command take what `shoal crawl` takes, flag by flag, so that the two never differ."""
    other.__signature__ = inspect.signature(command)  # type: ignore[attr-defined]
    return other
