"""The commands. Importing this module must stay quick: a command imports what it needs when it runs."""

import copy
from typing import Annotated

import typer
import typer.main

from shoal import __version__
from shoal.cli.commands.control import accept, delete, dlq, host, pause, proxy, schedule, token
from shoal.cli.commands.inspect import (
    alerts,
    doctor,
    graph,
    plan,
    report,
    shell,
    sql,
    status,
    top,
    trace,
    try_page,
    urls,
    verify,
)
from shoal.cli.commands.reprocess import diff, export, reparse
from shoal.cli.commands.run import autoscale, crawl, demo, fleet, init, serve, submit, worker
from shoal.cli.input.crawl_options import CrawlOptions
from shoal.cli.input.options import add_command, examples
from shoal.cli.input.text_values import keep_text
from shoal.cli.plugin_commands import PluginGroup, style_help

HELP_FLAGS = ["--help", "-h"]

app = typer.Typer(
    name="shoal",
    cls=PluginGroup,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": HELP_FLAGS},
    pretty_exceptions_enable=False,
    epilog=examples(
        ("Watch a crawl of a small shop on this machine", "shoal demo"),
        ("One site, one record per page", "shoal crawl https://example.com/ --out pages.jsonl"),
        ("Your spider", "shoal crawl books.py"),
    ),
)
_START, _WATCH, _STEER = "Start here", "Watch and inspect", "Steer"
_DATA, _FLEET, _OPERATE = "Data of a crawl", "Fleet", "Operate"

app.command("demo", epilog=demo.EXAMPLES, rich_help_panel=_START)(demo.command)
add_command(app, "crawl", crawl.RunOptions, crawl.command, epilog=crawl.EXAMPLES, panel=_START)
app.command("init", epilog=init.EXAMPLES, rich_help_panel=_START)(init.command)
app.command("try", epilog=try_page.EXAMPLES, rich_help_panel=_START)(try_page.command)
app.command("shell", epilog=shell.EXAMPLES, rich_help_panel=_START)(shell.command)
app.command("plan", epilog=plan.EXAMPLES, rich_help_panel=_START)(plan.command)

app.command("status", epilog=status.EXAMPLES, rich_help_panel=_WATCH)(status.command)
app.command("top", epilog=top.EXAMPLES, rich_help_panel=_WATCH)(top.command)
app.command("serve", epilog=serve.EXAMPLES, rich_help_panel=_WATCH)(serve.command)
app.command("verify", epilog=verify.EXAMPLES, rich_help_panel=_WATCH)(verify.command)
app.command("trace", epilog=trace.EXAMPLES, rich_help_panel=_WATCH)(trace.command)
add_command(app, "urls", urls.UrlOptions, urls.command, epilog=urls.EXAMPLES, panel=_WATCH)
app.command("graph", epilog=graph.EXAMPLES, rich_help_panel=_WATCH)(graph.command)
app.command("sql", epilog=sql.EXAMPLES, rich_help_panel=_WATCH)(sql.command)
app.command("report", epilog=report.EXAMPLES, rich_help_panel=_WATCH)(report.command)
app.command("alerts", epilog=alerts.EXAMPLES, rich_help_panel=_WATCH)(alerts.command)

app.add_typer(dlq.app, name="dlq", rich_help_panel=_STEER)
app.command("pause", epilog=pause.PAUSE_EXAMPLES, rich_help_panel=_STEER)(pause.pause_command)
app.command("resume", epilog=pause.RESUME_EXAMPLES, rich_help_panel=_STEER)(pause.resume_command)
app.add_typer(host.app, name="host", rich_help_panel=_STEER)
app.add_typer(proxy.app, name="proxy", rich_help_panel=_STEER)
app.add_typer(schedule.app, name="schedule", rich_help_panel=_STEER)
app.command("accept", epilog=accept.EXAMPLES, rich_help_panel=_STEER)(accept.command)
app.command("delete", epilog=delete.EXAMPLES, rich_help_panel=_STEER)(delete.command)
app.command("forget", epilog=delete.EXAMPLES, hidden=True)(delete.command)  # former name

add_command(app, "export", export.ExportOptions, export.command, epilog=export.EXAMPLES, panel=_DATA)
add_command(app, "reparse", reparse.ReparseOptions, reparse.command, epilog=reparse.EXAMPLES, panel=_DATA)
app.command("diff", epilog=diff.EXAMPLES, rich_help_panel=_DATA)(diff.command)

add_command(app, "fleet", fleet.FleetOptions, fleet.command, epilog=fleet.EXAMPLES, panel=_FLEET)
add_command(app, "submit", CrawlOptions, submit.command, epilog=submit.EXAMPLES, panel=_FLEET)
app.command("worker", epilog=worker.EXAMPLES, rich_help_panel=_FLEET)(worker.command)
app.command("autoscale", epilog=autoscale.EXAMPLES, rich_help_panel=_FLEET)(autoscale.command)

app.command("doctor", epilog=doctor.EXAMPLES, rich_help_panel=_OPERATE)(doctor.command)
app.add_typer(token.app, name="token", rich_help_panel=_OPERATE)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shoal {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def shoal(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            metavar="",
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    """Crawl the web: nothing lost, nothing doubled, never impolite."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def command(first: str = "") -> typer.core.TyperGroup:
    """Build the command tree.

    `first` is the first argument of the command line. If it names a command, only that one is built: building
    all of them takes a tenth of the time of a crawl of one page.
    """
    built = typer.main.get_command(_only(first) or app)
    assert isinstance(built, typer.core.TyperGroup)
    _format_help(built)
    return built


def _only(name: str) -> typer.Typer | None:
    """Return the application with one of its commands; None if it has none of that name."""
    one = copy.copy(app)
    one.registered_commands = [known for known in app.registered_commands if known.name == name]
    one.registered_groups = [known for known in app.registered_groups if known.name == name]
    return one if one.registered_commands or one.registered_groups else None


def _format_help(one: typer.core.TyperCommand | typer.core.TyperGroup) -> None:
    """Rewrap the help of a command and its subcommands to the window, without Python type names."""
    if one.help:
        one.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in one.help.split("\n\n"))
    if help_option := one.get_help_option(typer.Context(one, help_option_names=HELP_FLAGS)):
        help_option.metavar = ""
        keep_text(help_option)
    if not isinstance(one, PluginGroup):  # that does it by itself
        style_help(one)
    for parameter in one.params:
        keep_text(parameter)
        if isinstance(parameter, typer.core.TyperOption):
            _hide_range(parameter)
        if isinstance(parameter, typer.core.TyperArgument):
            parameter.display_type_rich = lambda ctx: None  # type: ignore[method-assign]  # not `<list[str]>`
    for other in getattr(one, "commands", {}).values():
        _format_help(other)


def _hide_range(option: typer.core.TyperOption) -> None:
    """Leave `[0<=x<=1000000000000]` out of the help; a value out of range is an error that names it."""
    option._get_number_range_help_str = lambda: None  # type: ignore[method-assign]
