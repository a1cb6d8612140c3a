"""The commands. A command's module is imported when it is called, and none for `shoal --help`."""

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
    text: str  # what `shoal --help` says about it: the first paragraph of its help
    options: str = ""  # the dataclass of its options, where it has one
    function: str = "command"
    examples: str = "EXAMPLES"
    is_group: bool = False  # the module has an `app` with several commands


COMMANDS = (
    Row("demo", "run.demo", _START, "Crawl a small shop on this machine, and watch."),
    Row("crawl", "run.crawl", _START, "Crawl from start URLs, or with a spider.", "RunOptions"),
    Row("init", "run.init", _START, "Create a project: a spider, its settings, a saved page and a test."),
    Row(
        "try", "inspect.try_page", _START, "Run one URL through fetch and handler, and show what comes of it."
    ),
    Row("shell", "inspect.shell", _START, "Load one page and try selectors on it, at a Python prompt."),
    Row(
        "plan", "inspect.plan", _START, "Forecast how long a crawl takes, what limits it, and what it costs."
    ),
    Row(
        "status",
        "inspect.status",
        _WATCH,
        "Show the crawls of a store by state, what limits them, and the workers.",
    ),
    Row("top", "inspect.top", _WATCH, "Watch a whole store: crawls, stages, workers, slow hosts."),
    Row("serve", "run.serve", _WATCH, "Serve the dashboard and the HTTP API of a store."),
    Row("verify", "inspect.verify", _WATCH, "Prove that nothing was lost and nothing was duplicated."),
    Row("trace", "inspect.trace", _WATCH, "Show the history of one URL, in a folder or in a fleet."),
    Row(
        "urls",
        "inspect.urls",
        _WATCH,
        "List the URLs of a crawl: state, status, attempts and time.",
        "UrlOptions",
    ),
    Row(
        "graph",
        "inspect.graph",
        _WATCH,
        "Show or write the link graph of a crawl: which hosts, or pages, link to which.",
    ),
    Row(
        "sql",
        "inspect.sql",
        _WATCH,
        "Query the fetch log with SQL: every attempt of every crawl, in a folder or in a fleet.",
    ),
    Row("report", "inspect.report", _WATCH, "Write one HTML page with charts from the fetch log."),
    Row("alerts", "inspect.alerts", _WATCH, "Show the alerts of a store: cause, what was done, what to do."),
    Row(
        "pause",
        "control.pause",
        _STEER,
        "Start no new requests until resumed.",
        function="pause_command",
        examples="PAUSE_EXAMPLES",
    ),
    Row(
        "release",
        "control.release",
        _STEER,
        "Queue the URLs that a crawl holds back, and hold back no more of their patterns.",
    ),
    Row(
        "resume",
        "control.pause",
        _STEER,
        "End a pause.",
        function="resume_command",
        examples="RESUME_EXAMPLES",
    ),
    Row("accept", "control.accept", _STEER, "Take over the data of a run that ended with exit code 11."),
    Row("delete", "control.delete", _STEER, "Delete a crawl from its store. This cannot be undone."),
    Row(
        "forget", "control.delete", None, "Delete a crawl from its store. This cannot be undone."
    ),  # former name, not listed
    Row("dlq", "control.dlq", _STEER, "Dead letters: requests that were given up.", is_group=True),
    Row(
        "host",
        "control.host",
        _STEER,
        "Hosts: their pace, and pausing them, also while a crawl runs.",
        is_group=True,
    ),
    Row(
        "proxy",
        "control.proxy",
        _STEER,
        "Exits: the proxies that requests leave through, and their health.",
        is_group=True,
    ),
    Row("schedule", "control.schedule", _STEER, "Schedules: crawls that start by themselves.", is_group=True),
    Row(
        "export",
        "reprocess.export",
        _DATA,
        "Write the items or the pages of a crawl to a file.",
        "ExportOptions",
    ),
    Row(
        "reparse",
        "reprocess.reparse",
        _DATA,
        "Parse archived pages again with a changed spider, without a request.",
        "ReparseOptions",
    ),
    Row(
        "diff",
        "reprocess.diff",
        _DATA,
        "Print which items and URLs appeared, changed and vanished between two generations of a crawl.",
    ),
    Row(
        "fleet",
        "run.fleet",
        _FLEET,
        "Crawl with several workers on this machine, and watch them.",
        "FleetOptions",
    ),
    Row(
        "submit",
        "run.submit",
        _FLEET,
        "Submit a crawl to a fleet, with its settings, outputs and start URLs.",
        "CrawlOptions",
    ),
    Row(
        "worker",
        "run.worker",
        _FLEET,
        "Serve every crawl of a fleet's store, together with any number of other workers.",
    ),
    Row(
        "autoscale", "run.autoscale", _FLEET, "Compute how many workers each role and pool of a fleet needs."
    ),
    Row(
        "doctor",
        "inspect.doctor",
        _OPERATE,
        "Check this machine and the store, and print how to repair what is wrong.",
    ),
    Row("token", "control.token", _OPERATE, "Tokens of the HTTP API.", is_group=True),
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


def command(first: str | None = None) -> typer.core.TyperGroup:
    """Build the command tree.

    `first` is the first argument of the command line. If it names a command, only that one is built; if not,
    the names and texts of all, for help and for errors. None: everything.
    """
    built = typer.main.get_command(application(first))
    assert isinstance(built, typer.core.TyperGroup)
    if first is not None and not built.commands:
        for row in COMMANDS:
            listed = typer.core.TyperCommand(row.name, help=row.text, hidden=row.panel is None)
            listed.rich_help_panel = row.panel
            built.add_command(listed)
    _format_help(built)
    return built


def application(first: str | None = None) -> typer.Typer:
    """Return the application with the command of that name, if there is one; None: with all of them."""
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
    _add(app, [row for row in COMMANDS if first in (None, row.name)])
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
