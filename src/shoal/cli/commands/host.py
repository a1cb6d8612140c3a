"""`shoal host`: one host's pace and pauses, also while a crawl runs."""

import math
import time
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import Config, Json, Store, examples, option
from shoal.cli.views.format import counted, duration
from shoal.model.errors import Misconfigured, Rejected
from shoal.stores.address import is_redis, shown_store

if TYPE_CHECKING:
    from shoal.services.control.hosts import HostView
    from shoal.stores.folder.control_socket import ClearHost, SetHost

SHOW_EXAMPLES = examples(("Why is this host so slow?", "shoal host show shop.example"))
RATE_EXAMPLES = examples(
    ("One request every four seconds", "shoal host set-rate shop.example 0.25"),
    ("Ten a second, one at a time", "shoal host set-rate shop.example 10 --at-once 1"),
    ("As the settings say, again", "shoal host set-rate shop.example default"),
)
PAUSE_EXAMPLES = examples(
    ("Until further notice", "shoal host pause shop.example"),
    ("For two hours", "shoal host pause shop.example --for 2h"),
)
BLOCK_EXAMPLES = examples(("Never again", "shoal host block shop.example"))
RESUME_EXAMPLES = examples(("Go on there", "shoal host resume shop.example"))

app = typer.Typer()

Host = Annotated[str, typer.Argument(metavar="HOST", help="Its name, or a URL there.", show_default=False)]


@app.callback(invoke_without_command=True)
def host(context: typer.Context) -> None:
    """Hosts: their pace, and pausing them, also while a crawl runs."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("show", epilog=SHOW_EXAMPLES)
def show_command(host: Host, *, store: Store = None, config: Config = None, json: Json = False) -> None:
    """Show a host's pace and what stands in the way."""
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.output import put, put_json
    from shoal.services.control.hosts import show_host

    address = chosen_store(store, config=config)
    name = host_name(host)
    found = run(show_host(address, name))
    if found is None:
        forgotten = ", or for long" if is_redis(address) else ""
        raise Misconfigured(f"no crawl of {shown_store(address)} has met {name}{forgotten}")
    if json:
        put_json({"store": shown_store(address), "host": host_json(found)})
    else:
        put("\n".join(host_lines(found, time.time())))


@app.command("set-rate", epilog=RATE_EXAMPLES)
def rate_command(
    host: Host,
    rate: Annotated[
        str,
        typer.Argument(
            metavar="RATE", help="Requests per second; 0: no limit; default: as the settings say."
        ),
    ],
    *,
    at_once: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Requests out at once.", show_default=False)
    ] = None,
    store: Store = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Give a host a pace of its own, until you take it back.

    It goes before shoal.toml and --rate, in every crawl of the store. What robots.txt and the host itself ask
    for still applies.
    """
    from shoal.stores.folder.control_socket import ClearHost, SetHost

    name, wanted = host_name(host), rate_given(rate)
    if wanted is None and at_once is not None:
        raise Misconfigured("--at-once goes with a rate: default takes both back")
    change: SetHost | ClearHost
    if wanted is None:
        change, told = ClearHost(name), "is now asked as the settings say"
    elif wanted == 0:
        change, told = SetHost(name, interval=0.0, concurrency=at_once), "is now asked as fast as it answers"
    else:
        change = SetHost(name, interval=1 / wanted, concurrency=at_once)
        told = f"is now asked at {wanted:g} requests per second"
    _change(change, f"{name} {told}; ", store=store, config=config, json=json)


@app.command("pause", epilog=PAUSE_EXAMPLES)
def pause_command(
    host: Host,
    *,
    for_: Annotated[str | None, option("--for", "AGE", "How long: 10m, 2h, 1d.", default="no end")] = None,
    store: Store = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Send nothing more to a host for a while.

    What waits for it keeps its place; other hosts go on.
    """
    from shoal.cli.input.dead_letter_filters import age
    from shoal.stores.folder.control_socket import SetHost

    name, seconds = host_name(host), age("--for", for_)
    if seconds is None:
        change, told = SetHost(name, paused=True), f"{name} is paused until shoal host resume; "
    else:
        change = SetHost(name, rest_until=time.time() + seconds)
        told = f"{name} is paused for {duration(seconds)}; "
    _change(change, told, store=store, config=config, json=json)


@app.command("block", epilog=BLOCK_EXAMPLES)
def block_command(host: Host, *, store: Store = None, config: Config = None, json: Json = False) -> None:
    """Send nothing more to a host, for good.

    Its requests stay counted as waiting and are not lost: shoal host resume brings them back.
    """
    from shoal.stores.folder.control_socket import SetHost

    name = host_name(host)
    told = f"{name} is blocked, nothing more is fetched there; "
    _change(SetHost(name, paused=True), told, store=store, config=config, json=json)


@app.command("resume", epilog=RESUME_EXAMPLES)
def resume_command(host: Host, *, store: Store = None, config: Config = None, json: Json = False) -> None:
    """End a host's pause, block or rest."""
    from shoal.stores.folder.control_socket import SetHost

    name = host_name(host)
    change = SetHost(name, paused=False, rest_until=0.0)
    _change(change, f"{name} may be asked again; ", store=store, config=config, json=json)


def _change(
    change: "SetHost | ClearHost", told: str, *, store: str | None, config: str | None, json: bool
) -> None:
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.output import put, put_json
    from shoal.services.control.hosts import set_host

    address = chosen_store(store, config=config)
    found = run(set_host(address, change))
    if json:
        put_json({"store": shown_store(address), "host": host_json(found)})
    else:
        put(f"{told}{counted(found.waiting, 'request')} waiting there")


def rate_given(text: str) -> float | None:
    """Read a rate; None: `default`, the pace that the settings say."""
    if text == "default":
        return None
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0 <= rate < math.inf:
        raise Misconfigured(f"{text!r} is no rate: give requests per second, as in 0.5, or 0, or default")
    return rate


def host_name(text: str) -> str:
    """Read a host as people give it: a name, perhaps with a port, or a URL."""
    from shoal.model.url import canonical, host_key

    try:
        name = host_key(canonical(text if "://" in text else f"http://{text}/"))
    except Rejected:
        name = ""
    if not name:
        raise Misconfigured(f"{text!r} is not the name of a host, as in shop.example or 127.0.0.1:8000")
    return name


def host_json(host: "HostView") -> dict[str, object]:
    from msgspec import to_builtins

    found: dict[str, object] = to_builtins(host)
    return found


def host_lines(host: "HostView", now: float) -> list[str]:
    from shoal.cli.commands.trace import host_line
    from shoal.cli.views.dead_letters import instant

    lines = [
        host_line(host, now),
        f"  {host.inflight} of {host.concurrency} out at once, bursts of {host.burst}",
    ]
    if host.crawl_delay > 0:
        lines.append(f"  robots.txt asks for {duration(host.crawl_delay)} between requests")
    if host.next_turn > now:
        lines.append(f"  next turn {instant(host.next_turn)}, in {duration(host.next_turn - now)}")
    if host.failures:
        lines.append(f"  {counted(host.failures, 'failed attempt')} since the crawl was started")
    return lines
