"""What was wrong: how often, and one example of each kind. Values in, lines out."""

from collections import Counter, defaultdict


class Findings:
    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()
        self._examples: dict[str, str] = {}
        self._counters: defaultdict[str, Counter[str]] = defaultdict(Counter)  # of crawls, off by how much

    def note(self, kind: str, example: str = "", number: int = 1) -> None:
        """Note something wrong; 0 of it is nothing."""
        if not number:
            return
        self._kinds[kind] += number
        if example:
            self._examples.setdefault(kind, example)

    def note_counter(self, crawl: str, counter: str, *, by: int) -> None:
        """Note that a counter was changed by so much in one shard."""
        self._counters[crawl][counter] += by

    def told(self) -> list[str]:
        """Say what was wrong, a line for each kind."""
        lines = []
        for kind, number in self._kinds.items():
            example = f": {self._examples[kind]}" if kind in self._examples else ""
            more = f", and {number - 1} more" if number > 1 and example else ""
            times = f" ({number})" if number > 1 and not example else ""
            lines.append(f"{kind}{example}{more}{times}")
        for crawl, counters in self._counters.items():
            for name, by in counters.items():
                if by:
                    lines.append(f"{crawl}: the counter of {name} was off by {-by:+d}")
        return lines
