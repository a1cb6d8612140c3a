"""Options that several commands share, so that they read and behave alike."""

from typing import Annotated, Any

import typer

from shoal.model.configure import DESCRIPTIONS


def option(names: str, metavar: str, text: str, *, default: str = "", panel: str | None = None) -> Any:
    """Describe an option; `default` is shown and never used: values not given come from the settings."""
    shown = f"{text} [dim]Default: {default}.[/dim]" if default else text
    return typer.Option(
        *names.split(), metavar=metavar, help=shown, show_default=False, rich_help_panel=panel
    )


def setting(names: str, metavar: str, key: str, *, default: str = "", panel: str | None = None) -> Any:
    """Describe an option that sets a key of the settings, in the words of the settings."""
    return option(names, metavar, DESCRIPTIONS[key], default=default, panel=panel)


Store = Annotated[
    str | None, option("--store", "FOLDER|DSN", "A folder, or the DSN of a fleet.", default="shoal-data")
]
Config = Annotated[
    str | None, option("--config", "FILE", "Settings file.", default="shoal.toml, if there is one")
]
Json = Annotated[bool, option("--json", "", "Print one JSON object instead of text.")]
Quiet = Annotated[bool, option("--quiet -q", "", "Print nothing but errors.")]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        metavar="",
        help="Log what happens; -vv: everything.",
        show_default=False,
    ),
]
Yes = Annotated[bool, option("--yes -y", "", "Do not ask.")]
Crawl = Annotated[str | None, option("--crawl", "NAME", "Only this crawl.", default="all")]


def examples(*lines: tuple[str, str]) -> str:
    """Lay out the Examples section of a command's help: what it is for, then how it is typed."""
    return "[bold]Examples[/bold]\n" + "\n".join(f"\n [dim]{why}[/dim]\n   {typed}" for why, typed in lines)
