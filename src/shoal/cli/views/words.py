"""The words that screens and summaries have for the states of a request: plain ones.

Logs, JSON and the reference have the states themselves; `docs/glossary.md` has both.
"""

from collections.abc import Mapping

AHEAD = {"waiting": ("waiting",), "to retry": ("delayed",), "in progress": ("leased", "parsing")}
ENDED = {
    "done": ("done",),
    "gone": ("gone",),
    "failed": ("dead",),
    "skipped": ("filtered",),
    "held": ("held",),
}
STYLE = {
    "waiting": "cyan",
    "to retry": "yellow",
    "in progress": "cyan",
    "done": "green",
    "gone": "yellow",
    "failed": "red",
    "skipped": "",
    "held": "yellow",
}


def counts_ahead(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the requests that have not ended, by plain word."""
    return {word: sum(counts.get(state, 0) for state in states) for word, states in AHEAD.items()}


def counts_ended(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the requests that have ended, by plain word."""
    ended = {word: sum(counts.get(state, 0) for state in states) for word, states in ENDED.items()}
    if not ended["held"]:
        del ended["held"]  # which few crawls have
    return ended


def plain_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Return all requests by plain word."""
    return {**counts_ahead(counts), **counts_ended(counts)}
