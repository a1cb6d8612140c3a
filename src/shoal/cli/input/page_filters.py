"""Options that choose among the pages of a crawl, and how they are read."""

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import option
from shoal.model.errors import Misconfigured

if TYPE_CHECKING:
    from shoal.stores.contract.pages import PageFilter

_PANEL = "Which pages"

Match = Annotated[str | None, option("--match", "REGEX", "Only pages whose URL matches.", panel=_PANEL)]
Status = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=100,
        max=599,
        help="Only answers with this status.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
Since = Annotated[
    str | None, option("--since", "DATE", "Only pages fetched then or later, in UTC.", panel=_PANEL)
]
Until = Annotated[str | None, option("--until", "DATE", "Only pages fetched before then.", panel=_PANEL)]
Limit = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="At most so many pages.", show_default=False, rich_help_panel=_PANEL
    ),
]


def selection_of(
    *, match: str | None, status: int | None, since: str | None, until: str | None, limit: int | None
) -> "PageFilter":
    """Read what was typed; raises `Misconfigured` for what cannot be."""
    from shoal.stores.contract.pages import PageFilter

    try:
        re.compile(match or "")
    except re.error as error:
        raise Misconfigured(f"--match {match!r}: not a regular expression: {error}") from None
    return PageFilter(match or "", status, instant("--since", since), instant("--until", until), limit)


def instant(flag: str, text: str | None) -> float | None:
    """Read a date or a date and time; UTC unless it says otherwise."""
    if text is None:
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise Misconfigured(
            f"{flag} {text!r}: must be a date, for example 2026-01-31 or 2026-01-31T12:00"
        ) from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
