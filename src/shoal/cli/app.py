"""The commands there are. Importing this must stay quick: what a command needs is imported when it runs."""

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
from shoal.cli.input.options import examples

HELP = ["--help", "-h"]

app = typer.Typer(
    name="shoal",
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": HELP},
    pretty_exceptions_enable=False,
    epilog=examples(
        ("Watch a crawl of a small shop on this machine", "shoal demo"),
        ("One site, one record per page", "shoal crawl https://example.com/ --out pages.jsonl"),
        ("Your own spider", "shoal crawl books.py"),
    ),
)
app.command("crawl", epilog=crawl.EXAMPLES)(crawl.command)
app.command("submit", epilog=submit.EXAMPLES)(submit.command)
app.command("worker", epilog=worker.EXAMPLES)(worker.command)
app.command("fleet", epilog=fleet.EXAMPLES)(fleet.command)
app.command("status", epilog=status.EXAMPLES)(status.command)
app.command("top", epilog=top.EXAMPLES)(top.command)
app.command("verify", epilog=verify.EXAMPLES)(verify.command)
app.command("trace", epilog=trace.EXAMPLES)(trace.command)
app.add_typer(dlq.app, name="dlq")
app.add_typer(host.app, name="host")
app.command("plan", epilog=plan.EXAMPLES)(plan.command)
app.command("pause", epilog=pause.PAUSE_EXAMPLES)(pause.pause_command)
app.command("resume", epilog=pause.RESUME_EXAMPLES)(pause.resume_command)
app.command("forget", epilog=delete.EXAMPLES)(delete.command)
app.command("reparse", epilog=reparse.EXAMPLES)(reparse.command)
app.command("export", epilog=export.EXAMPLES)(export.command)
app.command("shell", epilog=shell.EXAMPLES)(shell.command)
app.command("doctor", epilog=doctor.EXAMPLES)(doctor.command)
app.command("init", epilog=init.EXAMPLES)(init.command)
app.command("demo", epilog=demo.EXAMPLES)(demo.command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shoal {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def shoal(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, metavar="", help="Print the version and exit."
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
    _lay_out(built)
    return built


def _lay_out(one: typer.core.TyperCommand | typer.core.TyperGroup) -> None:
    """Let the help of a command, and of those below it, flow with the window and speak no Python."""
    if one.help:
        one.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in one.help.split("\n\n"))
    if asks := one.get_help_option(typer.Context(one, help_option_names=HELP)):
        asks.metavar = ""
    for taken in one.params:
        if isinstance(taken, typer.core.TyperArgument):
            taken.display_type_rich = lambda ctx: None  # type: ignore[method-assign]  # not `<list[str]>`
    for other in getattr(one, "commands", {}).values():
        _lay_out(other)
