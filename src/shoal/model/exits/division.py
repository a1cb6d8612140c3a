"""How the running workers divide a list of exits: each exit belongs to one worker at most. Pure.

All workers change one record, in turn (compare and swap). A worker claims exits for `CLAIM_S` seconds at a
time, and uses none before its claim is stored. Each has the same part of every kind, to one exit. Who has too
many, because another worker has come, gives back those that no request uses, and uses the others no longer.
What a worker that died has claimed is free when its time is over.

With more workers than exits of a kind, some have none, and their requests wait for the others.
"""

from collections.abc import Collection, Sequence

import msgspec

from shoal.model.exits.exit import Exit
from shoal.model.quarantine import Seconds

CLAIM_S = 15.0
# Seconds before the end of its claim, from which on a worker uses no exit: its clock may be slow.
MARGIN_S = 5.0
RENEW_S = 4.0  # after which a claim is renewed


class ExitShare(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one worker has claimed."""

    until: Seconds = 0.0
    exits: tuple[str, ...] = ()


class Division(msgspec.Struct, frozen=True, omit_defaults=True):
    """The claims of all workers, as they are stored."""

    shares: dict[str, ExitShare] = {}


def claim(
    division: Division, worker: str, exits: Sequence[Exit], now: float, *, busy: Collection[str]
) -> tuple[Division, frozenset[str]]:
    """Return the division after a worker has renewed its claim, and those of its exits that it may use.

    `busy`: exits that requests of this worker use. They are not given back before those have ended.
    """
    others = {name: share for name, share in division.shares.items() if name != worker and share.until > now}
    before = division.shares.get(worker, ExitShare())
    own = frozenset(before.exits) if before.until > now else frozenset()
    taken = {exit for share in others.values() for exit in share.exits}
    workers = sorted([*others, worker])
    claimed: list[str] = []
    usable: set[str] = set()
    for number, names in enumerate(_by_kind(exits)):
        # From another worker on for each kind: no worker gets the odd exit of all of them.
        turn = (workers.index(worker) + number) % len(workers)
        part = len(names) // len(workers) + (turn < len(names) % len(workers))
        had = [name for name in names if name in own and name not in taken]
        used = [name for name in had if name in busy]
        kept = [*used, *(name for name in had if name not in busy)][: max(part, len(used))]
        free = (name for name in names if name not in taken and name not in own)
        kept += [name for name, _ in zip(free, range(part - len(kept)), strict=False)]
        claimed += kept
        usable.update(kept[:part])
    share = ExitShare(round(now + CLAIM_S, 1), tuple(claimed))
    return Division({**others, worker: share}), frozenset(usable)


def leave(division: Division, worker: str) -> Division:
    """Return the division without a worker that ends in good order."""
    return Division({name: share for name, share in division.shares.items() if name != worker})


def _by_kind(exits: Sequence[Exit]) -> list[list[str]]:
    """Return the names of exits that differ in nothing that a request may ask for, together."""
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for exit in sorted(exits, key=lambda exit: exit.name):
        groups.setdefault((exit.kinds, exit.countries), []).append(exit.name)
    return [groups[kind] for kind in sorted(groups)]
