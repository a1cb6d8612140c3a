"""`shoal proxy`: the exits that requests leave through, and their health."""

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import Config, Json, Store, examples, option, setting
from shoal.cli.views.format import count, duration, plural, size, table
from shoal.model.exits.health import success_rate

if TYPE_CHECKING:
    from shoal.model.settings import Settings
    from shoal.services.proxies import ExitCheck, ExitState

LIST_EXAMPLES = examples(
    ("Which exits are there, and how are they?", "shoal proxy list"),
    ("Those of a fleet", "shoal proxy list --store redis://queue.example"),
)
CHECK_EXAMPLES = examples(
    ("Try every exit of a file", "shoal proxy check https://example.com/ --proxy exits.txt"),
)
REST_EXAMPLES = examples(
    ("Do not use it for an hour", "shoal proxy rest gate.example:8000"),
    ("Use it again at once", "shoal proxy rest gate.example:8000 --for 0s"),
)

app = typer.Typer()

Proxy = Annotated[list[str] | None, setting("--proxy", "URL|FILE", "proxies.list")]


@app.callback(invoke_without_command=True)
def proxy(context: typer.Context) -> None:
    """Exits: the proxies that requests leave through, and their health."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list", epilog=LIST_EXAMPLES)
def list_command(
    *, proxy: Proxy = None, store: Store = None, config: Config = None, json: Json = False
) -> None:
    """Show every exit, how often it succeeds, and which ones rest."""
    from asyncio import run

    from shoal.cli.views.output import print_json, print_lines
    from shoal.services.proxies import exit_json, list_exits
    from shoal.services.store_address import public_address

    settings = _settings(proxy, store, config)
    found, now = run(list_exits(settings)), time.time()
    if json:
        exits = [exit_json(exit, now) for exit in found]
        print_json({"store": public_address(settings.store), "exits": exits})
    else:
        print_lines(exit_lines(found, now))


@app.command("check", epilog=CHECK_EXAMPLES)
def check_command(
    url: Annotated[str, typer.Argument(metavar="URL", help="A page to fetch.", show_default=False)],
    *,
    proxy: Proxy = None,
    allow_private: Annotated[bool | None, setting("--allow-private", "", "crawl.allow_private")] = None,
    store: Store = None,
    config: Config = None,
    json: Json = False,
) -> int:
    """Fetch a page through every exit, once.

    An exit that rests and succeeds is used again. Exits with 2 if one fails.
    """
    import uvloop

    from shoal.cli.views.output import print_json, print_lines
    from shoal.services.proxies import check_exits, check_json

    settings = _settings(proxy, store, config, allow_private=allow_private)
    found = uvloop.run(check_exits(settings, url))
    if json:
        print_json({"url": url, "exits": [check_json(check) for check in found]})
    else:
        print_lines(check_lines(found))
    return 2 if any(check.failure for check in found) else 0


@app.command("rest", epilog=REST_EXAMPLES)
def rest_command(
    exit: Annotated[
        str, typer.Argument(metavar="EXIT", help="Its name, as in the list.", show_default=False)
    ],
    *,
    for_: Annotated[
        str, option("--for", "AGE", "How long: 10m, 2h, 1d; 0s: use it again.", default="1h")
    ] = "1h",
    proxy: Proxy = None,
    store: Store = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Use an exit no longer for a while, in every process of the store.

    A running crawl and the workers of a fleet notice within seconds. After that time a single request
    probes it.
    """
    from asyncio import run

    from shoal.cli.input.dead_letter_filters import age
    from shoal.cli.views.output import print_json, print_line
    from shoal.services.proxies import exit_json, rest_exit
    from shoal.services.store_address import public_address

    settings = _settings(proxy, store, config)
    seconds = 0.0 if for_ in ("0", "0s") else age("--for", for_) or 0.0
    found = run(rest_exit(settings, exit, seconds))
    if json:
        print_json({"store": public_address(settings.store), "exit": exit_json(found, time.time())})
    else:
        print_line(f"{found.name} {f'rests for {duration(seconds)}' if seconds else 'is in use again'}")


def _settings(
    proxy: list[str] | None, store: str | None, config: str | None, *, allow_private: bool | None = None
) -> "Settings":
    from shoal.cli.input.settings_loader import load_settings

    flags = {"proxies.list": proxy or None, "store": store, "crawl.allow_private": allow_private}
    given = {key: value for key, value in flags.items() if value is not None}
    return load_settings(given, config=config).settings


def exit_lines(exits: "Sequence[ExitState]", now: float) -> Iterator[str]:
    """Yield a table of exits, then what is wrong with those that rest."""
    if not exits:
        yield "no exits: requests leave directly; shoal crawl --proxy URL uses one"
        return
    rows = []
    blocked = any(exit.hosts_resting for exit in exits)
    for exit in exits:
        record = exit.record
        rate, recent = success_rate(record, now)
        state = exit.state(now)
        if record.rest_until > now:
            state = f"rests {duration(record.rest_until - now)}"
        rows.append(
            [
                exit.name,
                " ".join(filter(None, (exit.kind, exit.country))) or "-",
                state,
                f"{100 * rate:.0f} %" if recent else "-",
                f"{count(record.total - record.successes)} of {count(record.total)}" if record.total else "-",
                size(exit.wire_bytes) if exit.wire_bytes else "-",
                *([plural(exit.hosts_resting, "host") if exit.hosts_resting else "-"] if blocked else []),
            ]
        )
    heading = ["exit", "kind", "state", "success", "failed", "traffic"]
    yield from table([*heading, *(["blocked by"] if blocked else [])], rows, words=(0, 1, 2))
    for exit in exits:
        if exit.record.rest_until > now and exit.record.cause:
            why = f": {exit.record.why.removeprefix('exit: ')}" if exit.record.why else ""
            yield f"{exit.name} rests ({exit.record.cause}){why}"
    out = sum(exit.record.rest_until > now for exit in exits)
    if out == len(exits):
        yield f"all {plural(out, 'exit')} rest: requests wait until one is probed"


def check_lines(checks: "Sequence[ExitCheck]") -> Iterator[str]:
    rows = [
        [
            check.name,
            "fails" if check.failure else "works",
            f"{check.elapsed:.2f} s",
            check.failure.removeprefix("exit: ") or f"status {check.status}",
        ]
        for check in checks
    ]
    yield from table(["exit", "", "time", "answer"], rows, words=(0, 1, 3))
    if any("is not allowed" in check.failure and "address" in check.failure for check in checks):
        yield "--allow-private allows addresses of this machine and of private networks"
