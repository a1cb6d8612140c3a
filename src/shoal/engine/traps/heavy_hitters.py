"""Counts of the most frequent names in bounded memory (Misra and Gries 1982)."""


class HeavyHitters:
    """Counts of at most `capacity` names, the most frequent ones.

    A count is never too high, and too low by at most one part in `capacity` of everything counted.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._counts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, name: str, weight: int) -> int:
        """Count `name` and return its count so far."""
        if name not in self._counts and len(self._counts) >= self._capacity:
            # Every name loses `weight`. Calls of `add` have paid for that, so it is O(1) amortised.
            self._counts = {known: count - weight for known, count in self._counts.items() if count > weight}
        count = self._counts[name] = self._counts.get(name, 0) + weight
        return count

    def lower(self, name: str, weight: int) -> None:
        """Take `weight` from the count of `name`, down to 0."""
        left = self._counts.pop(name, 0) - weight
        if left > 0:
            self._counts[name] = left

    def get(self, name: str) -> int:
        """Return the count of `name` so far."""
        return self._counts.get(name, 0)

    def items(self) -> list[tuple[str, int]]:
        return list(self._counts.items())

    def clear(self) -> None:
        self._counts.clear()
