"""Where a page of HTML leads: its links as written, its base, and whether it wants to be followed."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from selectolax.lexbor import LexborHTMLParser

from shoal.model.request import Request
from shoal.model.url import join
from shoal.spider.html.link_priority import rank
from shoal.spider.html.selector import SelectorList, Text

AGENT = "shoal"  # what robots rules may call us
_WITH_VALUE = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")
_WEB = ("http://", "https://")
_refresh = re.compile(r"""^\s*[\d.]+\s*[;,]\s*(?:url\s*=\s*)?["']?([^"']+)""", re.IGNORECASE).findall


class Links(Iterable[Request]):
    """Requests for links, alike but for their URLs. They can be yielded one by one or, faster, as a whole.

    The links are looked for when somebody wants them. That is half the work of a page, and when pages are
    parsed again, nobody does.
    """

    def __init__(
        self, find: Callable[[], Sequence[str]], *, priority: int | None = None, **wishes: Any
    ) -> None:
        self._find = find
        self._urls: Sequence[str] | None = None
        self._priority = priority  # None: by what the URL looks like
        self._wishes = wishes

    @property
    def urls(self) -> Sequence[str]:
        """The links: canonical, each once."""
        if self._urls is None:
            self._urls = self._find()
        return self._urls

    def __iter__(self) -> Iterator[Request]:
        return map(self.request, self.urls)

    def __len__(self) -> int:
        return len(self.urls)

    def request(self, url: str, **more: Any) -> Request:
        priority = rank(url) if self._priority is None else self._priority
        return Request(url=url, priority=priority, **self._wishes, **more)


def web_links(hrefs: Iterable[str], destination: Callable[[str], str | None]) -> list[str]:
    """Resolve links, and keep those that lead to the web, each once."""
    urls = dict.fromkeys(map(destination, dict.fromkeys(hrefs)))
    return [url for url in urls if url is not None]


@dataclass(frozen=True, slots=True)
class Metas:
    """What the `<meta>` elements of a page say of its links."""

    nofollow: bool = False  # leave them alone
    refreshes: Sequence[str] = ()  # where the page sends its reader, as written


def metas_of(tree: LexborHTMLParser) -> Metas:
    """Read the `<meta>` elements, one by one: a hostile page has a million of them."""
    nofollow, refreshes = False, list[str]()
    for node in tree.tags("meta"):
        meta = node.attributes
        nofollow = nofollow or _forbids(meta)
        if (meta.get("http-equiv") or "").lower() == "refresh":
            refreshes += _refresh(meta.get("content") or "")
    return Metas(nofollow, refreshes)


def hrefs_of(tree: LexborHTMLParser, metas: Metas, *, obey_nofollow: bool) -> list[str]:
    """Give every link of a page: `a`, `area`, `link` to the next or canonical one, where a refresh leads."""
    # By tag name, with all attributes at once: as cheap as one selector for all four kinds, and plainer.
    hrefs = []
    for node in tree.tags("a") + tree.tags("area"):
        attributes = node.attributes
        if "href" in attributes:
            if obey_nofollow and "rel" in attributes and _has(attributes, "nofollow"):
                continue
            hrefs.append(attributes["href"] or "")  # an empty one leads to the page, or to its base
    for node in tree.tags("link"):
        attributes = node.attributes
        if (href := attributes.get("href")) and (_has(attributes, "next") or _has(attributes, "canonical")):
            hrefs.append(href)
    hrefs += metas.refreshes
    return hrefs


def hrefs_in(found: SelectorList, *, obey_nofollow: bool) -> Iterator[str]:
    """Give the links that selectors name: a string is one, an element has one or has some below it."""
    for one in found:
        if isinstance(one, Text):
            yield one.get()
            continue
        linking = [one] if "href" in one.attrib else one.css("a[href], area[href]")
        for element in linking:
            if not (obey_nofollow and _has(element.attrib, "nofollow")):
                yield element.attrib["href"]


def _has(attributes: "dict[str, str] | dict[str, str | None]", word: str) -> bool:
    rel = attributes.get("rel")
    return rel is not None and word in rel.lower().split()


def base_of(tree: LexborHTMLParser, url: str) -> str:
    """Give what links are relative to: the first `<base href>` that leads to the web, else the page."""
    for node in tree.tags("base"):
        href = node.attributes.get("href")
        base = join(url, href) if href else None
        if base is not None and base.startswith(_WEB):
            return base
    return url


def forbids_following(headers: Iterable[tuple[str, str]], metas: Metas) -> bool:
    """Tell whether `X-Robots-Tag` or `<meta name=robots>` ask that the page's links be left alone."""
    for name, value in headers:
        if name == "x-robots-tag" and _header_forbids(value):
            return True
    return metas.nofollow


def _forbids(meta: Mapping[str, str | None]) -> bool:
    name = meta.get("name")
    if name is None or name.strip().lower() not in ("robots", AGENT):
        return False
    return _says_nofollow((meta.get("content") or "").split(","))


def _header_forbids(value: str) -> bool:
    first, *rest = value.split(",")
    name, colon, directive = first.partition(":")
    name = name.strip().lower()
    if colon and name == AGENT:
        first = directive
    elif colon and name not in _WITH_VALUE:
        return False  # it speaks to another robot
    return _says_nofollow([first, *rest])


def _says_nofollow(directives: Iterable[str]) -> bool:
    return any(directive.strip().lower() in ("nofollow", "none") for directive in directives)
