"""The links that a parse child has already returned, so that it does not return them again.

The same navigation is on every page of a site: of thirty links, one is new. The frontier would drop the other
twenty-nine as well, but only after packing, sending, decoding and looking them up.

Dropping an entry is always safe. Keeping one is not: a link may only be held back if it did reach the
frontier. So links are added after their page has succeeded, and the set belongs to one `Scope` object. A
parent that discards a child's result, for any reason, must send the child its scope again (an equal one will
do); the child then starts with an empty set.
"""

from collections.abc import Iterable, Sequence

from shoal.model.scope import Scope

GENERATION_URLS = 50_000  # two generations of 100-byte URLs take about 15 MB


class SeenLinks:
    """A set of URLs of bounded size that keeps the most recently used ones, in two generations."""

    __slots__ = ("_old", "_scope", "recent")

    def __init__(self) -> None:
        self._scope: Scope | None = None
        self.recent: set[str] = set()  # all of them canonical
        self._old: set[str] = set()

    def use(self, scope: Scope) -> None:
        """Empty the set unless it was filled under this very `scope` object."""
        if self._scope is not scope:
            self._scope = scope
            self.recent, self._old = set(), set()

    def unseen(self, urls: Sequence[str]) -> list[str]:
        """Return those of `urls` that are not in the set."""
        recent = self.recent
        unseen = [url for url in urls if url not in recent]
        if unseen and self._old:
            # Still in use: move them to the recent generation, so that they survive the next change.
            self.recent.update(url for url in unseen if url in self._old)
            unseen = [url for url in unseen if url not in self.recent]
        return unseen

    def add(self, urls: Iterable[str]) -> None:
        self.recent.update(urls)
        if len(self.recent) > GENERATION_URLS:
            self.recent, self._old = set(), self.recent
