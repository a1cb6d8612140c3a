"""`shoal top`: a whole store, live: crawls, stages, workers and slowest hosts."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import Config, Json, Store, examples, option

if TYPE_CHECKING:
    from shoal.cli.views.top_screen import TopScreen
    from shoal.services.inspect.monitor import StoreMonitor

EXAMPLES = examples(
    ("Watch a fleet", "shoal top --store redis://queue.example"),
    ("Watch the crawl in this folder, from another terminal", "shoal top"),
    ("Once, for a script", "shoal top --store redis://queue.example --json"),
)

DELAY_SHOWN_AFTER_S = 2.0  # without an answer of the store
WIDTH = 120  # columns where there is no terminal


def command(
    store: Store = None,
    once: Annotated[bool, option("--once", "", "Print once and exit.")] = False,
    every: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0.1,
            max=86_400,
            help="Refresh interval. [dim]Default: 1.[/dim]",
            show_default=False,
        ),
    ] = 1.0,
    config: Config = None,
    json: Json = False,
) -> None:
    """Watch a whole store: crawls, stages, workers, slow hosts.

    Reads only. q or Ctrl-C ends this command and no crawl. Prints once if there is no terminal.
    """
    from asyncio import run
    from contextlib import suppress

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.display import can_draw

    address = chosen_store(store, config=config)
    if once or json or not (sys.stdout.isatty() and can_draw(os.environ)):
        run(_print_once(address, json=json))
        return
    with suppress(KeyboardInterrupt):
        run(_watch(address, every))


async def _print_once(address: str, *, json: bool) -> None:
    from shoal.cli.views.output import print_json, print_lines
    from shoal.cli.views.streams import drawable, drawing_encoding
    from shoal.cli.views.top_screen import TopScreen
    from shoal.services.inspect.monitor import watch_store
    from shoal.services.inspect.status_json import overview_json

    async with watch_store(address) as monitor:
        overview = await monitor.look()
    if json:
        print_json(overview_json(overview))
        return
    screen = TopScreen()
    screen.show(overview)
    lines = screen.lines(WIDTH, height=1000)
    encoding = drawing_encoding(sys.stdout, os.environ)
    print_lines(drawable("".join(text for text, _ in line).rstrip(), encoding) for line in lines)


async def _watch(address: str, every: float) -> None:
    import asyncio
    import logging
    from contextlib import suppress

    from rich.live import Live

    from shoal.cli.process.keys import HINT, can_read_keys, quit_key
    from shoal.cli.views.streams import open_console
    from shoal.cli.views.top_screen import TopScreen
    from shoal.services.inspect.monitor import watch_store

    logging.disable(logging.WARNING)  # the screen shows when the store does not answer
    screen = TopScreen(HINT if can_read_keys() else "")
    stop = asyncio.Event()
    async with watch_store(address) as monitor:
        screen.show(await monitor.look())
        with (
            Live(screen, console=open_console(), auto_refresh=False, screen=True) as live,
            quit_key(stop.set),
        ):
            async with asyncio.TaskGroup() as group:
                look = group.create_task(_refresh(monitor, screen, every), name="top.look")
                while not stop.is_set():
                    live.refresh()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(every):
                            await stop.wait()
                look.cancel()


async def _refresh(monitor: "StoreMonitor", screen: "TopScreen", every: float) -> None:
    """Show each overview; while the store does not answer, show for how long."""
    import asyncio
    import time
    from contextlib import suppress

    from shoal.model.errors import Unavailable

    async def show_delay() -> None:
        asked = time.monotonic()
        while True:
            await asyncio.sleep(DELAY_SHOWN_AFTER_S)
            screen.record_delay(time.monotonic() - asked)

    while True:
        await asyncio.sleep(every)
        async with asyncio.TaskGroup() as group:
            delay = group.create_task(show_delay(), name="top.delay")
            answered = False
            while not answered:
                with suppress(Unavailable):  # the store may recover while the user watches
                    screen.show(await monitor.look())
                    answered = True
            delay.cancel()
