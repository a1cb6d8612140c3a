"""`shoal schedule`: crawls that start by themselves."""

import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from shoal.cli.input.options import Config, Json, Store, examples
from shoal.cli.views.format import duration, table, utc_time
from shoal.cli.views.output import print_json, print_lines, print_message
from shoal.model.printable import printable

if TYPE_CHECKING:
    from shoal.services.schedules.launch import LaunchRules
    from shoal.services.schedules.manage import KnownSchedule, Schedule, StoredSchedules

T = TypeVar("T")

ADD_EXAMPLES = examples(
    (
        "Every night at half past three in Berlin",
        "shoal schedule add books --cron '30 3 * * *' --timezone Europe/Berlin -- books.py --out books.jsonl",
    ),
    (
        "A file per night, those of the last week",
        "shoal schedule add books --cron '30 3 * * *' --keep 7 -- books.py --out books-{tick}.jsonl",
    ),
    (
        "Every hour those pages that are due, 5,000 a day",
        "shoal schedule add news --every 1h --adaptive --budget 5000/day -- news.py",
    ),
    ("Every six hours, at most one at a time", "shoal schedule add news --every 6h -- https://example.com/"),
    (
        "Spread over ten minutes, from a list",
        "shoal schedule add shops --every 1d --jitter 10m --overlap queue -- shop.py --seeds shops.txt",
    ),
)
LIST_EXAMPLES = examples(("When each runs next, and how the last one ended", "shoal schedule list"))
RUN_EXAMPLES = examples(
    ("Serve the schedules of a folder", "shoal schedule run"),
    ("Serve those of a fleet; start as many as you like", "shoal schedule run --store redis://queue.example"),
    ("Run what is due and exit, from another scheduler", "shoal schedule run --once"),
)
PAUSE_EXAMPLES = examples(("Start no more crawls of a schedule", "shoal schedule pause books"))
RESUME_EXAMPLES = examples(("Start them again", "shoal schedule resume books"))
REMOVE_EXAMPLES = examples(("Remove a schedule; its crawls stay", "shoal schedule remove books"))

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the schedule.")]

app = typer.Typer()


@app.callback(invoke_without_command=True)
def schedule(context: typer.Context) -> None:
    """Schedules: crawls that start by themselves."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("add", epilog=ADD_EXAMPLES)
def add_command(
    name: Name,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- TARGET [OPTIONS]",
            help="As for shoal crawl; {tick} is the time of the tick.",
            show_default=False,
        ),
    ] = None,
    *,
    cron: Annotated[str | None, typer.Option(help="When: five fields, as in a crontab.")] = None,
    every: Annotated[str | None, typer.Option(help="How often: 90s, 15m, 2h, 7d.")] = None,
    timezone: Annotated[str, typer.Option(help="Time zone of --cron.")] = "UTC",
    jitter: Annotated[str | None, typer.Option(help="Delay each start by up to this: 10m.")] = None,
    overlap: Annotated[
        str, typer.Option(help="If the crawl before still runs: skip, queue or replace.")
    ] = "skip",
    missed: Annotated[
        str, typer.Option(help="Ticks while no scheduler ran: one (the latest), all or skip.")
    ] = "one",
    again: Annotated[
        bool,
        typer.Option(
            "--again/--separate",
            help="A tick begins a new generation of the crawl NAME, or starts a separate crawl NAME-TIME.",
        ),
    ] = True,
    keep: Annotated[
        int, typer.Option(help="Runs that stay; older ones are removed with their files; 0: all.")
    ] = 0,
    adaptive: Annotated[
        bool,
        typer.Option("--adaptive", help="Ask only for pages that are due, by how often they change."),
    ] = False,
    budget: Annotated[
        str | None,
        typer.Option(help="With --adaptive: requests per day, such as 5000/day.", show_default=False),
    ] = None,
    store: Store = None,
    config: Config = None,
) -> None:
    """Add a schedule. Each tick begins a new generation of the crawl NAME, with the options after `--`.

    Pages that have not changed are neither sent nor parsed again, shoal diff NAME prints what has, and an
    output is replaced when the generation has succeeded. Spider and outputs are checked now.
    """
    from shoal.cli.input.dead_letter_filters import age
    from shoal.cli.input.settings_loader import load_settings
    from shoal.model.configuration.crawl_definition import parse_command
    from shoal.model.errors import Misconfigured
    from shoal.services.schedules.manage import Missed, Overlap, Schedule
    from shoal.services.schedules.serve import add_checked

    if not arguments:
        raise Misconfigured(
            f"schedule add: what should {name} crawl? After the name and -- comes what shoal crawl takes:"
            " shoal schedule add NAME --every 6h -- books.py --out books.jsonl"
        )
    for flag, value, known in (("--overlap", overlap, Overlap), ("--missed", missed, Missed)):
        if value not in list(known):
            raise Misconfigured(f"{flag} {value!r}: must be one of {', '.join(known)}")
    added = Schedule(
        name=name,
        folder=os.getcwd(),
        crawl=parse_command(arguments),
        cron=cron or "",
        every_s=age("--every", every) or 0.0,
        timezone=timezone,
        jitter_s=age("--jitter", jitter) or 0.0,
        overlap=Overlap(overlap),
        missed=Missed(missed),
        created_at=float(int(time.time())),
        again=again,
        adaptive=adaptive,
        budget=requests_per_day(budget),
        keep=keep,
    )
    settings = load_settings({} if store is None else {"store": store}, config=config).settings
    _run(add_checked(settings.store, added, settings, config=config))
    print_lines([f"added {printable(name)}; shoal schedule run serves it"])


def requests_per_day(text: str | None) -> float:
    """Return the value of --budget; raise `Misconfigured` if it is not a number of requests per day."""
    from shoal.model.errors import Misconfigured

    number = (text or "0").removesuffix("/day")
    if not (number.isascii() and number.isdecimal() and len(number) <= 12):
        raise Misconfigured(f"--budget {text!r}: not a number of requests per day, such as 5000/day")
    return float(number)


@app.command("list", epilog=LIST_EXAMPLES)
def list_command(store: Store = None, config: Config = None, json: Json = False) -> None:
    """List the schedules: when they run next, and what has become of the last tick."""
    from shoal.services.schedules.manage import list_schedules
    from shoal.services.schedules.schedule_json import schedule_json

    found = _run(_change(store, config, lambda records: list_schedules(records, time.time())))
    if json:
        print_json({"schedules": [schedule_json(one) for one in found]})
        return
    rows = [_row(one) for one in found]
    print_lines(
        table(("schedule", "when", "next", "last", "state"), rows, words=(0, 1, 2, 3, 4))
        if rows
        else ["no schedules; shoal schedule add makes one"]
    )


@app.command("run", epilog=RUN_EXAMPLES)
def run_command(
    once: Annotated[bool, typer.Option("--once", help="Run what is due now to its end, and exit.")] = False,
    store: Store = None,
    config: Config = None,
) -> int:
    """Start the crawls of all schedules when they are due, until Ctrl-C."""
    import uvloop

    from shoal.cli.input.settings_loader import load_settings
    from shoal.cli.process.log_format import start_logging
    from shoal.services.schedules.serve import launch_rules

    start_logging(verbose=1)
    settings = load_settings({} if store is None else {"store": store}, config=config).settings
    return uvloop.run(_serve(settings.store, launch_rules(settings, config=config), once=once))


@app.command("pause", epilog=PAUSE_EXAMPLES)
def pause_command(name: Name, store: Store = None, config: Config = None) -> None:
    """Start no more crawls of a schedule until it is resumed."""
    from shoal.services.schedules.manage import pause_schedule

    _run(_change(store, config, lambda records: pause_schedule(records, name, paused=True, now=time.time())))
    print_lines([f"paused {printable(name)}"])


@app.command("resume", epilog=RESUME_EXAMPLES)
def resume_command(name: Name, store: Store = None, config: Config = None) -> None:
    """Start crawls of a schedule again; ticks of the pause count as missed."""
    from shoal.services.schedules.manage import pause_schedule

    _run(_change(store, config, lambda records: pause_schedule(records, name, paused=False, now=time.time())))
    print_lines([f"resumed {printable(name)}"])


@app.command("remove", epilog=REMOVE_EXAMPLES)
def remove_command(name: Name, store: Store = None, config: Config = None) -> None:
    """Remove a schedule; the crawls that it has started stay."""
    from shoal.services.schedules.manage import remove_schedule

    _run(_change(store, config, lambda records: remove_schedule(records, name)))
    print_lines([f"removed {printable(name)}"])


def _run(work: "Coroutine[Any, Any, T]") -> "T":
    from asyncio import run

    return run(work)


async def _change(
    store: str | None, config: str | None, change: "Callable[[StoredSchedules], Awaitable[T]]"
) -> "T":
    from shoal.cli.input.settings_loader import chosen_store
    from shoal.services.schedules.serve import open_schedules

    async with open_schedules(chosen_store(store, config=config)) as records:
        return await change(records)


async def _serve(dsn: str, rules: "LaunchRules", *, once: bool) -> int:
    from shoal.cli.process.signals import stop_on_signals
    from shoal.services.alerts.scheduler import SchedulerAlerts
    from shoal.services.crawl import Stop
    from shoal.services.schedules.serve import serve_schedules

    stop = Stop()
    with stop_on_signals(stop, print_message, resume="shoal schedule run"):
        async with SchedulerAlerts.open(rules.settings) as watch:
            await serve_schedules(rules.settings.store, stop, rules, once=once, watch=watch)
    return 0


def _when(found: "Schedule") -> str:
    if found.every_s:
        return f"every {duration(found.every_s)}"
    return f"{found.cron} {found.timezone}"


def _row(one: "KnownSchedule") -> tuple[str, ...]:
    last = one.state.runs[-1] if one.state.runs else None
    return (
        printable(one.schedule.name),
        printable(_when(one.schedule)),
        "paused" if one.schedule.paused else utc_time(one.next_at) if one.next_at is not None else "never",
        "-" if last is None else utc_time(last.tick),
        "-" if last is None else printable(f"{last.state.value}{f': {last.why}' if last.why else ''}"),
    )
