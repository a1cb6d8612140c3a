"""`shoal demo`: a shop to crawl, on this machine, while you watch."""

from shoal.cli.input.options import Json, Quiet, examples

EXAMPLES = examples(
    ("Watch", "shoal demo"),
    ("Look at what it made", "shoal status --store shoal-demo"),
)


def command(quiet: Quiet = False, json: Json = False) -> int:
    """Crawl a small shop on this machine, and watch.

    Takes about 15 seconds; nothing leaves your computer. What it makes is in ./shoal-demo, afresh each time.
    """
    from shoal.cli.demo.visit import visit

    return visit(quiet=quiet, json=json)
