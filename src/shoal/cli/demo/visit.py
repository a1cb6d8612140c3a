"""Serve the shop, crawl it with the example spider, print what to try next."""

import os
from dataclasses import replace
from pathlib import Path

import shoal
from shoal.cli.demo.server import open_shop
from shoal.cli.demo.shop import Shop
from shoal.cli.process.exit_codes import ExitCode
from shoal.cli.process.run_crawl import DisplayOptions, run_plan
from shoal.cli.views.output import print_line, print_message
from shoal.model.errors import Misconfigured
from shoal.model.settings import CrawlSettings, Settings
from shoal.services.crawl import CrawlPlan
from shoal.spider.source import SpiderFile

FOLDER = "shoal-demo"
WATCH_RATE = 6.0  # requests per second: a minute to look at
# At full speed this takes a second: too fast to watch, and too fast for a real shop.
SETTINGS = Settings(store=FOLDER, crawl=CrawlSettings(rate=25.0, burst=1, per_host=8, allow_private=True))


def watch_shop(*, quiet: bool, json: bool) -> ExitCode:
    """Crawl the shop slowly, with the dashboard beside it; it stays open until a signal."""
    from shoal.cli.demo.serve import stop_signals_blocked
    from shoal.cli.demo.watch import dashboard_of, keep_open

    slow = replace(SETTINGS, crawl=replace(SETTINGS.crawl, rate=WATCH_RATE))
    with dashboard_of(FOLDER) as address:
        if not (quiet or json):
            print_message(f"the dashboard is at {address}")
        code = crawl_shop(quiet=quiet, json=json, settings=slow)
        if code is ExitCode.FINISHED and not json:
            with stop_signals_blocked():
                keep_open(address)
    return code


def crawl_shop(*, quiet: bool, json: bool, settings: Settings | None = None) -> ExitCode:
    """Crawl the shop, into a new store in the current folder."""
    settings = settings or SETTINGS
    spider = example("shop.py")
    display = DisplayOptions(quiet=quiet, json=json)
    with open_shop(Shop()) as address:
        if not display.silent:
            print_message(f"serving a shop of a few hundred pages at {address}")
            print_message(f"crawling it with {spider}")
            print_message(f"writing to ./{FOLDER}, which each run replaces")
        plan = CrawlPlan(
            source=SpiderFile(str(spider)),
            settings=settings,
            name="demo",
            seeds=(address,),
            fresh=True,
            overrides=frozenset({"rate", "burst", "per_host", "allow_private"}),
        )
        code = run_plan(plan, display, resume="shoal demo")
    if not display.silent and code is ExitCode.FINISHED:
        print_line("Then: shoal demo --serve   (keeps the shop open, with a spider to make yours)")
        if settings is SETTINGS:
            print_line(f"      shoal serve --store {FOLDER}   (its dashboard)")
    return code


def example(name: str) -> Path:
    """Return the path of an example spider: in the installed package, or in a checkout."""
    package = Path(shoal.__file__).parent
    for folder in (package / "examples", package.parents[1] / "examples"):
        if (folder / name).is_file():
            return Path(os.path.relpath(folder / name))
    raise Misconfigured(f"the example {name} is missing from this installation of Shoal")
