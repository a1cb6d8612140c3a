"""The visit to the shop: serve it, crawl it with the example spider, say what to try next."""

import os
from pathlib import Path

import shoal
from shoal.cli.demo.server import open_shop
from shoal.cli.demo.shop import Shop
from shoal.cli.process.exit_codes import ExitCode
from shoal.cli.process.run_crawl import Shown, run_plan
from shoal.cli.views.output import put, tell
from shoal.engine.plan import CrawlPlan
from shoal.model.errors import Misconfigured
from shoal.model.settings import CrawlSettings, Settings
from shoal.spider.source import SpiderFile

FOLDER = "shoal-demo"
# A shop this small could be had in a second. Nobody could watch that, and nobody should ask a shop so fast.
SETTINGS = Settings(store=FOLDER, crawl=CrawlSettings(rate=25.0, burst=1, per_host=8, allow_private=True))


def visit(*, quiet: bool, json: bool) -> ExitCode:
    """Crawl the shop, into a store of its own in the current folder."""
    spider = example("shop.py")
    shown = Shown(quiet=quiet, json=json)
    talk = not quiet and not json
    with open_shop(Shop()) as address:
        if talk:
            tell(f"a shop of a few hundred pages is open at {address}")
            tell(f"crawling it with {spider}")
            tell(f"everything that is made is in ./{FOLDER}, afresh each time")
        plan = CrawlPlan(
            source=SpiderFile(str(spider)),
            settings=SETTINGS,
            name="demo",
            seeds=(address,),
            fresh=True,
            overrides=frozenset({"rate", "burst", "per_host", "allow_private"}),
        )
        code = run_plan(plan, shown, resume="shoal demo")
    if talk and code is ExitCode.FINISHED:
        put(f"Then: cp {spider} mine.py   (make it yours, then shoal crawl mine.py)")
    return code


def example(name: str) -> Path:
    """Find an example spider: in the package as installed, or beside it in a checkout."""
    package = Path(shoal.__file__).parent
    for folder in (package / "examples", package.parents[1] / "examples"):
        if (folder / name).is_file():
            return Path(os.path.relpath(folder / name))
    raise Misconfigured(f"the example {name} is missing from this installation of Shoal")
