"""What a parse child remembers of the links it has handed over, so as not to hand them over again.

The same navigation is on every page of a site: of thirty links, one is new. The frontier would find that out
by itself, at the price of packing, sending, decoding and looking up the other twenty-nine.

Forgetting is always safe, remembering is not: a link may only be held back if it did arrive. So the memory is
noted after a page has succeeded, and belongs to one `Scope` object. Whoever drops a child's result, for any
reason, must send the child its scope again (an equal one will do): it starts over with an empty memory.
"""

from collections.abc import Iterable, Sequence

from shoal.model.scope import Scope

GENERATION = 50_000  # URLs; two generations of 100-byte URLs are some 15 MB


class SeenLinks:
    """A set of URLs of bounded size that keeps those met most recently."""

    __slots__ = ("_old", "_scope", "recent")

    def __init__(self) -> None:
        self._scope: Scope | None = None
        self.recent: set[str] = set()  # all of them canonical
        self._old: set[str] = set()

    def enter(self, scope: Scope) -> None:
        """Forget everything unless it was learnt under this very `scope`."""
        if self._scope is not scope:
            self._scope = scope
            self.recent, self._old = set(), set()

    def unknown(self, urls: Sequence[str]) -> list[str]:
        """Give those of `urls` that are not remembered."""
        fresh = [url for url in urls if url not in self.recent]
        if fresh and self._old:
            # Still in use: they survive the next change of generation.
            self.recent.update(url for url in fresh if url in self._old)
            fresh = [url for url in fresh if url not in self.recent]
        return fresh

    def note(self, urls: Iterable[str]) -> None:
        self.recent.update(urls)
        if len(self.recent) > GENERATION:
            self.recent, self._old = set(), self.recent
