"""The budget of a site: requests of a crawl to all hosts of a registrable domain (`links.per_site`).

It is taken when a request is about to be sent for the first time; retries are part of it. What is beyond it
is filtered by the rule `budget`.
"""

from collections.abc import Mapping

SITE = "site/"  # prefix of the keys among a crawl's values that hold the requests per site


class EmbeddedSiteBudget:
    """The budget of a crawl that one process runs; workers share theirs (`stores.redis.site_budget`)."""

    def __init__(self, limit: int, stored: Mapping[str, bytes]) -> None:
        self._limit = limit
        self._sent = {key.removeprefix(SITE): int(value) for key, value in stored.items()}
        self._changed: set[str] = set()

    async def take(self, site: str) -> bool:
        if self._sent.get(site, 0) >= self._limit:
            return False
        self._add(site, 1)
        return True

    async def give_back(self, site: str) -> None:
        self._add(site, -1)

    def _add(self, site: str, number: int) -> None:
        self._sent[site] = self._sent.get(site, 0) + number
        self._changed.add(site)

    def changes(self) -> dict[str, bytes]:
        """Return what has to be stored with the crawl since the last call."""
        changed = {f"{SITE}{site}": b"%d" % self._sent[site] for site in self._changed}
        self._changed = set()
        return changed
