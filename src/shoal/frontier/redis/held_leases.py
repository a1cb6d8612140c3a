"""What one process has leased, as far as it knows.

The store decides. But a process that knows that a lease is lost, or settled, need not ask; and one whose own
clock says that a deadline has passed must not go on as if it had time.
"""

import time
from collections.abc import Iterable

from shoal.frontier.redis.packing import Held, pack_held


class HeldLeases:
    def __init__(self) -> None:
        self._deadlines: dict[Held, float] = {}  # by our own clock; in the order in which they were leased
        self._suspects: dict[Held, tuple[str, str]] = {}  # -> holder and tag
        self._landed: dict[str, list[Held]] = {}  # tag -> what it has yet to be told

    def __contains__(self, held: Held) -> bool:
        """Say whether a lease was neither settled nor lost, as far as is known here."""
        return held in self._deadlines

    def holds(self, held: Held) -> bool:
        """Say whether there is still time, too."""
        return self._deadlines.get(held, 0.0) > time.monotonic()

    def take(self, held: Held, deadline: float) -> None:
        self._deadlines[held] = deadline

    def suspect(self, held: Held, holder: str, tag: str) -> None:
        self._suspects[held] = holder, tag

    def extend(self, held: Held, deadline: float) -> None:
        self._deadlines[held] = max(self._deadlines.get(held, 0.0), deadline)

    def lose(self, held: Held) -> None:
        self._deadlines.pop(held, None)
        self._suspects.pop(held, None)

    def forget(self, before: float) -> None:
        """Let go of leases that nobody settled and whose deadline was before that: the store has, by now."""
        while self._deadlines:
            held, deadline = next(iter(self._deadlines.items()))
            if deadline >= before:
                return
            self.lose(held)

    def has_suspect(self, holder: str, *, beside: str) -> bool:
        """Say whether a holder has a suspect of another shard than `beside`, which knows of its own."""
        return any(whose == holder and tag != beside for whose, tag in self._suspects.values())

    def land(self, tag: str, held: Iterable[Held]) -> None:
        """Note what a shard is to be told with the next call."""
        self._landed.setdefault(tag, []).extend(held)

    def take_landed(self, tag: str) -> bytes:
        """Give what a shard has yet to be told. Where the call fails, it is lost: settling says it too."""
        return pack_held(self._landed.pop(tag, ()))
