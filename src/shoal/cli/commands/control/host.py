"""`shoal host`: the pace and pauses of one host, also while a crawl runs."""

import math
import time
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import Config, Json, Store, examples, option
from shoal.cli.views.format import duration, plural
from shoal.model.adaptive_delay import HostRemedy
from shoal.model.configuration.setting_ranges import RANGES
from shoal.model.errors import Misconfigured

if TYPE_CHECKING:
    from shoal.services.control.hosts import ClearHost, HostView, SetHost

SHOW_EXAMPLES = examples(("Why is this host so slow?", "shoal host show shop.example"))
RATE_EXAMPLES = examples(
    ("One request every four seconds", "shoal host set-rate shop.example 0.25"),
    ("Ten per second, one at a time", "shoal host set-rate shop.example 10 --at-once 1"),
    ("Back to the settings", "shoal host set-rate shop.example default"),
)
PAUSE_EXAMPLES = examples(
    ("Until further notice", "shoal host pause shop.example"),
    ("For two hours", "shoal host pause shop.example --for 2h"),
)
BLOCK_EXAMPLES = examples(("No more requests", "shoal host block shop.example"))
REFRESH_EXAMPLES = examples(("Its rules have changed", "shoal host refresh-robots shop.example"))
LEVEL_EXAMPLES = examples(
    ("Always with a browser", "shoal host set-level shop.example browser"),
    ("Never with more than the plain client", "shoal host set-level shop.example plain"),
    ("Learned again", "shoal host set-level shop.example auto"),
)
RESET_EXAMPLES = examples(("Start again at the first level", "shoal host reset-level shop.example"))
RESUME_EXAMPLES = examples(("End a pause or a block", "shoal host resume shop.example"))

ADVICE = {
    HostRemedy.SLOW_DOWN: "a slower pace, which Shoal applies by itself",
    HostRemedy.ROTATE_EXIT: "another address: the host refuses this one",
    HostRemedy.ESCALATE: "a client that passes for a browser: the host challenges this one",
}

app = typer.Typer()

Host = Annotated[
    str, typer.Argument(metavar="HOST", help="Its name, or one of its URLs.", show_default=False)
]


@app.callback(invoke_without_command=True)
def host(context: typer.Context) -> None:
    """Hosts: their pace, and pausing them, also while a crawl runs."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("show", epilog=SHOW_EXAMPLES)
def show_command(host: Host, *, store: Store = None, config: Config = None, json: Json = False) -> None:
    """Show the pace of a host and what limits it."""
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.levels import host_level_lines
    from shoal.cli.views.output import print_json, print_lines
    from shoal.model.url import host_name
    from shoal.services.control.hosts import host_json, show_host
    from shoal.services.control.levels import host_level, host_levels_json
    from shoal.services.store_address import public_address

    address = chosen_store(store, config=config)
    name = host_name(host)
    found, levels = run(show_host(address, name)), run(host_level(address, name))
    if found is None:
        raise Misconfigured(f"{public_address(address)} knows no host {name}: no crawl has requests for it")
    if json:
        known = None if levels is None else host_levels_json(levels)
        print_json({"store": public_address(address), "host": host_json(found), "levels": known})
    else:
        print_lines(host_lines(found, time.time()))
        if levels is not None:
            print_lines(f"  {line}" for line in host_level_lines(levels, time.time()))


@app.command("set-rate", epilog=RATE_EXAMPLES)
def rate_command(
    host: Host,
    rate: Annotated[
        str,
        typer.Argument(
            metavar="RATE", help="Requests per second; 0: no limit; default: the rate of the settings."
        ),
    ],
    *,
    at_once: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=10_000, help="Requests at once.", show_default=False)
    ] = None,
    store: Store = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Set the rate of one host, until you set it back to default.

    It overrides shoal.toml and --rate, in every crawl of the store, and ends an adaptive slow-down. The
    delays that robots.txt and the host itself ask for still apply.
    """
    from shoal.model.url import host_name
    from shoal.services.control.hosts import ClearHost, SetHost

    name, wanted = host_name(host), parse_rate(rate)
    if wanted is None and at_once is not None:
        raise Misconfigured("--at-once needs a rate: default resets both")
    change: SetHost | ClearHost
    if wanted is None:
        change, text = ClearHost(name), "has the rate of the settings again"
    elif wanted == 0:
        change, text = SetHost(name, interval=0.0, concurrency=at_once), "has no rate limit now"
    else:
        change = SetHost(name, interval=1 / wanted, concurrency=at_once)
        text = f"is limited to {wanted:g} requests per second now"
    _change(change, f"{name} {text}, and is no longer slowed down; ", store=store, config=config, json=json)


@app.command("set-level", epilog=LEVEL_EXAMPLES)
def level_command(
    host: Host,
    level: Annotated[str, typer.Argument(metavar="LEVEL", help="plain, impersonate, browser or auto.")],
    *,
    store: Store = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Set how the pages of a host are fetched, until you set it to auto.

    It overrides shoal.toml, in every crawl of the store. Running crawls notice within seconds.
    """
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.output import print_json, print_line
    from shoal.model.url import host_name
    from shoal.services.control.levels import host_levels_json, set_level
    from shoal.services.store_address import public_address

    address, name = chosen_store(store, config=config), host_name(host)
    found = run(set_level(address, name, level))
    if json:
        print_json({"store": public_address(address), "levels": host_levels_json(found)})
    elif found.pin:
        print_line(f"pages of {name} are fetched at level {found.pin} now")
    else:
        print_line(f"the level of {name} is learned again")


@app.command("reset-level", epilog=RESET_EXAMPLES)
def reset_command(host: Host, *, store: Store = None, config: Config = None, json: Json = False) -> None:
    """Forget what was learned about the level of a host: its pages start at the first level again."""
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.output import print_json, print_line
    from shoal.model.url import host_name
    from shoal.services.control.levels import reset_level
    from shoal.services.store_address import public_address

    address, name = chosen_store(store, config=config), host_name(host)
    run(reset_level(address, name))
    if json:
        print_json({"store": public_address(address), "host": name, "reset": True})
    else:
        print_line(f"the pages of {name} start at the first level again")


@app.command("pause", epilog=PAUSE_EXAMPLES)
def pause_command(
    host: Host,
    *,
    for_: Annotated[
        str | None, option("--for", "AGE", "How long: 10m, 2h, 1d.", default="without limit")
    ] = None,
    store: Store = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Send nothing to a host for a while.

    Its requests keep their place in the queue; other hosts are not affected.
    """
    from shoal.cli.input.dead_letter_filters import age
    from shoal.model.url import host_name
    from shoal.services.control.hosts import SetHost

    name, seconds = host_name(host), age("--for", for_)
    if seconds is None:
        change, text = SetHost(name, paused=True), f"{name} is paused until shoal host resume; "
    else:
        change = SetHost(name, rest_until=time.time() + seconds)
        text = f"{name} is paused for {duration(seconds)}; "
    _change(change, text, store=store, config=config, json=json)


@app.command("block", epilog=BLOCK_EXAMPLES)
def block_command(host: Host, *, store: Store = None, config: Config = None, json: Json = False) -> None:
    """Send nothing more to a host.

    Its requests stay in the queue: shoal host resume releases them.
    """
    from shoal.model.url import host_name
    from shoal.services.control.hosts import SetHost

    name = host_name(host)
    text = f"{name} is blocked: no more requests to it; "
    _change(SetHost(name, paused=True), text, store=store, config=config, json=json)


@app.command("resume", epilog=RESUME_EXAMPLES)
def resume_command(host: Host, *, store: Store = None, config: Config = None, json: Json = False) -> None:
    """End the pause, block, rest or slow-down of a host."""
    from shoal.model.url import host_name
    from shoal.services.control.hosts import SetHost

    name = host_name(host)
    change = SetHost(name, paused=False, rest_until=0.0)
    _change(change, f"{name} is no longer paused or slowed down; ", store=store, config=config, json=json)


@app.command("refresh-robots", epilog=REFRESH_EXAMPLES)
def refresh_command(host: Host, *, store: Store = None, config: Config = None, json: Json = False) -> None:
    """Fetch the robots.txt of a host again, before its next request.

    A running crawl and the workers of a fleet notice within crawl.robots_min_ttl: a minute by default.
    """
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.output import print_json, print_line
    from shoal.model.url import host_name
    from shoal.services.control.hosts import refresh_robots
    from shoal.services.store_address import public_address

    address = chosen_store(store, config=config)
    name = host_name(host)
    run(refresh_robots(address, name))
    if json:
        print_json({"store": public_address(address), "host": name, "refreshed": True})
    else:
        print_line(f"the robots.txt of {name} will be fetched again")


def _change(
    change: "SetHost | ClearHost", text: str, *, store: str | None, config: str | None, json: bool
) -> None:
    from asyncio import run

    from shoal.cli.input.settings_loader import chosen_store
    from shoal.cli.views.output import print_json, print_line
    from shoal.services.control.hosts import host_json, set_host
    from shoal.services.store_address import public_address

    address = chosen_store(store, config=config)
    found = run(set_host(address, change))
    if json:
        print_json({"store": public_address(address), "host": host_json(found)})
    else:
        print_line(f"{text}{plural(found.waiting, 'request')} waiting")


def parse_rate(text: str) -> float | None:
    """Parse a rate; return None for `default`, the rate of the settings."""
    if text == "default":
        return None
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if rate not in RANGES["crawl.rate"]:
        raise Misconfigured(f"{text!r} is not a rate: use requests per second, as in 0.5, or 0, or default")
    return rate


def host_lines(host: "HostView", now: float) -> list[str]:
    from shoal.cli.commands.inspect.trace import host_line
    from shoal.cli.views.format import utc_time

    lines = [
        host_line(host, now),
        f"  {host.inflight} of {host.concurrency} requests at once, bursts of {host.burst}",
    ]
    if host.crawl_delay > 0:
        delay = duration(host.crawl_delay)
        lines.append(f"  robots.txt asks for {delay} between requests; at most crawl.max_crawl_delay counts")
    if host.next_turn > now:
        lines.append(f"  next request {utc_time(host.next_turn)}, in {duration(host.next_turn - now)}")
    if host.trouble:
        kinds = ", ".join(f"{count} {kind}" for kind, count in host.trouble.items())
        lines.append(f"  of its last {plural(len(host.responses), 'response')}: {kinds}")
    if (spike := host.spike) is not None:
        lines.append(f"  what helps: {ADVICE[spike.remedy]}")
    if host.failures:
        lines.append(f"  {plural(host.failures, 'failed attempt')} since the crawl started")
    return lines
