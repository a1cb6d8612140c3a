"""Options that select dead letters."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.input.options import MAX_COUNT, Config, Crawl, Json, Store, option
from shoal.model.configuration.expression import compile_expression
from shoal.model.errors import Misconfigured
from shoal.model.failure import FailureClass

if TYPE_CHECKING:
    from shoal.services.control.dead_letters import DeadLetterFilter

Kind = Annotated[str | None, option("--class", "CLASS", "Only this failure class.", default="all")]
Host = Annotated[str | None, option("--host", "HOST", "Only this host.", default="all")]
Older = Annotated[
    str | None, option("--older", "AGE", "Only requests given up at least this long ago: 90s, 2h, 7d.")
]
Newer = Annotated[str | None, option("--newer", "AGE", "Only requests given up at most this long ago.")]
Match = Annotated[str | None, option("--match", "REGEX", "Only URLs that match.")]
Limit = Annotated[
    int | None, typer.Option(metavar="N", min=1, max=MAX_COUNT, help="At most N.", show_default=False)
]

MAX_AGE_S = 100 * 366 * 86_400.0
_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterOptions:
    """The options of every command that works on several dead letters."""

    store: Store = None
    crawl: Crawl = None
    kind: Kind = None
    host: Host = None
    older: Older = None
    newer: Newer = None
    match: Match = None
    limit: Limit = None
    config: Config = None
    json: Json = False

    def address(self) -> str:
        """Return the address of the store to look at."""
        from shoal.cli.input.settings_loader import chosen_store

        return chosen_store(self.store, config=self.config)

    def filter(self) -> "DeadLetterFilter":
        """Return the filter that the options describe; raise `Misconfigured` if one is not valid."""
        from shoal.services.control.dead_letters import DeadLetterFilter

        return DeadLetterFilter(
            crawl=self.crawl,
            kind=failure_class(self.kind),
            host=(self.host or "").lower(),
            older=age("--older", self.older),
            newer=age("--newer", self.newer),
            match=pattern(self.match),
            limit=self.limit,
        )


def failure_class(text: str | None) -> FailureClass | None:
    """Parse the value of --class."""
    if text is None:
        return None
    try:
        return FailureClass(text)
    except ValueError:
        from difflib import get_close_matches

        close = get_close_matches(text, list(FailureClass), n=1)
        advice = f"did you mean {close[0]}?" if close else f"known: {', '.join(FailureClass)}"
        raise Misconfigured(f"--class {text!r}: no such failure class; {advice}") from None


def age(flag: str, text: str | None) -> float | None:
    """Parse an age such as 90s, 15m, 2h, 7d or 1w; return seconds."""
    if text is None:
        return None
    match = _AGE.fullmatch(text.strip().lower())
    if match is None:
        raise Misconfigured(f"{flag} {text!r}: must be an age such as 90s, 15m, 2h, 7d or 1w")
    seconds = float(match[1]) * _SECONDS[match[2]]
    if seconds > MAX_AGE_S:
        raise Misconfigured(f"{flag}: longer than 100 years")
    return seconds


def pattern(text: str | None) -> re.Pattern[str] | None:
    """Compile the value of --match."""
    try:
        return None if text is None else compile_expression(text)
    except ValueError as error:
        raise Misconfigured(f"--match: {error}: {text!r}") from None
