"""Where links lead, by how they are written: worked out once for all the pages of a site.

The same navigation is on every page. Its links mostly begin with a slash or name their site in full, and lead
to the same place from every page of an origin; looking that up takes a tenth of working it out again. Links
that are relative to their page are worked out each time.
"""

from collections.abc import Callable

from shoal.model.url import origin_of

MOST = 50_000  # links kept: 15 MB, where they are 100 bytes long
LONGEST = 256  # characters of a link that is kept
ORIGINS = 16  # at a time

_WEB = ("http://", "https://")
_ANYWHERE = ("/", *_WEB)  # what begins so leads from every page of an origin to the same place


class LinkResolver:
    """What a process has worked out so far. Forgetting costs time, and changes no answer."""

    __slots__ = ("_origins",)

    def __init__(self) -> None:
        self._origins: dict[str, _Links] = {}

    @property
    def kept(self) -> int:
        """How many links are remembered."""
        return sum(map(len, self._origins.values()))

    def of(self, base: str, resolve: Callable[[str], str | None]) -> Callable[[str], str | None]:
        """Return what resolves the links of a page at `base`; it gives None for what is no link to the web.

        `resolve` works out those that are not known. What is returned is good until the next call.
        """
        origin = origin_of(base)
        if self.kept >= MOST or (origin not in self._origins and len(self._origins) >= ORIGINS):
            self._origins.clear()
        # Bases without an origin have nothing in common.
        links = self._origins.setdefault(origin, _Links()) if origin else _Links()
        links.resolve = resolve
        return links.__getitem__


class _Links(dict[str, str | None]):
    """The links of one origin. A dict that fills itself: most answers are found without a line of Python."""

    resolve: Callable[[str], str | None]

    def __missing__(self, href: str) -> str | None:
        url = self.resolve(href)
        if url is not None and not url.startswith(_WEB):
            url = None
        if href.startswith(_ANYWHERE) and len(href) <= LONGEST and len(self) < MOST:
            self[href] = url
        return url
