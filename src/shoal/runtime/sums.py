"""What a crawl left out over its whole life, by rule, kept with its other figures.

These are links and items, not requests: no request was ever made of them, so the frontier does not count
them.
"""

from collections.abc import Iterable

import msgspec

from shoal.model.page import ParseResult

KEY = "left_out"


class LeftOut(msgspec.Struct):
    """Sums that grow with every commit and survive a restart."""

    links: dict[str, int] = {}  # not followed, by rule
    items: int = 0  # rejected by their model

    @classmethod
    def load(cls, stored: bytes | None) -> "LeftOut":
        return cls() if stored is None else msgspec.json.decode(stored, type=cls)

    def dump(self) -> bytes:
        return msgspec.json.encode(self)

    def add(self, results: Iterable[ParseResult]) -> bool:
        """Add what pages have left out; returns whether there was any."""
        changed = False
        for result in results:
            if not result.dropped and not result.rejected:
                continue
            changed = True
            self.items += len(result.rejected)
            for rule, count in result.dropped.items():
                self.links[rule] = self.links.get(rule, 0) + count
        return changed
