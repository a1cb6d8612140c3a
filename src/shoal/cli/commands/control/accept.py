"""`shoal accept`: take data over that was out of the range of earlier generations."""

from typing import Annotated

import typer

from shoal.cli.input.options import Config, Json, Store, examples

EXAMPLES = examples(
    ("The new data is right", "shoal accept shop"),
    ("Of a fleet", "shoal accept shop --store redis://queue.example"),
)


def command(
    crawl: Annotated[str, typer.Argument(metavar="CRAWL", help="Name of the crawl.", show_default=False)],
    *,
    store: Store = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Take over the data of a run that ended with exit code 11.

    Its items were out of the range of earlier generations, so they stand beside the old output. Now they
    replace it, and later generations are compared with them as well.
    """
    from asyncio import run

    from shoal.cli.input.settings_loader import load_settings
    from shoal.cli.views.output import print_json, print_lines
    from shoal.services.control.accept import accept
    from shoal.services.crawl import drop_json
    from shoal.services.store_address import public_address

    settings = load_settings({} if store is None else {"store": store}, config=config).settings
    address = settings.store
    done = run(accept(address, crawl, allowed=settings.worker.allow_outputs))
    if json:
        dropped = [drop_json(drop) for drop in done.dropped]
        about = {"store": public_address(address), "crawl": crawl}
        print_json({**about, "accepted": dropped, "replaced": list(done.replaced)})
        return
    print_lines([f"accepted: {drop.text}" for drop in done.dropped])
    print_lines([f"{output} has the new data" for output in done.replaced])
