"""Options that several commands share, and commands whose options are the fields of a dataclass."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

Options = TypeVar("Options")

MAX_COUNT = 10**12  # of pages or requests: more than any store holds


def option(names: str, metavar: str, text: str, *, default: str = "", panel: str | None = None) -> Any:
    """Describe an option; `default` is only printed: values that are not set come from the settings."""
    described = f"{text} [dim]Default: {default}.[/dim]" if default else text
    return typer.Option(
        *names.split(), metavar=metavar, help=described, show_default=False, rich_help_panel=panel
    )


def setting(names: str, metavar: str, key: str, *, default: str = "", panel: str | None = None) -> Any:
    """Describe an option that sets a key of the settings, with the text of that key."""
    from shoal.model.configuration.configure import DESCRIPTIONS  # here: `shoal --help` needs no settings

    return option(names, metavar, DESCRIPTIONS[key], default=default, panel=panel)


Store = Annotated[
    str | None, option("--store", "FOLDER|DSN", "A folder, or the DSN of a fleet.", default="shoal-data")
]
Config = Annotated[
    str | None, option("--config", "FILE", "Settings file.", default="shoal.toml, if there is one")
]
Json = Annotated[bool, option("--json", "", "Print one JSON object instead of text.")]
Quiet = Annotated[bool, option("--quiet -q", "", "Print only errors.")]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        metavar="",
        help="One line per request; -vv: items and skipped links too.",
        show_default=False,
    ),
]
LogFormat = Annotated[
    str, option("--log-format", "text|json", "Log lines as text, or as JSON objects.", default="text")
]
Arguments = Annotated[
    list[str] | None,
    option("--argument -a", "NAME=VALUE", "An argument of the spider; repeatable."),
]
Yes = Annotated[bool, option("--yes -y", "", "Do not ask for confirmation.")]
Crawl = Annotated[str | None, option("--crawl", "NAME", "Only this crawl.", default="all")]


def add_command(
    app: typer.Typer,
    name: str,
    options: Callable[..., Options],
    run: Callable[[Options], int | None],
    *,
    epilog: str,
    panel: str | None = None,
) -> None:
    """Add a command whose arguments and options are the fields of the dataclass `options`.

    Typer reads the fields from the constructor and calls it; `run` receives the result and returns the exit
    code. Its docstring is the help of the command, which is listed in `panel`.
    """

    class _Command(TyperCommand):
        def invoke(self, ctx: Any) -> int | None:
            return run(super().invoke(ctx))

    app.command(name, cls=_Command, help=run.__doc__, epilog=epilog, rich_help_panel=panel)(options)


def examples(*lines: tuple[str, str]) -> str:
    """Format the Examples section of a command's help: what each example does, then what to type."""
    return "[bold]Examples[/bold]\n" + "\n".join(f"\n [dim]{why}[/dim]\n   {typed}" for why, typed in lines)
