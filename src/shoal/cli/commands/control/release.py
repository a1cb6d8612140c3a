"""`shoal release`: queue what a crawl holds back."""

from typing import Annotated

import typer

from shoal.cli.input.options import Config, Json, Store, examples

EXAMPLES = examples(
    ("Which URLs are held back?", "shoal urls --state held"),
    ("Queue all of them", "shoal release shop"),
    ("Those of one pattern, as shoal status prints it", "shoal release shop 'shop.example/product/*'"),
)

Crawl = Annotated[str, typer.Argument(metavar="CRAWL", help="Name of a crawl.", show_default=False)]
Pattern = Annotated[
    str,
    typer.Argument(metavar="[PATTERN]", help="A closed pattern; all if omitted.", show_default=False),
]


def command(
    crawl: Crawl, pattern: Pattern = "", store: Store = None, config: Config = None, json: Json = False
) -> None:
    """Queue the URLs that a crawl holds back, and hold back no more of their patterns.

    A crawl closes a pattern whose pages bring nothing new. If it has finished, run it again afterwards; a
    crawl that is running, and workers of a fleet, continue at once.
    """
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.format import count, plural
    from shoal.cli.views.output import print_json, print_lines
    from shoal.services.control.release import release
    from shoal.services.store_address import public_address

    address = chosen_store(store, config=config)
    done = run(release(address, crawl, pattern))
    if json:
        released = {"patterns": done.patterns, "released": done.released, "counted": done.counted}
        print_json({"store": public_address(address), "crawl": done.crawl, **released})
        return
    if not done.patterns and not done.released:
        print_lines([f"{done.crawl} holds nothing back"])
        return
    lines = [f"{plural(done.released, 'URL')} of {done.crawl} wait again: run the same command to fetch them"]
    if done.counted:
        lines.append(
            f"{count(done.counted)} more links were counted and not kept: pages that lead to them bring them"
            " again"
        )
    print_lines(lines)
