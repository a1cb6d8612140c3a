"""The commands. A command's module is imported when it is called; for `shoal --help`, all of them are."""

from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, NamedTuple

import typer
import typer.main

from shoal import __version__
from shoal.cli.input.options import add_command, examples
from shoal.cli.input.text_values import keep_text
from shoal.cli.plugin_commands import PluginGroup, style_help

HELP_FLAGS = ["--help", "-h"]

_START, _WATCH, _STEER = "Start here", "Watch and inspect", "Steer"
_DATA, _FLEET, _OPERATE = "Data of a crawl", "Fleet", "Operate"


class Row(NamedTuple):
    """One command, and where its module has the parts of it."""

    name: str
    module: str  # in `shoal.cli.commands`
    panel: str | None
    options: str = ""  # the dataclass of its options, where it has one
    function: str = "command"
    examples: str = "EXAMPLES"
    is_group: bool = False  # the module has an `app` with commands of its own


COMMANDS = (
    Row("demo", "run.demo", _START),
    Row("crawl", "run.crawl", _START, "RunOptions"),
    Row("init", "run.init", _START),
    Row("try", "inspect.try_page", _START),
    Row("shell", "inspect.shell", _START),
    Row("plan", "inspect.plan", _START),
    Row("status", "inspect.status", _WATCH),
    Row("top", "inspect.top", _WATCH),
    Row("serve", "run.serve", _WATCH),
    Row("verify", "inspect.verify", _WATCH),
    Row("trace", "inspect.trace", _WATCH),
    Row("urls", "inspect.urls", _WATCH, "UrlOptions"),
    Row("graph", "inspect.graph", _WATCH),
    Row("sql", "inspect.sql", _WATCH),
    Row("report", "inspect.report", _WATCH),
    Row("alerts", "inspect.alerts", _WATCH),
    Row("dlq", "control.dlq", _STEER, is_group=True),
    Row("pause", "control.pause", _STEER, function="pause_command", examples="PAUSE_EXAMPLES"),
    Row("resume", "control.pause", _STEER, function="resume_command", examples="RESUME_EXAMPLES"),
    Row("host", "control.host", _STEER, is_group=True),
    Row("proxy", "control.proxy", _STEER, is_group=True),
    Row("schedule", "control.schedule", _STEER, is_group=True),
    Row("delete", "control.delete", _STEER),
    Row("forget", "control.delete", None),  # former name, not listed
    Row("export", "reprocess.export", _DATA, "ExportOptions"),
    Row("reparse", "reprocess.reparse", _DATA, "ReparseOptions"),
    Row("diff", "reprocess.diff", _DATA),
    Row("fleet", "run.fleet", _FLEET, "FleetOptions"),
    Row("submit", "run.submit", _FLEET, "CrawlOptions"),
    Row("worker", "run.worker", _FLEET),
    Row("autoscale", "run.autoscale", _FLEET),
    Row("doctor", "inspect.doctor", _OPERATE),
    Row("token", "control.token", _OPERATE, is_group=True),
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shoal {__version__}")
        raise typer.Exit


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
    built = typer.main.get_command(application(first))
    assert isinstance(built, typer.core.TyperGroup)
    _format_help(built)
    return built


def application(first: str = "") -> typer.Typer:
    """Return the application with one command, or with all of them if none has that name."""
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
    app.callback(invoke_without_command=True)(shoal)
    _add(app, [row for row in COMMANDS if row.name == first] or COMMANDS)
    return app


def _add(app: typer.Typer, rows: Iterable[Row]) -> None:
    for row in rows:
        module = import_module(f"shoal.cli.commands.{row.module}")
        if row.is_group:
            app.add_typer(module.app, name=row.name, rich_help_panel=row.panel)
            continue
        run, epilog = getattr(module, row.function), getattr(module, row.examples)
        if row.options:
            options = getattr(module, row.options)
            add_command(app, row.name, options, run, epilog=epilog, panel=row.panel)
        else:
            hidden = row.panel is None
            app.command(row.name, epilog=epilog, rich_help_panel=row.panel, hidden=hidden)(run)


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
