"""The links of an HTML page: its hrefs, its base URL, and whether it forbids following them."""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from selectolax.lexbor import LexborHTMLParser

from shoal.model.request import Request
from shoal.model.url import join
from shoal.spider.html.link_priority import link_priority
from shoal.spider.html.selector import Selector, SelectorList, TextSelector

AGENT = "shoal"  # our name in robots meta tags and X-Robots-Tag headers
_WITH_VALUE = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")
_WEB = ("http://", "https://")
_LEADING = frozenset({"next", "canonical"})  # of the `rel` of a `<link>`: it leads to a page
_refresh = re.compile(r"""^\s*+[\d.]++\s*+[;,]\s*+(?:url\s*+=\s*+)?+["']?+([^"']++)""", re.IGNORECASE).findall


class Links(Iterable[Request]):
    """The result of `page.links`: requests that differ only in their URL.

    A handler can yield it as a whole, which is faster, or iterate over it. The links are searched for on
    first use: that is half the work of parsing a page, and `shoal reparse` does not need them.
    """

    def __init__(
        self, find: Callable[[], Sequence[str]], *, priority: int | None = None, **fields: Any
    ) -> None:
        self._find = find
        self._urls: Sequence[str] | None = None
        self._priority = priority  # None: by the URL
        self._fields = {name: value for name, value in fields.items() if value}  # of the requests

    @property
    def urls(self) -> Sequence[str]:
        """The URLs, canonical, each once."""
        if self._urls is None:
            self._urls = self._find()
        return self._urls

    @property
    def plain(self) -> bool:
        """Whether a link depends on its URL alone."""
        return self._priority is None and not self._fields

    @property
    def may_be_secret(self) -> bool:
        """Whether the requests have headers or a body."""
        return bool(self._fields.get("headers") or self._fields.get("body"))

    def __iter__(self) -> Iterator[Request]:
        return map(self.request, self.urls)

    def __len__(self) -> int:
        return len(self.urls)

    def request(self, url: str, **more: Any) -> Request:
        """Return the request for one of the URLs, with `more` fields set."""
        priority = link_priority(url) if self._priority is None else self._priority
        return Request(url=url, priority=priority, **self._fields, **more)


def resolve_web_links(hrefs: Iterable[str], resolve: Callable[[str], str | None]) -> list[str]:
    """Return the URLs that links resolve to, each once, without those that resolve to None."""
    urls = dict.fromkeys(map(resolve, dict.fromkeys(hrefs)))
    return [url for url in urls if url is not None]


@dataclass(frozen=True, slots=True)
class MetaTags:
    """The `<meta>` elements that matter for links."""

    nofollow: bool = False  # a robots meta tag says nofollow
    refreshes: Sequence[str] = ()  # targets of `http-equiv=refresh`, as written


def read_meta_tags(tree: LexborHTMLParser) -> MetaTags:
    """Read all `<meta>` elements in one pass: a hostile page has a million of them."""
    nofollow, refreshes = False, list[str]()
    for node in tree.tags("meta"):
        meta = node.attributes
        if "name" in meta:
            nofollow = nofollow or _forbids(meta)
        if "http-equiv" in meta and (meta["http-equiv"] or "").lower() == "refresh":
            refreshes += _refresh(meta.get("content") or "")
    return MetaTags(nofollow, refreshes)


def all_hrefs(tree: LexborHTMLParser, metas: MetaTags, *, obey_nofollow: bool) -> list[str]:
    """Return every href of a page: `a`, `area`, `link` with rel `next` or `canonical`, and meta refreshes."""
    # By tag name, with all attributes at once: as cheap as one selector for all four, and simpler.
    hrefs = []
    for node in tree.tags("a") + tree.tags("area"):
        attributes = node.attributes
        if "href" in attributes:
            if obey_nofollow and "rel" in attributes and _has(attributes, "nofollow"):
                continue
            hrefs.append(attributes["href"] or "")  # an empty href is a link to the page, or to its base
    for node in tree.tags("link"):
        attributes = node.attributes
        rel = attributes.get("rel")
        if rel and not _LEADING.isdisjoint(rel.lower().split()) and (href := attributes.get("href")):
            hrefs.append(href)
    hrefs += metas.refreshes
    return hrefs


def hrefs_in_selection(found: SelectorList, *, obey_nofollow: bool) -> Iterator[str]:
    """Yield the hrefs in a selection: a string itself, an element's `href`, or those of links inside it."""
    inside = _Inside()
    for one in found:
        if isinstance(one, TextSelector):
            yield one.get()
            continue
        if "href" in one.attrib:
            linking: Iterable[Selector] = [one]
        elif inside.add(one):
            continue  # its links were found with those of the element around it
        else:
            linking = one.css("a[href], area[href]")
        for element in linking:
            if not (obey_nofollow and _has(element.attrib, "nofollow")):
                yield element.attrib["href"]


class _Inside:
    """The elements that were searched, and which of those around them were looked at."""

    def __init__(self) -> None:
        self._known: dict[Hashable, bool] = {}  # whether it was searched, or is inside an element that was

    def add(self, element: Selector) -> bool:
        """Return whether the element is inside a searched one; if not, it counts as searched from now on.

        Selections are in document order: an element comes after those around it. Each ancestor is looked at
        once, or deeply nested markup would take quadratic time.
        """
        ancestry = getattr(element, "ancestry", None)
        if ancestry is None:  # a whole document
            return False
        keys = list[Hashable]()
        inside = False
        for key in ancestry():
            keys.append(key)
            if key in self._known:
                inside = self._known[key]
                break
        self._known.update(dict.fromkeys(keys, inside))
        self._known[keys[0]] = True
        return inside


def _has(attributes: "dict[str, str] | dict[str, str | None]", word: str) -> bool:
    rel = attributes.get("rel")
    return rel is not None and word in rel.lower().split()


def base_url(tree: LexborHTMLParser, url: str) -> str:
    """Return the URL that links are relative to: the first http(s) `<base href>`, else the page's URL."""
    for node in tree.tags("base"):
        href = node.attributes.get("href")
        base = join(url, href) if href else None
        if base is not None and base.startswith(_WEB):
            return base
    return url


def forbids_following(headers: Iterable[tuple[str, str]], metas: MetaTags) -> bool:
    """Return whether `X-Robots-Tag` or `<meta name=robots>` forbid following the page's links."""
    for name, value in headers:
        if name == "x-robots-tag" and _header_forbids(value):
            return True
    return metas.nofollow


def _forbids(meta: Mapping[str, str | None]) -> bool:
    name = meta.get("name")
    if name is None or name.strip().lower() not in ("robots", AGENT):
        return False
    return _has_nofollow((meta.get("content") or "").split(","))


def _header_forbids(value: str) -> bool:
    first, *rest = value.split(",")
    name, colon, directive = first.partition(":")
    name = name.strip().lower()
    if colon and name == AGENT:
        first = directive
    elif colon and name not in _WITH_VALUE:
        return False  # it is for another robot
    return _has_nofollow([first, *rest])


def _has_nofollow(directives: Iterable[str]) -> bool:
    return any(directive.strip().lower() in ("nofollow", "none") for directive in directives)
