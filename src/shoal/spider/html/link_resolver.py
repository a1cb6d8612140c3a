"""A cache of resolved links, shared by all the pages of a site.

The same navigation is on every page. Its links mostly start with a slash or are absolute, so they resolve to
the same URL from every page of an origin; a lookup takes a tenth of the time of resolving again. Links that
are relative to their page are resolved each time.
"""

from collections.abc import Callable

from shoal.model.url import origin_of

MAX_LINKS = 50_000  # 15 MB, if they are 100 bytes long
MAX_LINK_CHARS = 256  # longer links are not cached
MAX_ORIGINS = 16

_WEB = ("http://", "https://")
_SAME_FOR_ORIGIN = ("/", *_WEB)  # links that start like this resolve alike on every page of an origin


class LinkResolver:
    """The links that this process has resolved so far. Dropping entries costs time and changes no result."""

    __slots__ = ("_origins",)

    def __init__(self) -> None:
        self._origins: dict[str, _OriginLinks] = {}

    def __len__(self) -> int:
        """Count the cached links."""
        return sum(map(len, self._origins.values()))

    def for_page(self, base: str, resolve: Callable[[str], str | None]) -> Callable[[str], str | None]:
        """Return a function that resolves the links of a page with base URL `base`.

        It returns None for a link that is not http(s). It calls `resolve` for links that are not cached, and
        is valid until the next call of `for_page`.
        """
        origin = origin_of(base)
        if len(self) >= MAX_LINKS or (origin not in self._origins and len(self._origins) >= MAX_ORIGINS):
            self._origins.clear()
        # Base URLs without an origin share nothing.
        links = self._origins.setdefault(origin, _OriginLinks()) if origin else _OriginLinks()
        links.resolve = resolve
        return links.__getitem__


class _OriginLinks(dict[str, str | None]):
    """The links of one origin. A dict that fills itself: most lookups run no Python code at all."""

    resolve: Callable[[str], str | None]

    def __missing__(self, href: str) -> str | None:
        url = self.resolve(href)
        if url is not None and not url.startswith(_WEB):
            url = None
        if href.startswith(_SAME_FOR_ORIGIN) and len(href) <= MAX_LINK_CHARS and len(self) < MAX_LINKS:
            self[href] = url
        return url
