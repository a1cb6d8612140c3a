"""The options of `shoal crawl`, `shoal submit` and `shoal fleet`, declared once."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from shoal.cli.input.options import Config, Json, LogFormat, Quiet, Verbose, Yes, option, setting

_WHAT, _HOW, _WHERE = "What to crawl", "How to behave", "Where it goes"
_what = partial(setting, panel=_WHAT)
_how = partial(setting, panel=_HOW)
_where = partial(option, panel=_WHERE)

Targets = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TARGET",
        help="Start URLs; or a spider (books.py, books.py:name, books.toml, module:name), then URLs that"
        " replace its own.",
        show_default=False,
    ),
]
Items = Annotated[
    list[str] | None,
    option("--item", "NAME=CSS", "A field of each record: text of the first match.", panel=_WHAT),
]
Arguments = Annotated[
    list[str] | None,
    option("--argument -a", "NAME=VALUE", "An argument of the spider; repeatable.", panel=_WHAT),
]
Sitemaps = Annotated[
    list[str] | None,
    option(
        "--sitemap",
        "URL|auto",
        "A sitemap or feed to start from as well; auto: those that robots.txt names; repeatable.",
        panel=_WHAT,
    ),
]
Seeds = Annotated[
    str | None,
    option(
        "--seeds",
        "FILE|DSN",
        "Start URLs, one per line; - is standard input. With --query: the database.",
        panel=_WHAT,
    ),
]
SeedQuery = Annotated[
    str | None,
    option(
        "--query",
        "SQL",
        "Start URLs are the first column of this query: of --seeds, an SQLite file or postgresql://...;"
        " without --seeds, of the fetch log, as with shoal sql.",
        panel=_WHAT,
    ),
]
SameHost = Annotated[
    bool | None,
    _what("--same-host/--any-host", "", "crawl.same_host", default="same host"),
]
Proxy = Annotated[
    list[str] | None,
    _how("--proxy", "URL|FILE", "proxies.list", default="none; see docs/proxies.md"),
]
UserAgent = Annotated[
    str | None, _how("--user-agent", "TEXT", "crawl.user_agent", default="Shoal, version and contact")
]
Store = Annotated[str | None, setting("--store", "FOLDER", "store", default="shoal-data", panel=_WHERE)]
Outputs = Annotated[
    list[str] | None,
    _where(
        "--out",
        "PATH",
        "Items, as .jsonl, .csv (also .gz, .zst), .sqlite or .parquet; repeatable.",
        default="jsonl in the store",
    ),
]
Name = Annotated[
    str | None, _where("--crawl", "NAME", "Name of this crawl.", default="the spider's, or the host")
]
Resume = Annotated[
    bool, _where("--resume/--fresh", "", "Resume this crawl, or start it again?", default="resume")
]
Again = Annotated[
    bool,
    _where("--again", "", "Resume if the last run was interrupted, else fetch everything again; for cron."),
]
DryRun = Annotated[bool, _where("--dry-run", "", "Only say what would be done; send no request.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlOptions:
    """What the user typed. Values stay text until the settings are built, which name the bad one."""

    target: Targets = None
    item: Items = None
    argument: Arguments = None
    sitemap: Sitemaps = None
    seeds: Seeds = None
    query: SeedQuery = None
    follow: Annotated[str | None, _what("--follow", "REGEX", "crawl.follow")] = None
    same_host: SameHost = None
    depth: Annotated[str | None, _what("--depth", "N", "crawl.depth", default="no limit")] = None
    max_pages: Annotated[str | None, _what("--max-pages", "N", "crawl.max_pages", default="0")] = None
    rate: Annotated[str | None, _how("--rate", "N", "crawl.rate", default="2")] = None
    per_host: Annotated[str | None, _how("--per-host", "N", "crawl.per_host", default="4")] = None
    concurrency: Annotated[str | None, _how("--concurrency", "N", "crawl.concurrency", default="64")] = None
    robots: Annotated[bool | None, _how("--robots/--no-robots", "", "crawl.robots", default="yes")] = None
    allow_private: Annotated[bool | None, _how("--allow-private", "", "crawl.allow_private")] = None
    render: Annotated[bool | None, _how("--render", "", "crawl.render")] = None
    proxy: Proxy = None
    user_agent: UserAgent = None
    contact: Annotated[str | None, _how("--contact", "URL|E-MAIL", "crawl.contact")] = None
    procs: Annotated[str | None, _how("--procs", "N", "crawl.procs", default="0")] = None
    max_dead: Annotated[str | None, _how("--max-dead", "N", "crawl.max_dead", default="any number")] = None
    store: Store = None
    out: Outputs = None
    crawl: Name = None
    resume: Resume = True
    again: Again = False
    dry_run: DryRun = False
    yes: Yes = False
    config: Config = None
    quiet: Quiet = False
    json: Json = False
    verbose: Verbose = 0
    log_format: LogFormat = "text"

    @property
    def silent(self) -> bool:
        return self.quiet or self.json

    def settings(self) -> Mapping[str, object]:
        """Return the settings that flags have set, by key."""
        flags = {
            "store": self.store,
            "crawl.follow": self.follow,
            "crawl.same_host": self.same_host,
            "crawl.depth": self.depth,
            "crawl.max_pages": self.max_pages,
            "crawl.rate": self.rate,
            "crawl.per_host": self.per_host,
            "crawl.concurrency": self.concurrency,
            "crawl.robots": self.robots,
            "crawl.allow_private": self.allow_private,
            "crawl.render": self.render,
            "proxies.list": self.proxy or None,
            "crawl.user_agent": self.user_agent,
            "crawl.contact": self.contact,
            "crawl.procs": self.procs,
            "crawl.max_dead": self.max_dead,
        }
        return {key: value for key, value in flags.items() if value is not None}
