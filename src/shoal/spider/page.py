"""`Page`: a fetched response, as a handler sees it. Decoding and parsing happen on first use."""

from collections.abc import Callable, Iterable, Mapping
from re import Pattern
from typing import TYPE_CHECKING, Any, Unpack

import msgspec
from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from shoal.model.configuration.expression import compile_expression
from shoal.model.errors import Misconfigured
from shoal.model.page import ParseTask
from shoal.model.rendering import Rendering
from shoal.model.request import HTTP, NORMAL, Request
from shoal.model.url import fragment_of, resolver
from shoal.spider.html.canonical import canonical_header, canonical_link
from shoal.spider.html.lexbor import LexborDocument, nodes_of
from shoal.spider.html.link_resolver import LinkResolver
from shoal.spider.html.links import (
    Links,
    MetaTags,
    all_hrefs,
    base_url,
    forbids_following,
    hrefs_in_selection,
    read_meta_tags,
    resolve_web_links,
)
from shoal.spider.html.selector import Selector, SelectorList, TextSelector
from shoal.spider.response_headers import Headers
from shoal.spider.text.content_type import ContentKind, detect_kind
from shoal.spider.text.decoding import CharsetSource, DecodedText, decode
from shoal.spider.text.encodings import UTF_8

if TYPE_CHECKING:
    from shoal.model.http.request_parts import RequestFields
    from shoal.spider.html.form import Form
    from shoal.spider.metadata.article import Article
    from shoal.spider.metadata.page_metadata import Metadata

KEPT_TEXT_BYTES = 4 << 20  # the text of a larger page is not kept beside its tree


class Page:
    """A fetched response, passed to a handler.

    Attributes:
        url: the URL of the response, canonical.
        status: the HTTP status.
        request: the `Request` that was sent; its `data` is also `page.data`.
        body: the body as bytes, after content decoding (gzip, br, zstd).
        fetched_at: when the response arrived, in epoch seconds.
        kind: what the body contains, by header and first bytes: `html`, `xml`, `json`, `text` or `binary`.
        partial: why a part of the body could not be read; empty if nothing is missing so far.

    Example:

        @spider.page(r"/books/")
        def book(page):
            yield {"title": page.css("h1::text").get(), "url": page.url}
            yield from page.links(".next a")
    """

    def __init__(
        self,
        task: ParseTask,
        *,
        obey_nofollow: bool = True,
        link_resolver: LinkResolver | None = None,
        knows_found_on: bool = True,
    ) -> None:
        self.url = task.url
        self.status = task.status
        self.request = task.request
        self.body = task.body
        self.fetched_at = task.fetched_at  # epoch seconds
        self._headers = task.headers
        self._obey_nofollow = obey_nofollow
        self._link_resolver = link_resolver
        self._knows_found_on = knows_found_on
        self._content_type = _first(task.headers, "content-type")
        self.kind = detect_kind(task.body, self._content_type)
        self._text: DecodedText | None = None
        self._root: Selector | None = None
        self._html: LexborHTMLParser | None = None  # the tree of `_root`
        self._base: str | None = None
        self._resolve: Callable[[str], str | None] | None = None
        self._meta_tags: MetaTags | None = None
        self._rendered = task.rendered
        self._unread: dict[str, None] = {}  # why parts of the body could not be read

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
        """Return a page made of `body`, to try selectors on. `shoal.testing.page_from` has more options."""
        request = Request(url=url, data=data or {})
        headers = (("content-type", content_type),)
        body = body.encode() if isinstance(body, str) else body
        return cls(ParseTask(0, 0, request, url, status, headers, body, 0.0))

    @property
    def depth(self) -> int:
        """Number of links between a start URL and this page; 0 for a start URL."""
        return self.request.depth

    @property
    def data(self) -> dict[str, Any]:
        """The `data` dict that the spider attached to the request."""
        return self.request.data

    @property
    def found_on(self) -> str | None:
        """The URL of the page that the request was found on; None for a start URL.

        It is stored with each request if a handler of the spider mentions `found_on`; code that Shoal cannot
        see, such as a method of another object, needs `Spider(..., found_on=True)`.
        """
        if not self._knows_found_on:
            raise Misconfigured("page.found_on needs shoal.Spider(..., found_on=True)")
        return self.request.found_on_url or None

    @property
    def headers(self) -> Headers:
        """The response headers, by name in any case: `page.headers["content-type"]`."""
        return Headers(self._headers)

    @property
    def rendered(self) -> bool:
        """Whether a browser rendered the page: `body` is its DOM then."""
        return self._rendered is not None

    @property
    def screenshot(self) -> bytes | None:
        """The page as a PNG image, if its request asked for one: `render=Rendering(screenshot=True)`."""
        return (self._rendered.screenshot or None) if self._rendered is not None else None

    @property
    def pdf(self) -> bytes | None:
        """The page as PDF, if its request asked for it: `render=Rendering(pdf=True)`."""
        return (self._rendered.pdf or None) if self._rendered is not None else None

    @property
    def console(self) -> tuple[str, ...]:
        """The errors of the page's scripts while it was rendered."""
        return self._rendered.console if self._rendered is not None else ()

    @property
    def partial(self) -> str:
        """Why a part of the body could not be read; empty if nothing is missing so far.

        XML that is broken or nested too deep is read up to there. A page that was read in part is counted and
        logged.
        """
        root = getattr(self._root, "partial", "")
        return "; ".join([*([root] if root else []), *self._unread])

    def mark_partial(self, reason: str) -> None:
        """Record that a part of the page could not be read: it is counted and logged with this reason."""
        self._unread[reason] = None

    # --- content -------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The body as text, decoded by its charset, otherwise unchanged."""
        return self._decoded().text

    @property
    def encoding(self) -> str:
        """The name of the encoding that `text` was decoded with, such as `utf-8`."""
        return self._decoded().encoding

    def _decoded(self) -> DecodedText:
        if self._text is None:
            self._text = decode(self.body, self._content_type)
        return self._text

    @property
    def html(self) -> str:
        """The markup after parsing, with missing and misplaced tags corrected as in a browser."""
        return self.root.get()

    def json(self, type: Any = Any) -> Any:
        """Return the body decoded as JSON.

        With a `type` (a dataclass, a msgspec struct, `list[int]`...), msgspec checks and converts the value;
        it raises `msgspec.ValidationError` if the value does not fit.
        """
        return msgspec.json.decode(self.text, type=type)

    @property
    def root(self) -> Selector:
        """The whole document as a selector."""
        if self._root is None:
            self._root = self._parse()
        return self._root

    def _parse(self) -> Selector:
        if self.kind is ContentKind.BINARY:
            return LexborDocument(b"")
        if self.kind is ContentKind.XML:
            from shoal.spider.html.lxml_element import LxmlElement

            return LxmlElement.of_xml(self.text)
        decoded = self._decoded()
        if decoded.encoding == UTF_8 and decoded.source is not CharsetSource.BOM:
            if len(self.body) > KEPT_TEXT_BYTES:
                self._text = None  # decoded again if it is asked for
                del decoded
            return LexborDocument(self.body)  # Lexbor takes UTF-8: no need to encode again
        return LexborDocument(decoded.text)

    @property
    def _tree(self) -> LexborHTMLParser | None:
        """The parsed HTML; None if the page is not HTML."""
        if self._html is None and self.kind is ContentKind.HTML:
            root = self.root
            self._html = root.tree if isinstance(root, LexborDocument) else None
        return self._html

    def css(self, query: str) -> SelectorList:
        """Return the elements, texts or attributes that a CSS query matches, in document order.

        `::text` and `::attr(name)` select strings: `page.css("a::attr(href)").getall()`. Raises `ValueError`
        for an invalid query.
        """
        return self.root.css(query)

    def xpath(
        self, query: str, namespaces: Mapping[str, str] | None = None, **variables: Any
    ) -> SelectorList:
        """Return what an XPath 1.0 query selects.

        `namespaces` maps prefixes to URIs. `variables` are the values of `$names` in the query:
        `page.xpath("//a[@class=$name]", name="next")`. Raises `ValueError` for an invalid query.
        """
        return self.root.xpath(query, namespaces, **variables)

    def re(self, regex: str | Pattern[str]) -> list[str]:
        """Return what the groups of `regex` match in `text`, or the whole matches if it has no groups."""
        return TextSelector(self.text).re(regex, replace_entities=False)

    def metadata(self) -> "Metadata":
        """Return the page's metadata: JSON-LD, Open Graph, Twitter cards and microdata.

        Title, description, dates and language are also combined from all of them.
        """
        from shoal.spider.metadata.page_metadata import read_metadata

        return read_metadata(self._tree or LexborHTMLParser(""), self.url)

    def article(self) -> "Article | None":
        """Return the main article, without menus and footers; None if the page has none.

        Needs the extra packages `shoal[content]`.
        """
        from shoal.spider.metadata.article import ExtractionFailed, extract_article

        try:
            return extract_article(self.text, self.url) if self.kind is ContentKind.HTML else None
        except ExtractionFailed as error:
            self.mark_partial(f"no article: {error}")
            return None

    def markdown(self, *, whole: bool = False) -> str:
        """Return the main article as Markdown; empty if the page has none. Links are absolute.

        With `whole`, everything that a reader would see, menus and footers included. The article needs the
        extra packages `shoal[content]`, the whole page does not.
        """
        if whole:
            from shoal.spider.metadata.markdown import whole_page_markdown

            return "" if self._tree is None else whole_page_markdown(self._tree, self.urljoin)
        from shoal.spider.metadata.article import ExtractionFailed, extract_markdown

        try:
            return extract_markdown(self.text, self.url, self.urljoin) if self._tree is not None else ""
        except ExtractionFailed as error:
            self.mark_partial(f"no article: {error}")
            return ""

    def simhash(self) -> int | None:
        """Return a 64-bit hash of the visible text; None if there is too little of it.

        Pages with nearly the same text have hashes that differ in few bits.
        """
        from shoal.model.traps.simhash import simhash
        from shoal.spider.html.visible_text import visible_text

        return None if self._tree is None else simhash(visible_text(self._tree))

    # --- links ---------------------------------------------------------------------------------------

    def urljoin(self, href: str) -> str | None:
        """Return the absolute URL of a link, relative to `<base href>` if the page has one.

        It is canonical, and keeps the fragment of the link (`#part`), which requests leave out. Returns None
        if `href` cannot be resolved to a URL.
        """
        url = self._resolver()(href)
        return url if url is None or "#" not in href else url + fragment_of(self._base_url(), href)

    def _resolver(self) -> Callable[[str], str | None]:
        if self._resolve is None:
            self._resolve = resolver(self._base_url())
        return self._resolve

    def _base_url(self) -> str:
        if self._base is None:
            tree = self._tree
            self._base = self.url if tree is None else base_url(tree, self.url)
        return self._base

    def _web_resolver(self) -> Callable[[str], str | None]:
        """Return a function that resolves links to http(s) URLs; parse children share its cache."""
        shared = LinkResolver() if self._link_resolver is None else self._link_resolver
        return shared.for_page(self._base_url(), self._resolver())

    @property
    def canonical(self) -> str | None:
        """The canonical URL that the page declares, by `<link rel=canonical>` or a `Link` header, or None."""
        tree = self._tree
        found = None if tree is None else canonical_link(tree, self._resolver())
        return found or canonical_header(self._headers, self.url)

    @property
    def nofollow(self) -> bool:
        """Whether the page forbids following its links, by `<meta name=robots>` or `X-Robots-Tag`."""
        return forbids_following(self._headers, self._read_meta_tags())

    def _read_meta_tags(self) -> MetaTags:
        if self._meta_tags is None:
            self._meta_tags = MetaTags() if self._tree is None else read_meta_tags(self._tree)
        return self._meta_tags

    def _all_links(self, tree: LexborHTMLParser, *, obey_nofollow: bool) -> list[str]:
        """Return every link of the page; if there is no memory for so many, those of its beginning."""
        try:
            hrefs = all_hrefs(tree, self._read_meta_tags(), obey_nofollow=obey_nofollow)
            return resolve_web_links(hrefs, self._web_resolver())
        except (MemoryError, SelectolaxError):  # a million links need more memory than their tree
            if not isinstance(self._root, LexborDocument):
                raise
            beginning = self._root.beginning()
        self.mark_partial(beginning.partial)
        hrefs = all_hrefs(beginning.tree, MetaTags(), obey_nofollow=obey_nofollow)
        return resolve_web_links(hrefs, self._web_resolver())

    def links(
        self,
        selector: str | None = None,
        *,
        follow: str | Pattern[str] | None = None,
        obey_nofollow: bool | None = None,
        priority: int | None = None,
        route: str = "",
        data: dict[str, Any] | None = None,
        pool: str = HTTP,
        render: bool | Rendering = False,
        exit_kind: str = "",
        country: str = "",
        level: str = "",
    ) -> Links:
        """Return a request for each http(s) link of the page, each URL once, in document order.

        Args:
            selector: a CSS query. Links are taken from the elements it matches and from those inside them.
                Without it, all links of the page are taken, `<link rel=next>`, the canonical URL and
                `<meta http-equiv=refresh>` included.
            follow: a regular expression; only URLs in which it matches are taken.
            obey_nofollow: whether to skip `rel=nofollow` links, and all links of a page with `nofollow`.
                Default: as the crawl is configured.
            priority: 1 (first) to 10 (last). Default: by the URL; hubs go before other pages, and the later
                pages of a list after them.
            route: the name of the handler for these pages. Default: chosen by URL.
            data: a dict that is passed on as `page.data`.
            pool: the worker pool that fetches them.
            render: True, or a `Rendering`: a browser renders these pages.
            exit_kind: the kind of proxies to use, such as `isp`. Default: that of the host or the crawl.
            country: the country that the proxies should be in, such as `de`. Default: as for `exit_kind`.
            level: the client that fetches them, such as `impersonate`. Default: as for `exit_kind`.

        Example: `yield page.links(".next a", priority=1)`. Yielding the result as a whole is faster than
        `yield from`, and the links are only searched for when they are needed.
        """
        tree = self._tree
        obey = self._obey_nofollow if obey_nofollow is None else obey_nofollow
        # Evaluated here and not in `find`: an invalid selector or expression raises at the spider's own line.
        chosen = None if selector is None else self.css(selector)
        pattern = None if follow is None else _compile_follow(follow)

        def find() -> list[str]:
            if tree is None or (obey and self.nofollow):
                return []
            if chosen is not None:
                urls = resolve_web_links(hrefs_in_selection(chosen, obey_nofollow=obey), self._web_resolver())
            else:
                urls = self._all_links(tree, obey_nofollow=obey)
                declared = canonical_header(self._headers, self.url)
                if declared is not None and declared not in urls:
                    urls.append(declared)
            return urls if pattern is None else [url for url in urls if pattern.search(url)]

        return Links(
            find,
            priority=priority,
            route=route,
            data=data,
            pool="" if pool == HTTP else pool,
            exit_kind=exit_kind,
            country=country,
            level=level,
            render=render,
        )

    def follow(
        self,
        link: str | Selector | SelectorList | None,
        **fields: Unpack["RequestFields"],
    ) -> Request | None:
        """Return a request for one link, or None if there is no link to follow.

        Args:
            link: a URL, absolute or relative, or what a selector found; its first link is taken.
            fields: arguments of `Request`, such as `route`, `data`, `priority`, `params`, `json`, `form`,
                `headers`, `auth`, `cookies` or `again`.

        A handler may yield None, so `yield page.follow(page.css("a.next"))` does nothing on the last page.
        """
        if isinstance(link, Selector | SelectorList):
            found = link if isinstance(link, SelectorList) else SelectorList([link])
            link = next(hrefs_in_selection(found, obey_nofollow=False), None)
        url = None if link is None else self._resolver()(link)
        if url is None:
            return None
        given: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
        return Request(url, **given)

    def form(
        self,
        selector: str | None = None,
        *,
        extra: Mapping[str, Any] | None = None,
        priority: int = NORMAL,
        route: str = "",
        data: dict[str, Any] | None = None,
        pool: str = "http",
        again: bool = False,
    ) -> "Form":
        """Return a form of the page; its `fill` returns the request that a browser would send.

        Args:
            selector: a CSS query for the form, or for an element around it or in it. Default: the only form.
            extra: fields to add that the page does not have, such as those that a script adds.
            priority, route, data, pool, again: as for `Request`.

        Raises `ValueError` if there is no such form. Example:
        `yield page.form("#login", route="home").fill(user="me", password=password)`
        """
        from shoal.spider.html.form import Form, RequestOptions, find_form

        tree = self._tree or LexborHTMLParser("")
        chosen = None if selector is None else nodes_of(self.css(selector))
        return Form(
            find_form(tree, chosen, selector or ""),
            tree,
            url=self.url,
            encoding=self.encoding,
            resolve=self._resolver(),
            extra=extra or {},
            options=RequestOptions(priority=priority, route=route, data=data, pool=pool, again=again),
        )

    def __repr__(self) -> str:
        return f"<Page {self.status} {self.url}>"


def _compile_follow(pattern: str | Pattern[str]) -> Pattern[str]:
    try:
        return compile_expression(pattern)
    except ValueError as error:
        raise ValueError(f"follow={pattern!r}: {error}") from None


def _first(headers: Iterable[tuple[str, str]], name: str) -> str:
    for key, value in headers:
        if key == name:
            return value
    return ""
