"""Options that several commands share, so that they read and behave alike."""

from typing import Annotated

import typer

Store = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="FOLDER", help="Where the crawl's state lives.", show_default="shoal-data"
    ),
]
Config = Annotated[
    str | None,
    typer.Option(
        "--config", metavar="FILE", help="Settings file.", show_default="shoal.toml, if there is one"
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose", "-v", count=True, help="Log what happens; -vv logs everything.", show_default=False
    ),
]
Crawl = Annotated[
    str | None, typer.Option("--crawl", metavar="NAME", help="Only this crawl.", show_default="every crawl")
]


def examples(*lines: tuple[str, str]) -> str:
    """Lay out the Examples section of a command's help: what it is for, then how it is typed."""
    return "[bold]Examples[/bold]\n" + "\n".join(f"\n  [dim]{why}[/dim]\n  {typed}" for why, typed in lines)
