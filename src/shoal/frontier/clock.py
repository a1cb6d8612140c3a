"""The clock of a frontier: it never runs backwards without notice."""

from collections.abc import Callable

SET_BACK_S = 1.0  # after a smaller step back, the clock stops until time has caught up


class Clock:
    def __init__(self, read: Callable[[], float], on_set_back: Callable[[float, float], None]) -> None:
        """Follow `read`; call `on_set_back(now, by)` when it was set back."""
        self._read = read
        self._on_set_back = on_set_back
        self._latest = read()

    def now(self) -> float:
        now = self._read()
        if now < self._latest - SET_BACK_S:
            by, self._latest = self._latest - now, now
            self._on_set_back(now, by)
        self._latest = max(self._latest, now)
        return self._latest
