"""Turns of crawls: a worker runs a bounded number of them at once, and the others wait for their turn.

Each crawl that runs has its own loop and its own connections. If more crawls have work than may run, the
one that has not run for longest goes next, and a crawl that has had its time makes room.
"""

from collections.abc import Mapping
from dataclasses import dataclass

SLICE_S = 60.0  # that a crawl runs at least, while others wait


@dataclass(frozen=True, slots=True)
class CrawlTurn:
    """One crawl of a worker."""

    waiting: bool = False  # it has work, and no place
    running_s: float | None = None  # how long it runs; None: it does not, or was asked to make room already


def make_room(turns: Mapping[str, CrawlTurn], slice_s: float = SLICE_S) -> list[str]:
    """Return the crawls that end their turn now: those that have run longest, one for each that waits."""
    waiting = sum(turn.waiting for turn in turns.values())
    over = [
        (turn.running_s, name)
        for name, turn in turns.items()
        if turn.running_s is not None and turn.running_s >= slice_s
    ]
    return [name for _, name in sorted(over, reverse=True)[:waiting]]
