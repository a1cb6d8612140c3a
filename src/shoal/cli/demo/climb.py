"""Crawl the shop behind a wall through two local exits, and tell in plain words what was done."""

import resource
import shutil
from collections.abc import Iterator, Sequence
from contextlib import nullcontext

from shoal.cli.demo.narrator import narrated
from shoal.cli.demo.server import open_proxy, open_site
from shoal.cli.demo.visit import example
from shoal.cli.demo.wall import RATE, Wall, all_skus
from shoal.cli.process.exit_codes import ExitCode
from shoal.cli.process.run_crawl import DisplayOptions, run_plan
from shoal.cli.views.format import plural, size, table
from shoal.cli.views.output import print_json, print_lines, print_message
from shoal.model.levels.ladder import BROWSER, LADDER
from shoal.model.settings import CrawlSettings, ProxySettings, Settings
from shoal.services.crawl import CrawlPlan
from shoal.services.inspect.level_figures import (
    LevelFigures,
    PartFigures,
    figures_json,
    level_figures,
    missing_levels,
    part_figures,
)
from shoal.spider.source import SpiderFile

FOLDER = "shoal-demo"
CRAWL = "wall"
ADDRESSES = {"cheap": ("127.0.0.2", 0.5), "dear": ("127.0.0.3", 8.0)}  # where exits leave from, price per GB


def crawl_wall(*, quiet: bool, json: bool) -> ExitCode:
    """Crawl the shop behind a wall, into a new store in the current folder, and report."""
    display = DisplayOptions(quiet=quiet, json=json)
    spider = example("wall.py")
    missing = missing_levels()
    wall = Wall()
    shutil.rmtree(FOLDER, ignore_errors=True)
    with (
        open_site(wall.reply) as address,
        open_proxy(ADDRESSES["cheap"][0]) as cheap,
        open_proxy(ADDRESSES["dear"][0]) as dear,
    ):
        if not display.silent:
            print_message(f"serving a shop behind a wall at {address}, and two proxies in front of it")
            for line in missing:
                print_message(line)
        plan = CrawlPlan(
            source=SpiderFile(str(spider)),
            settings=settings(cheap, dear),
            name=CRAWL,
            seeds=(address,),
            fresh=True,
            overrides=frozenset({"rate", "burst", "per_host", "allow_private"}),
        )
        before = cpu_seconds()
        with nullcontext() if display.silent else narrated(print_message):
            code = run_plan(plan, DisplayOptions(quiet=True), resume="shoal demo --wall")
        used = cpu_seconds() - before
    figures = level_figures(FOLDER, CRAWL, {name: price for name, (_, price) in ADDRESSES.items()})
    if json:
        print_json({"exit_code": int(code), "missing": missing, "levels": figures_json(figures)})
    elif not quiet:
        print_lines(report(wall, figures, part_figures(FOLDER, CRAWL), used))
    return code


def settings(cheap: int, dear: int) -> Settings:
    exits = tuple(
        f"http://127.0.0.1:{port} name={name} price_gb={ADDRESSES[name][1]:g}"
        for name, port in (("cheap", cheap), ("dear", dear))
    )
    return Settings(
        store=FOLDER,
        crawl=CrawlSettings(rate=1.5 * RATE, burst=1, per_host=4, allow_private=True),
        proxies=ProxySettings(list=exits),
    )


def report(
    wall: Wall, figures: Sequence[LevelFigures], parts: Sequence[PartFigures], used: float
) -> Iterator[str]:
    """Yield how each part of the shop was fetched, and what each level took per page."""
    items = sum(one.items for one in figures)
    yield ""
    yield f"Found {items} of {plural(len(all_skus()), 'product')}."
    yield ""
    yield from table(
        ["part of the shop", "pages", "fetched at level", "before that"],
        [
            [
                one.part,
                str(sum(one.pages.values())),
                ", ".join(level for level in LADDER if level in one.pages),
                ", ".join(f"{count} {_MET.get(failure, failure)}" for failure, count in one.failures.items()),
            ]
            for one in parts
        ],
        words=(0, 2, 3),
    )
    yield ""
    yield from table(
        ["level", "tries", "pages", "bytes/page", "ms/page", "cost per million pages"],
        [
            [
                one.level,
                str(one.tries),
                str(one.pages),
                size(one.wire_bytes / max(one.pages, 1)),
                f"{1000 * one.seconds / max(one.pages, 1):.0f}",
                f"{1e6 * one.cost / max(one.pages, 1):.2f}",
            ]
            for one in figures
        ],
    )
    yield ""
    if wall.refused:
        yield f"The shop answered 429 {plural(wall.refused, 'time')}: the crawl slowed down and asked later."
    if any(one.level == BROWSER for one in figures):
        yield "Nothing was set, except that on /more the spider says which button to click."
    yield f"CPU: {used:.1f} s with all processes. What a page costs by level: python -m bench.levels"
    yield ""
    yield "The next crawl of this store starts with what was learned:"
    yield f"  shoal status --store {FOLDER}"


_MET = {
    "anti_bot": "x a challenge",
    "rate_limited": "x 429",
    "needs_browser": "x an empty page",
    "ip_blocked": "x 403",
}


def cpu_seconds() -> float:
    """Return the CPU time of this process and of those that it has ended."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in usage)
