"""`shoal crawl`: crawl start URLs, or with a spider."""

import sys

from shoal.cli.input.crawl_options import CrawlOptions
from shoal.cli.input.options import examples

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
    ("Resume after Ctrl-C, a crash or a power cut: run the same command", "shoal crawl books.py"),
)


def command(options: CrawlOptions) -> int:
    """Crawl from start URLs, or with a spider.

    Run the same command to resume a crawl that was interrupted.
    """
    from shoal.cli.input.crawl_plan import plan_crawl

    plan = plan_crawl(options)

    # Imported last, because it is slow: a mistyped flag is reported at once.
    from shoal.cli.process.run_crawl import DisplayOptions, run_plan
    from shoal.cli.process.signals import resume_command

    display = DisplayOptions(quiet=options.quiet, json=options.json, verbose=options.verbose)
    return run_plan(plan, display, resume=resume_command(sys.argv[1:]))
