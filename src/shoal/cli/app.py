"""The commands. Importing this module must stay quick: a command imports what it needs when it runs."""

from typing import Annotated

import typer
import typer.main

from shoal import __version__
from shoal.cli.commands import (
    crawl,
    delete,
    demo,
    dlq,
    doctor,
    export,
    fleet,
    host,
    init,
    pause,
    plan,
    reparse,
    shell,
    status,
    submit,
    top,
    trace,
    verify,
    worker,
)
from shoal.cli.input.crawl_options import CrawlOptions
from shoal.cli.input.options import add_command, examples
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
add_command(app, "crawl", CrawlOptions, crawl.command, epilog=crawl.EXAMPLES)
add_command(app, "submit", CrawlOptions, submit.command, epilog=submit.EXAMPLES)
app.command("worker", epilog=worker.EXAMPLES)(worker.command)
add_command(app, "fleet", fleet.FleetOptions, fleet.command, epilog=fleet.EXAMPLES)
app.command("status", epilog=status.EXAMPLES)(status.command)
app.command("top", epilog=top.EXAMPLES)(top.command)
app.command("verify", epilog=verify.EXAMPLES)(verify.command)
app.command("trace", epilog=trace.EXAMPLES)(trace.command)
app.add_typer(dlq.app, name="dlq")
app.add_typer(host.app, name="host")
app.command("plan", epilog=plan.EXAMPLES)(plan.command)
app.command("pause", epilog=pause.PAUSE_EXAMPLES)(pause.pause_command)
app.command("resume", epilog=pause.RESUME_EXAMPLES)(pause.resume_command)
app.command("delete", epilog=delete.EXAMPLES)(delete.command)
app.command("forget", epilog=delete.EXAMPLES, hidden=True)(delete.command)  # former name
add_command(app, "reparse", reparse.ReparseOptions, reparse.command, epilog=reparse.EXAMPLES)
add_command(app, "export", export.ExportOptions, export.command, epilog=export.EXAMPLES)
app.command("shell", epilog=shell.EXAMPLES)(shell.command)
app.command("doctor", epilog=doctor.EXAMPLES)(doctor.command)
app.command("init", epilog=init.EXAMPLES)(init.command)
app.command("demo", epilog=demo.EXAMPLES)(demo.command)


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


def command() -> typer.core.TyperGroup:
    """Build the command tree."""
    built = typer.main.get_command(app)
    assert isinstance(built, typer.core.TyperGroup)
    _format_help(built)
    return built


def _format_help(one: typer.core.TyperCommand | typer.core.TyperGroup) -> None:
    """Rewrap the help of a command and its subcommands to the window, without Python type names."""
    if one.help:
        one.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in one.help.split("\n\n"))
    if help_option := one.get_help_option(typer.Context(one, help_option_names=HELP_FLAGS)):
        help_option.metavar = ""
    if not isinstance(one, PluginGroup):  # that does it by itself
        style_help(one)
    for parameter in one.params:
        if isinstance(parameter, typer.core.TyperArgument):
            parameter.display_type_rich = lambda ctx: None  # type: ignore[method-assign]  # not `<list[str]>`
    for other in getattr(one, "commands", {}).values():
        _format_help(other)
