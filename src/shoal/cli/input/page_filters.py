"""Options that select pages of a crawl."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import MAX_COUNT, option
from shoal.model.configuration.expression import compile_expression
from shoal.model.errors import Misconfigured

if TYPE_CHECKING:
    from shoal.services.reprocess.choice import PageFilter

_PANEL = "Which pages"

Match = Annotated[str | None, option("--match", "REGEX", "Only pages whose URL matches.", panel=_PANEL)]
Status = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=100,
        max=599,
        help="Only responses with this status.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
Since = Annotated[
    str | None, option("--since", "DATE", "Only pages fetched at this time or later, in UTC.", panel=_PANEL)
]
Until = Annotated[str | None, option("--until", "DATE", "Only pages fetched before this time.", panel=_PANEL)]
Limit = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, max=MAX_COUNT, help="At most N pages.", show_default=False, rich_help_panel=_PANEL
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFilterOptions:
    """The options of every command that reads archived pages."""

    match: Match = None
    status: Status = None
    since: Since = None
    until: Until = None
    limit: Limit = None

    def filter(self) -> "PageFilter":
        """Return the filter that the options describe; raise `Misconfigured` if one is not valid."""
        from shoal.services.reprocess.choice import PageFilter

        match = self.match or ""
        try:
            compile_expression(match)
        except ValueError as error:
            raise Misconfigured(f"--match {match!r}: {error}") from None
        since, until = timestamp("--since", self.since), timestamp("--until", self.until)
        return PageFilter(match, self.status, since, until, self.limit)


def timestamp(flag: str, text: str | None) -> float | None:
    """Parse a date, or a date and time, as UTC unless it names another zone."""
    if text is None:
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise Misconfigured(
            f"{flag} {text!r}: must be a date, for example 2026-01-31 or 2026-01-31T12:00"
        ) from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
