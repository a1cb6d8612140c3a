"""`shoal pause` and `shoal resume`: a whole crawl, also while it runs."""

from typing import Annotated

import typer

from shoal.cli.input.options import Config, Json, Store, examples

PAUSE_EXAMPLES = examples(
    ("Every crawl of the store in this folder", "shoal pause"),
    ("One of them", "shoal pause shop --store /data/shops"),
)
RESUME_EXAMPLES = examples(("All of them", "shoal resume"), ("One of them", "shoal resume shop"))

Which = Annotated[
    str | None,
    typer.Argument(metavar="[CRAWL]", help="Name of a crawl; all if omitted.", show_default=False),
]


def pause_command(
    crawl: Which = None, store: Store = None, config: Config = None, json: Json = False
) -> None:
    """Start no new requests until resumed.

    Finishes the requests in progress. A running crawl keeps running and waits.
    """
    _set_paused(crawl, paused=True, store=store, config=config, json=json)


def resume_command(
    crawl: Which = None, store: Store = None, config: Config = None, json: Json = False
) -> None:
    """End a pause.

    A running crawl continues at once; start one that was stopped with shoal crawl.
    """
    _set_paused(crawl, paused=False, store=store, config=config, json=json)


def _set_paused(
    crawl: str | None, *, paused: bool, store: str | None, config: str | None, json: bool
) -> None:
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.output import print_json, print_lines
    from shoal.services.control.pause import pause_crawls
    from shoal.services.store_address import public_address

    address = chosen_store(store, config=config)
    names = run(pause_crawls(address, crawl, paused=paused))
    if json:
        print_json({"store": public_address(address), "crawls": names, "paused": paused})
        return
    state = "paused: no new requests until shoal resume" if paused else "no longer paused"
    lines = [f"{name} is {state}" for name in names]
    print_lines(lines or [f"{public_address(address)} has no crawls"])
