"""`shoal demo`: crawl a small shop on this machine and watch."""

from shoal.cli.input.options import Json, Quiet, examples

EXAMPLES = examples(
    ("Watch", "shoal demo"),
    ("Inspect the result", "shoal status --store shoal-demo"),
)


def command(quiet: Quiet = False, json: Json = False) -> int:
    """Crawl a small shop on this machine, and watch.

    Takes about 15 seconds and sends nothing beyond this machine. Replaces ./shoal-demo.
    """
    from shoal.cli.demo.visit import crawl_shop

    return crawl_shop(quiet=quiet, json=json)
