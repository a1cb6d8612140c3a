"""`shoal pause` and `shoal resume`: a whole crawl, also while it runs."""

from typing import Annotated

import typer

from shoal.cli.input.options import Config, Json, Store, examples
from shoal.stores.address import shown_store

PAUSE_EXAMPLES = examples(
    ("Every crawl of the store in this folder", "shoal pause"),
    ("One of them", "shoal pause shop --store /data/shops"),
)
RESUME_EXAMPLES = examples(("Go on with all of them", "shoal resume"), ("With one", "shoal resume shop"))

Which = Annotated[
    str | None, typer.Argument(metavar="[CRAWL]", help="Name of a crawl; all without.", show_default=False)
]


def pause_command(
    crawl: Which = None, store: Store = None, config: Config = None, json: Json = False
) -> None:
    """Take no new requests until resumed.

    What is on the wire is finished. A running crawl stays up and waits.
    """
    _set(crawl, paused=True, store=store, config=config, json=json)


def resume_command(
    crawl: Which = None, store: Store = None, config: Config = None, json: Json = False
) -> None:
    """Go on after a pause.

    A running crawl goes on at once; one that was stopped is started with shoal crawl.
    """
    _set(crawl, paused=False, store=store, config=config, json=json)


def _set(crawl: str | None, *, paused: bool, store: str | None, config: str | None, json: bool) -> None:
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.output import put, put_json
    from shoal.services.control.hosts import pause_crawls

    address = chosen_store(store, config=config)
    names = run(pause_crawls(address, crawl, paused=paused))
    if json:
        put_json({"store": shown_store(address), "crawls": names, "paused": paused})
    else:
        state = "paused: nothing new is fetched until shoal resume" if paused else "no longer paused"
        put("\n".join(f"{name} is {state}" for name in names) or f"{shown_store(address)} has no crawls")
