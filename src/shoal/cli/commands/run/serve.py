"""`shoal serve`: the HTTP API and the dashboard."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from shoal.cli.input.options import Config, LogFormat, Quiet, Store, Verbose, examples, option, setting
from shoal.cli.input.token_file import TokenFile, token_path

if TYPE_CHECKING:
    from shoal.server.serve import Listening, ServePlan

EXAMPLES = examples(
    ("The dashboard and the API of the store in this folder, for this machine", "shoal serve"),
    ("Of a fleet", "shoal serve --store redis://queue.example"),
    (
        "For other machines, behind a proxy that speaks TLS; needs a token",
        "shoal token add ci --role operate && shoal serve --listen 10.0.0.5:8787 --allow-host shoal.example",
    ),
)

Listen = Annotated[
    str, option("--listen", "PORT|HOST:PORT", "Where to listen.", default="127.0.0.1:8787, this machine only")
]
AllowHost = Annotated[
    list[str] | None,
    option("--allow-host", "NAME", "A name of this server that browsers and clients may use; repeatable."),
]

Spiders = Annotated[
    str | None,
    option(
        "--spiders",
        "FOLDER",
        "Spiders in this folder may be submitted by name.",
        default="none may be submitted",
    ),
]
Outputs = Annotated[
    str | None, option("--outputs", "FOLDER", "Where crawls write their files.", default="the current folder")
]
Schedules = Annotated[
    bool,
    option(
        "--schedules/--no-schedules", "", "Start the crawls of schedules when they are due.", default="yes"
    ),
]
AllowPrivate = Annotated[bool | None, setting("--allow-private", "", "crawl.allow_private")]


def command(
    *,
    listen: Listen = "127.0.0.1:8787",
    store: Store = None,
    tokens: TokenFile = None,
    allow_host: AllowHost = None,
    spiders: Spiders = None,
    outputs: Outputs = None,
    schedules: Schedules = True,
    allow_private: AllowPrivate = None,
    config: Config = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
    log_format: LogFormat = "text",
) -> int:
    """Serve the dashboard and the HTTP API of a store.

    Every request needs a token. If there are no tokens, one is made for this run and printed as part of the
    address to open. Listens for this machine only, unless --listen says otherwise; then tokens are needed.
    """
    from shoal.cli.input.settings_loader import load_settings
    from shoal.model.errors import Misconfigured

    flags = {"store": store, "crawl.allow_private": allow_private}
    given = {key: value for key, value in flags.items() if value is not None}
    settings = load_settings(given, config=config).settings
    if spiders is not None and not Path(spiders).is_dir():
        raise Misconfigured(f"--spiders {spiders}: not a folder")
    try:
        import uvicorn  # noqa: F401 - says whether the extra is installed
    except ImportError:
        raise Misconfigured("serve: run  pip install 'shoal[serve]'  first") from None

    import uvloop

    from shoal.cli.process.exit_codes import ExitCode
    from shoal.cli.process.log_format import start_logging
    from shoal.server.serve import ServePlan

    start_logging(verbose=verbose, quiet=quiet, events=not quiet, log_format=log_format)
    hosts = tuple(name.lower() for name in allow_host or ())
    plan = ServePlan(
        settings,
        listen,
        token_path(tokens),
        hosts,
        spiders=None if spiders is None else Path(spiders).resolve(),
        schedules=schedules,
        outputs=str(Path(outputs or ".").resolve()),
        config=str(Path(config).resolve()) if config else "",
    )
    uvloop.run(_serve(plan))
    return ExitCode.FINISHED


async def _serve(plan: "ServePlan") -> None:
    import asyncio

    from shoal.cli.process.signals import STOP_SIGNALS
    from shoal.server.serve import serve

    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    await serve(plan, stop, _print)


def _print(listening: "Listening") -> None:
    """Print where to go; the token goes to the terminal only, never to a log."""
    from shoal.cli.views.output import print_line, print_lines

    if listening.token:
        print_line(f"open {listening.url}")
        print_lines([f"or, for programs: curl -H 'Authorization: Bearer {listening.token}' ..."], whole=True)
        print_line("The token is for this run; shoal token add NAME makes one that stays.")
    else:
        print_line(f"listening on {listening.url} ; sign in with a token (shoal token list)")
    sys.stdout.flush()  # it may be a pipe, and the command runs on
