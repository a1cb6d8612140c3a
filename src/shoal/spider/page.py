"""`Page`: a fetched response, as a handler sees it. Nothing is decoded or parsed before somebody asks."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from re import Pattern
from typing import TYPE_CHECKING, Any

import msgspec
from selectolax.lexbor import LexborHTMLParser

from shoal.model.page import ParseTask
from shoal.model.request import NORMAL, Request
from shoal.model.url import resolver
from shoal.spider.html.canonical import canonical_header, canonical_link
from shoal.spider.html.lexbor import Document
from shoal.spider.html.link_resolver import LinkResolver
from shoal.spider.html.links import (
    Links,
    Metas,
    base_of,
    forbids_following,
    hrefs_in,
    hrefs_of,
    metas_of,
    web_links,
)
from shoal.spider.html.selector import Selector, SelectorList, Text
from shoal.spider.text.content_type import ContentKind, kind_of
from shoal.spider.text.decoding import CharsetSource, Decoded, decode
from shoal.spider.text.encodings import UTF_8

if TYPE_CHECKING:
    from shoal.spider.metadata.article import Article
    from shoal.spider.metadata.page_metadata import Metadata


class Headers(Mapping[str, str]):
    """Response headers: names in any case, the first value of each."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._pairs = tuple(pairs)
        self._first = dict(reversed(self._pairs))

    def __getitem__(self, name: str) -> str:
        return self._first[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._pairs))

    def __len__(self) -> int:
        return len(self._first)

    def getall(self, name: str) -> list[str]:
        """Give every value of a header that may come more than once."""
        return [value for key, value in self._pairs if key == name.lower()]


class Page:
    """One page. `url` is where it came from, `request` what asked for it."""

    def __init__(
        self, task: ParseTask, *, obey_nofollow: bool = True, destinations: LinkResolver | None = None
    ) -> None:
        self.url = task.url
        self.status = task.status
        self.request = task.request
        self.body = task.body
        self.fetched_at = task.fetched_at  # epoch seconds
        self._headers = task.headers
        self._obey_nofollow = obey_nofollow
        self._destinations = destinations
        self._content_type = _first(task.headers, "content-type")
        self.kind = kind_of(task.body, self._content_type)
        self._text: Decoded | None = None
        self._root: Selector | None = None
        self._base: str | None = None
        self._resolve: Callable[[str], str | None] | None = None
        self._metas: Metas | None = None

    @classmethod
    def of(
        cls,
        body: str | bytes,
        *,
        url: str = "https://page.example/",
        content_type: str = "text/html; charset=utf-8",
        status: int = 200,
        data: dict[str, Any] | None = None,
    ) -> "Page":
        """Make a page by hand, for trying a handler out."""
        request = Request(url=url, data=data or {})
        headers = (("content-type", content_type),)
        body = body.encode() if isinstance(body, str) else body
        return cls(ParseTask(0, 0, request, url, status, headers, body, 0.0))

    @property
    def depth(self) -> int:
        """Links from a seed to here."""
        return self.request.depth

    @property
    def data(self) -> dict[str, Any]:
        """What the request carried for its handler."""
        return self.request.data

    @property
    def headers(self) -> Headers:
        return Headers(self._headers)

    # --- what it says --------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The body as it was sent, decoded."""
        return self._decoded().text

    @property
    def encoding(self) -> str:
        return self._decoded().encoding

    def _decoded(self) -> Decoded:
        if self._text is None:
            self._text = decode(self.body, self._content_type)
        return self._text

    @property
    def html(self) -> str:
        """The markup as a browser would have it after mending."""
        return self.root.get()

    def json(self, type: Any = Any) -> Any:
        """Decode the body as JSON; `type` can be any type that msgspec can check."""
        return msgspec.json.decode(self.text, type=type)

    @property
    def root(self) -> Selector:
        """The whole page as a selector."""
        if self._root is None:
            self._root = self._parsed()
        return self._root

    def _parsed(self) -> Selector:
        if self.kind is ContentKind.BINARY:
            return Document(b"")
        if self.kind is ContentKind.XML:
            from shoal.spider.html.lxml_element import Element

            return Element.of_xml(self.text)
        decoded = self._decoded()
        if decoded.encoding == UTF_8 and decoded.source is not CharsetSource.BOM:
            return Document(self.body)  # UTF-8 is what Lexbor speaks: no need to encode again
        return Document(decoded.text)

    @property
    def _tree(self) -> LexborHTMLParser | None:
        """The page as HTML, if that is what it is."""
        root = self.root if self.kind is ContentKind.HTML else None
        return root.tree if isinstance(root, Document) else None

    def css(self, query: str) -> SelectorList:
        return self.root.css(query)

    def xpath(
        self, query: str, namespaces: Mapping[str, str] | None = None, **variables: Any
    ) -> SelectorList:
        return self.root.xpath(query, namespaces, **variables)

    def re(self, regex: str | Pattern[str]) -> list[str]:
        """Find in the text as it was sent."""
        return Text(self.text).re(regex, replace_entities=False)

    def metadata(self) -> "Metadata":
        """Read what the page says about itself: JSON-LD, Open Graph, microdata, and the gist of them."""
        from shoal.spider.metadata.page_metadata import metadata

        return metadata(self._tree or LexborHTMLParser(""), self.url)

    def article(self) -> "Article | None":
        """Extract the article, without menus and footers; None: there is none. Needs the extra `content`."""
        from shoal.spider.metadata.article import article

        return article(self.text, self.url) if self.kind is ContentKind.HTML else None

    def markdown(self) -> str:
        """Give the article as Markdown; empty: there is none. Needs the extra `content`."""
        from shoal.spider.metadata.article import markdown

        return markdown(self.text, self.url) if self.kind is ContentKind.HTML else ""

    def simhash(self) -> int | None:
        """Hash the text that a reader sees, near-identical texts nearly alike; None: too little of it."""
        from shoal.model.simhash import simhash
        from shoal.spider.html.visible_text import visible_text

        return None if self._tree is None else simhash(visible_text(self._tree))

    # --- where it leads ------------------------------------------------------------------------------

    def urljoin(self, href: str) -> str | None:
        """Resolve a link like a browser does, by `<base href>` if there is one; None: it is not a link."""
        return self._resolver()(href)

    def _resolver(self) -> Callable[[str], str | None]:
        if self._resolve is None:
            self._resolve = resolver(self._base_url())
        return self._resolve

    def _base_url(self) -> str:
        """Give what links are relative to."""
        if self._base is None:
            tree = self._tree
            self._base = self.url if tree is None else base_of(tree, self.url)
        return self._base

    def _destination(self) -> Callable[[str], str | None]:
        """Return what resolves links to the web; the children of a pool remember what they have resolved."""
        known = LinkResolver() if self._destinations is None else self._destinations
        return known.of(self._base_url(), self._resolver())

    @property
    def canonical(self) -> str | None:
        """The address that the page calls its own, by `<link rel=canonical>` or header; None: none."""
        tree = self._tree
        found = None if tree is None else canonical_link(tree, self._resolver())
        return found or canonical_header(self._headers, self.url)

    @property
    def nofollow(self) -> bool:
        """Whether the page asks that its links be left alone."""
        return forbids_following(self._headers, self._meta())

    def _meta(self) -> Metas:
        if self._metas is None:
            self._metas = Metas() if self._tree is None else metas_of(self._tree)
        return self._metas

    def links(
        self,
        selector: str | None = None,
        *,
        follow: str | Pattern[str] | None = None,
        obey_nofollow: bool | None = None,
        priority: int | None = None,
        route: str = "",
        data: dict[str, Any] | None = None,
        pool: str = "http",
    ) -> Links:
        """Make a request for each link to the web, once, in the order of the page.

        `selector` says which (an element with links below it means those), `follow` is a regular expression
        that the URL must match; the rest goes into the requests. Without a `priority`, hubs go before other
        pages, and deep pagination after them (`ranking`). `rel=nofollow` and the like are respected unless
        the crawl or this call says otherwise.
        """
        tree = self._tree
        obey = self._obey_nofollow if obey_nofollow is None else obey_nofollow
        # What is wrong with a selector or an expression is said here, where the spider's author wrote it.
        chosen = None if selector is None else self.css(selector)
        wanted = None if follow is None else re.compile(follow)

        def find() -> list[str]:
            if tree is None or (obey and self.nofollow):
                return []
            if chosen is not None:
                urls = web_links(hrefs_in(chosen, obey_nofollow=obey), self._destination())
            else:
                hrefs = hrefs_of(tree, self._meta(), obey_nofollow=obey)
                urls = web_links(hrefs, self._destination())
                own = canonical_header(self._headers, self.url)
                if own is not None and own not in urls:
                    urls.append(own)
            return urls if wanted is None else [url for url in urls if wanted.search(url)]

        return Links(find, priority=priority, route=route, data=data or {}, pool=pool)

    def follow(
        self,
        link: str | Selector | SelectorList | None,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        priority: int = NORMAL,
        route: str = "",
        data: dict[str, Any] | None = None,
        pool: str = "http",
    ) -> Request | None:
        """Make a request for one link: a URL, relative or not, or what a selector found.

        None if there is no link in it. None may be yielded, so `yield page.follow(page.css("a.next"))` does
        nothing on the last page.
        """
        if isinstance(link, Selector | SelectorList):
            found = link if isinstance(link, SelectorList) else SelectorList([link])
            link = next(hrefs_in(found, obey_nofollow=False), None)
        url = None if link is None else self.urljoin(link)
        if url is None:
            return None
        return Request(
            url=url,
            method=method,
            headers=headers or {},
            body=body,
            priority=priority,
            route=route,
            data=data or {},
            pool=pool,
        )

    def __repr__(self) -> str:
        return f"<Page {self.status} {self.url}>"


def _first(headers: Iterable[tuple[str, str]], name: str) -> str:
    for key, value in headers:
        if key == name:
            return value
    return ""
