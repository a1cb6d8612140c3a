"""The leases that one process holds, as far as it knows.

The store decides. But a process that knows that a lease is lost or settled need not ask, and one whose clock
has passed a deadline must stop.
"""

import time
from collections.abc import Iterable

from shoal.frontier.redis.packing import Held, pack_held


class HeldLeases:
    def __init__(self) -> None:
        self._deadlines: dict[Held, float] = {}  # monotonic; in the order in which they were leased
        self._suspects: dict[Held, tuple[str, str]] = {}  # lease -> holder and tag
        self._landed: dict[str, list[Held]] = {}  # tag -> landed, not yet sent to the shard

    def __contains__(self, held: Held) -> bool:
        """Return whether a lease is neither settled nor lost, as far as this process knows."""
        return held in self._deadlines

    def holds(self, held: Held) -> bool:
        """Return whether a lease is held and its deadline has not passed."""
        return self._deadlines.get(held, 0.0) > time.monotonic()

    def take(self, held: Held, deadline: float) -> None:
        self._deadlines[held] = deadline

    def add_suspect(self, held: Held, holder: str, tag: str) -> None:
        self._suspects[held] = holder, tag

    def extend(self, held: Held, deadline: float) -> None:
        self._deadlines[held] = max(self._deadlines.get(held, 0.0), deadline)

    def lose(self, held: Held) -> None:
        self._deadlines.pop(held, None)
        self._suspects.pop(held, None)

    def drop_expired(self, before: float) -> None:
        """Drop leases whose deadline was before `before`: the store has reclaimed them by now."""
        while self._deadlines:
            held, deadline = next(iter(self._deadlines.items()))
            if deadline >= before:
                return
            self.lose(held)

    def has_suspect(self, holder: str, *, outside: str) -> bool:
        """Return whether a holder has a suspect in a shard other than `outside`, which knows its own."""
        return any(owner == holder and tag != outside for owner, tag in self._suspects.values())

    def add_landed(self, tag: str, held: Iterable[Held]) -> None:
        """Record landed requests, to be sent to their shard with the next call."""
        self._landed.setdefault(tag, []).extend(held)

    def take_landed(self, tag: str) -> bytes:
        """Return the landed requests for a shard, packed, once.

        If the call fails they are lost, and the shard learns of them when they are settled.
        """
        return pack_held(self._landed.pop(tag, ()))
