"""`shoal crawl`: crawl start URLs, or with a spider."""

import sys
from dataclasses import dataclass
from typing import Annotated

from shoal.cli.input.crawl_options import CrawlOptions
from shoal.cli.input.dead_letter_filters import age
from shoal.cli.input.options import examples, option
from shoal.model.errors import Misconfigured

MIN_EVERY_S = 1.0

EXAMPLES = examples(
    ("One record per page: url, status, title, depth, links", "shoal crawl https://example.com/"),
    (
        "Fields by CSS selector, into a table",
        "shoal crawl https://a.example/ --item name=h1 --item price=.price --out x.csv",
    ),
    ("Your spider, from a file", "shoal crawl books.py"),
    ("A spider without code, in TOML", "shoal crawl books.toml"),
    ("Your spider, from a module", "shoal crawl myproject.spiders:books"),
    ("Slowly, and within limits", "shoal crawl https://example.com/ --rate 1 --depth 3 --max-pages 1000"),
    ("With a contact for site owners", "shoal crawl https://example.com/ --contact me@example.org"),
    ("Every six hours, until Ctrl-C: only what has changed", "shoal crawl books.py --every 6h"),
    ("Resume after Ctrl-C, a crash or a power cut: run the same command", "shoal crawl books.py"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(CrawlOptions):
    """The options of a crawl, and what concerns only the process that runs it."""

    metrics: Annotated[
        str | None,
        option("--metrics", "PORT|HOST:PORT", "Serve metrics for Prometheus here, and /readyz, /healthz."),
    ] = None
    every: Annotated[
        str | None,
        option("--every", "AGE", "Run now and then at this interval with --again, until Ctrl-C: 6h, 1d."),
    ] = None


def command(options: RunOptions) -> int:
    """Crawl from start URLs, or with a spider.

    Run the same command to resume a crawl that was interrupted.
    """
    from shoal.cli.input.crawl_plan import plan_crawl

    plan = plan_crawl(options)
    if (every := age("--every", options.every)) is not None:
        from shoal.cli.process.repeat import repeat
        from shoal.cli.views.output import print_message

        if options.dry_run or not options.resume or every < MIN_EVERY_S:
            raise Misconfigured("--every: at least one second, and without --dry-run and --fresh")
        return repeat(every, print_message, quiet=options.silent)

    # Imported last, because it is slow: a mistyped flag is reported at once.
    from shoal.cli.process.run_crawl import DisplayOptions, run_plan
    from shoal.cli.process.signals import resume_command

    display = DisplayOptions(
        quiet=options.quiet, json=options.json, verbose=options.verbose, log_format=options.log_format
    )
    return run_plan(plan, display, resume=resume_command(sys.argv[1:]), metrics=options.metrics)
