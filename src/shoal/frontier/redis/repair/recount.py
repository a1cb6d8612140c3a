"""What the counters of a crawl have to say, given what there is. Values in, values out."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Found:
    """The requests of a crawl in a shard, counted in the data."""

    seen: int | None = None  # None: an approximate seen-set, which cannot be counted
    waiting: int = 0
    delayed: int = 0
    leased: int = 0
    parsing: int = 0
    letters: Counter[str] = field(default_factory=Counter)  # dead ones that can be read, by class


def corrected(told: Mapping[str, int], found: Found) -> dict[str, int]:
    """Give the counters that differ from what they say, and their right values.

    What has ended well leaves a number and nothing else. It can only be told from the rest: whatever was
    accepted and is nowhere else has ended, and what neither `gone` nor `filtered` account for counts as done.
    """
    purged = _purged(told, found)
    dead = found.letters.total() + purged
    open_or_dead = found.waiting + found.delayed + found.leased + found.parsing + dead
    ended = {name: max(count, 0) for name, count in told.items() if name.startswith("filtered.")}
    ended |= {name: max(told.get(name, 0), 0) for name in ("gone", "done")}
    if found.seen is not None:
        ended = _adjusted(ended, found.seen - open_or_dead)
    right = {
        "waiting": found.waiting,
        "delayed": found.delayed,
        "leased": found.leased,
        "parsing": found.parsing,
        "dead": dead,
        "purged": purged,
        "filtered": sum(count for name, count in ended.items() if name.startswith("filtered.")),
        "accepted": open_or_dead + sum(ended.values()),
        **ended,
        **_by_class(told, found.letters, purged),
    }
    return {name: count for name, count in right.items() if count != told.get(name, 0)}


def _purged(told: Mapping[str, int], found: Found) -> int:
    """Say how many letters were thrown away: no more than have died and are not there."""
    letters, purged = found.letters.total(), max(told.get("purged", 0), 0)
    purged = min(purged, max(told.get("dead", 0) - letters, 0))
    if found.seen is None:
        return purged
    elsewhere = found.waiting + found.delayed + found.leased + found.parsing + letters
    return min(purged, max(found.seen - elsewhere, 0))


def _adjusted(ended: Mapping[str, int], number: int) -> dict[str, int]:
    """Have what has ended well come to a number: the difference was done, as far as there is that much."""
    adjusted = dict(ended)
    excess = sum(ended.values()) - number
    for name in ("done", "gone", *ended):
        taken = min(excess, adjusted[name])
        adjusted[name] -= taken
        excess -= taken
    return adjusted


def _by_class(told: Mapping[str, int], letters: Mapping[str, int], purged: int) -> dict[str, int]:
    """Share out the dead among their classes: letters as they say, the others as was told."""
    classes = sorted({name.partition(".")[2] for name in told if name.startswith("dead.")} | set(letters))
    right, left = {}, purged
    for kind in classes:
        thrown_away = min(max(told.get(f"dead.{kind}", 0) - letters.get(kind, 0), 0), left)
        right[f"dead.{kind}"] = letters.get(kind, 0) + thrown_away
        left -= thrown_away
    if left:  # of classes that nobody knows any more
        likely = max(right, key=lambda name: right[name], default="dead.internal")
        right[likely] = right.get(likely, 0) + left
    return right
