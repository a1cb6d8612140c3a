"""Options that choose among dead letters, and how they are read."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.input.options import Config, Crawl, Json, Store, option
from shoal.model.errors import Misconfigured
from shoal.model.failure import FailureClass

if TYPE_CHECKING:
    from shoal.services.control.dead_letters import DeadLetterFilter

Kind = Annotated[str | None, option("--class", "CLASS", "Only this failure class.", default="all")]
Host = Annotated[str | None, option("--host", "HOST", "Only this host.", default="all")]
Older = Annotated[str | None, option("--older", "AGE", "Only given up at least so long ago: 90s, 2h, 7d.")]
Newer = Annotated[str | None, option("--newer", "AGE", "Only given up at most so long ago.")]
Match = Annotated[str | None, option("--match", "REGEX", "Only URLs that match.")]
Limit = Annotated[int | None, typer.Option(metavar="N", min=1, help="At most so many.", show_default=False)]

_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


@dataclass(frozen=True, slots=True)
class Asked:
    """The letters that somebody means, and how to answer."""

    address: str
    choice: "DeadLetterFilter"
    json: bool


def asked_of(
    *,
    store: Store = None,
    crawl: Crawl = None,
    kind: Kind = None,
    host: Host = None,
    older: Older = None,
    newer: Newer = None,
    match: Match = None,
    limit: Limit = None,
    config: Config = None,
    json: Json = False,
) -> Asked:
    """Read the options that every command on several letters has."""
    from shoal.cli.input.settings_loader import chosen_store
    from shoal.services.control.dead_letters import DeadLetterFilter

    address = chosen_store(store, config=config)
    choice = DeadLetterFilter(
        crawl=crawl,
        kind=failure_class(kind),
        host=(host or "").lower(),
        older=age("--older", older),
        newer=age("--newer", newer),
        match=pattern(match),
        limit=limit,
    )
    return Asked(address, choice, json)


def on_letters(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take the options that choose letters: it gets what they say, and then its own options."""
    shared = inspect.signature(asked_of).parameters
    *choosing, config, json = shared.values()
    _, *own = inspect.signature(command).parameters.values()

    def run(**given: Any) -> None:
        asked = asked_of(**{name: given.pop(name) for name in shared})
        command(asked, **given)

    run.__doc__ = command.__doc__
    run.__signature__ = inspect.Signature([*choosing, *own, config, json])  # type: ignore[attr-defined]
    return run


def failure_class(text: str | None) -> FailureClass | None:
    """Read a --class against the closed set."""
    if text is None:
        return None
    try:
        return FailureClass(text)
    except ValueError:
        from difflib import get_close_matches

        close = get_close_matches(text, list(FailureClass), n=1)
        advice = f"did you mean {close[0]}?" if close else f"there are {', '.join(FailureClass)}"
        raise Misconfigured(f"--class {text!r}: no such failure class; {advice}") from None


def age(flag: str, text: str | None) -> float | None:
    """Read an age such as 90s, 15m, 2h, 7d or 1w, in seconds."""
    if text is None:
        return None
    match = _AGE.fullmatch(text.strip().lower())
    if match is None:
        raise Misconfigured(f"{flag} {text!r}: must be an age such as 90s, 15m, 2h, 7d or 1w")
    return float(match[1]) * _SECONDS[match[2]]


def pattern(text: str | None) -> re.Pattern[str] | None:
    """Read a --match."""
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise Misconfigured(f"--match: not a regular expression: {error}: {text!r}") from None
