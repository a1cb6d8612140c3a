"""`shoal top`: a whole store, live: crawls, stages, workers and the hosts that take longest."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import Config, Json, Store, examples, option

if TYPE_CHECKING:
    from shoal.cli.views.top_screen import TopScreen
    from shoal.services.inspect.monitor import Overview, StoreMonitor

EXAMPLES = examples(
    ("Watch a fleet", "shoal top --store redis://queue.example"),
    ("Watch the crawl in this folder, from another terminal", "shoal top"),
    ("One look, for a script", "shoal top --store redis://queue.example --json"),
)

SILENT = 2.0  # seconds without an answer, after which that is shown
WIDTH = 120  # columns where there is no terminal that would say


def command(
    store: Store = None,
    once: Annotated[bool, option("--once", "", "Print one look and end.")] = False,
    every: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0.1, help="How often to look. [dim]Default: 1.[/dim]", show_default=False
        ),
    ] = 1.0,
    config: Config = None,
    json: Json = False,
) -> None:
    """Watch a whole store: crawls, stages, workers, slow hosts.

    Reads only. Ctrl-C ends it, and nothing else. Where there is no terminal, it looks once.
    """
    from asyncio import run
    from contextlib import suppress

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.watch import can_draw

    address = chosen_store(store, config=config)
    if once or json or not (sys.stdout.isatty() and can_draw(os.environ)):
        run(_look(address, json=json))
        return
    with suppress(KeyboardInterrupt):
        run(_watch(address, every))


async def _look(address: str, *, json: bool) -> None:
    from shoal.cli.views.output import put, put_json
    from shoal.cli.views.top_screen import TopScreen
    from shoal.services.inspect.monitor import overseeing

    async with overseeing(address) as overseer:
        overview = await overseer.look()
    if json:
        put_json(top_json(overview))
        return
    screen = TopScreen()
    screen.show(overview)
    lines = screen.lines(WIDTH, height=1000)
    put("\n".join("".join(text for text, _ in line).rstrip() for line in lines))


async def _watch(address: str, every: float) -> None:
    import asyncio
    import logging

    from rich.console import Console
    from rich.live import Live

    from shoal.cli.views.top_screen import TopScreen
    from shoal.services.inspect.monitor import overseeing

    logging.disable(logging.WARNING)  # the picture itself says when the store does not answer
    screen = TopScreen()
    async with overseeing(address) as overseer:
        screen.show(await overseer.look())
        with Live(screen, console=Console(highlight=False), auto_refresh=False, screen=True) as live:
            async with asyncio.TaskGroup() as group:
                group.create_task(_keep_looking(overseer, screen, every), name="top.look")
                while True:
                    live.refresh()
                    await asyncio.sleep(every)


async def _keep_looking(overseer: "StoreMonitor", screen: "TopScreen", every: float) -> None:
    """Show each look; while the store does not answer, show since when."""
    import asyncio
    import time
    from contextlib import suppress

    from shoal.model.errors import Unavailable

    async def tell() -> None:
        asked = time.monotonic()
        while True:
            await asyncio.sleep(SILENT)
            screen.wait(time.monotonic() - asked)

    while True:
        await asyncio.sleep(every)
        async with asyncio.TaskGroup() as group:
            silence = group.create_task(tell(), name="top.silence")
            answered = False
            while not answered:
                with suppress(Unavailable):  # it may be back before whoever watches goes
                    screen.show(await overseer.look())
                    answered = True
            silence.cancel()


def top_json(overview: "Overview") -> dict[str, object]:
    """Give what `shoal status` gives, and what only this command looks at."""
    from shoal.cli.commands.status import status_json

    return {
        **status_json(overview.status, overview.at),
        "at": overview.at,
        "requests_per_s": None if overview.rate is None else round(overview.rate, 2),
        "hosts": [
            {
                "host": host.host,
                "waiting": host.queued,
                "interval_s": host.interval,
                "concurrency": host.concurrency,
                "paused": host.paused,
                "rest_until": host.rest_until or None,
                "crawl_delay_s": host.crawl_delay,
                "slow": host.slow,
            }
            for host in overview.hosts
        ],
        "hosts_held": dict(overview.held),
    }
