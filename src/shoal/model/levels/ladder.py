"""The levels of fetching, cheapest first, and which one follows another. Pure."""

from collections.abc import Collection
from enum import StrEnum

PLAIN, EXIT, IMPERSONATE, BROWSER = LADDER = ("plain", "exit", "impersonate", "browser")
"""Our own client; the same through another exit; one with a browser's fingerprint; a browser."""

AUTO = "auto"  # learned
PINS = (AUTO, PLAIN, IMPERSONATE, BROWSER)
"""What a user can set as the level of a crawl or a host."""


class Cause(StrEnum):
    """Why a level is left."""

    ANTI_BOT = "anti_bot"
    EMPTY_SHELL = "empty_shell"


def rank(level: str) -> int:
    return LADDER.index(level) if level in LADDER else 0


def next_level(level: str, cause: Cause, available: Collection[str]) -> str | None:
    """Return the level to try after one that failed; None: there is no other.

    Only a browser fills an empty shell: another exit or fingerprint would get the same one.
    """
    higher = LADDER[rank(level) + 1 :]
    if cause is Cause.EMPTY_SHELL:
        higher = higher[-1:]
    return next((one for one in higher if one in available), None)


def lower_level(level: str, cause: Cause, available: Collection[str]) -> str:
    """Return the level to probe, below one that works."""
    if cause is Cause.EMPTY_SHELL:
        return PLAIN
    lower = LADDER[: rank(level)]
    return next((one for one in reversed(lower) if one in available), PLAIN)


def usable_level(level: str, available: Collection[str]) -> str:
    """Return a level, or what stands in for it where it is not available: the next higher, else a lower."""
    if level in available:
        return level
    place = rank(level)
    return next((one for one in (*LADDER[place:], *reversed(LADDER[:place])) if one in available), PLAIN)
