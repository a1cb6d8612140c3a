"""`Spider`: the start URLs, the handlers for pages and failures, and the options of a crawl."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from shoal.model.configuration.configure import TYPES, SettingValue, configure
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.failure import POLICY, Action, FailureClass
from shoal.model.limits import LinkLimits
from shoal.model.printable import name_fault
from shoal.model.request import FIRST, Request
from shoal.model.settings import OPERATOR_OPTIONS
from shoal.model.url import canonical
from shoal.spider.html.link_resolver import LinkResolver
from shoal.spider.html.seen_links import SeenLinks
from shoal.spider.models import Check, model_checker

if TYPE_CHECKING:
    from shoal.spider.failed import FailedRequest
    from shoal.spider.page import Page

Handler = Callable[["Page"], object]
ErrorHook = Callable[["FailedRequest"], object]
_H = TypeVar("_H", bound=Handler)
_E = TypeVar("_E", bound=ErrorHook)

_OPTIONS = [
    name
    for key in TYPES
    if key.startswith("crawl.") and (name := key.removeprefix("crawl.")) not in OPERATOR_OPTIONS
]
_PARAMETERS = ["name", "start", "sitemaps", "hosts", "key"]

SITEMAP = "shoal.sitemap"
SITEMAP_LINKS = 50_000  # of one sitemap: the protocol's own limit
SITEMAP_LINK_BYTES = 400 * SITEMAP_LINKS
"""The route of requests for sitemaps and feeds; every spider has the handler for it built in."""

FAILURES = frozenset(
    failure_class for failure_class, policy in POLICY.items() if policy.action is not Action.FILTER
)
"""The failure classes that a hook can take. The others are rules: a filtered request has not failed."""


@dataclass(frozen=True, slots=True)
class Route:
    """A handler and the URLs that it takes, or an `on_error` hook."""

    name: str
    handler: Callable[[Any], object]
    matches: Callable[[str], object] | None  # None: chosen by name only, or the fallback
    key: tuple[str, ...]  # fields that identify an item
    binary: bool
    check: Check | None  # None: items are not checked


class Spider:
    """A spider: where to start, which function handles which page, and the options of its crawl.

    Args:
        name: the name of the spider, and of its crawl unless the command line says otherwise.
        start: the URLs, or `Request`s, to start from.
        sitemaps: URLs of sitemaps, sitemap indexes or feeds; the URLs that they list are followed.
        hosts: hosts that the crawl may visit; `"*.example.org"` includes subdomains. Default: the hosts of
            the start URLs.
        key: the field, or fields, that identify an item. A sink that updates rows uses it. Default: an item
            is identified by its page and its position on it.
        options: most settings of `[crawl]`, such as `rate=1`, `per_host=2`, `depth=3`,
            `follow=r"/catalogue/"` or `headers={...}`. A settings file, the environment and the command
            line override them.

    Raises `Misconfigured` for an unknown option or a start URL that is not http(s).

    Example:

        spider = shoal.Spider("books", start="https://books.example/", rate=1)

        @spider.page(r"/catalogue/[^/]+/index.html")
        def book(page):
            yield {"title": page.css("h1::text").get()}

        @spider.page()
        def listing(page):
            yield page.links()
    """

    def __init__(
        self,
        name: str,
        start: str | Request | Iterable[str | Request] = (),
        *,
        sitemaps: str | Iterable[str] = (),
        hosts: Iterable[str] = (),
        key: str | Sequence[str] = (),
        **options: object,
    ) -> None:
        if fault := name_fault(name):
            raise Misconfigured(f"the name of a spider {fault}, not {str(name)[:60]!r}")
        self.name = name
        self.start = (
            *(self._seed(one) for one in ([start] if isinstance(start, str | Request) else start)),
            *(
                self._seed(listing_request(url))
                for url in ([sitemaps] if isinstance(sitemaps, str) else sitemaps)
            ),
        )
        self.hosts = (hosts,) if isinstance(hosts, str) else tuple(hosts)
        self.key = _fields(key)
        self.options = self._checked(options)
        self.routes: dict[str, Route] = {}
        self.hooks: dict[FailureClass, Route] = {}
        self.version = ""  # digest of the code; `source.load` sets it
        self.seen_links = SeenLinks()
        self.link_resolver = LinkResolver()
        self._by_url: list[Route] = []
        self._fallback: Route | None = None
        self._error_fallback: Route | None = None

    @overload
    def page(self, pattern: _H, /) -> _H: ...
    @overload
    def page(
        self,
        pattern: str | re.Pattern[str] | None = None,
        /,
        *,
        name: str | None = None,
        key: str | Sequence[str] | None = None,
        binary: bool = False,
        item: type[Any] | None = None,
    ) -> Callable[[_H], _H]: ...
    def page(
        self,
        pattern: Any = None,
        /,
        *,
        name: str | None = None,
        key: str | Sequence[str] | None = None,
        binary: bool = False,
        item: type[Any] | None = None,
    ) -> Any:
        """Register a handler: a function that takes a `Page` and yields items and requests.

        Args:
            pattern: a regular expression that must match somewhere in the URL. Handlers are tried in the
                order of registration, and the first match is used. A handler without a pattern takes the
                pages that no other handler matches.
            name: the handler's name, for `route=` of a request. A handler that has a name and no pattern
                takes only requests with that route. Default: the function's name.
            key: the field, or fields, that identify its items. Default: the spider's `key`.
            binary: also call the handler for responses that are not text (images, PDF); read `page.body`.
            item: a dataclass, msgspec struct, attrs class or pydantic model for its items. Items that do not
                fit go to the reject file with the reason, and the rest of the page is kept.

        Works with and without parentheses: `@spider.page` and `@spider.page(r"/book/")`.
        """
        if callable(pattern):
            return self.page()(pattern)
        check = None if item is None else model_checker(item)

        def register(handler: _H) -> _H:
            route = Route(
                name=name or handler.__name__,
                handler=handler,
                matches=None if pattern is None else self._pattern(pattern),
                key=self.key if key is None else _fields(key),
                binary=binary,
                check=check,
            )
            if route.name in self.routes:
                raise Misconfigured(
                    f"spider {self.name!r}: two handlers are called {route.name!r}: rename one, or pass name="
                )
            self.routes[route.name] = route
            if route.matches is not None:
                self._by_url.append(route)
            elif self._fallback is None and name is None:
                self._fallback = route
            return handler

        return register

    @overload
    def on_error(self, hook: _E, /) -> _E: ...
    @overload
    def on_error(
        self, /, *failure_classes: str, key: str | Sequence[str] | None = None, item: type[Any] | None = None
    ) -> Callable[[_E], _E]: ...
    def on_error(
        self, /, *failure_classes: Any, key: str | Sequence[str] | None = None, item: type[Any] | None = None
    ) -> Any:
        """Register a hook: a function that takes a `FailedRequest` and yields items and requests.

        The hook runs once per request, when it becomes a dead letter or its page is gone; what it yields is
        committed together with that.

        Args:
            failure_classes: the failure classes that the hook takes, such as `"timeout", "gone"`. A hook
                without any takes all classes that no other hook names.
            key, item: as for `page`.

        Example:

            @spider.on_error("gone")
            def removed(failed):
                yield {"url": failed.url, "removed": True}
        """
        if len(failure_classes) == 1 and callable(failure_classes[0]):
            return self.on_error()(failure_classes[0])
        named = [self._failure_class(name) for name in failure_classes]
        check = None if item is None else model_checker(item)

        def register(hook: _E) -> _E:
            route = Route(
                name=hook.__name__,
                handler=hook,
                matches=None,
                key=self.key if key is None else _fields(key),
                binary=False,
                check=check,
            )
            if not named and self._error_fallback is not None:
                raise Misconfigured(
                    f"spider {self.name!r}: two on_error hooks name no failure class: keep one"
                )
            for failure_class in named:
                if failure_class in self.hooks and self.hooks[failure_class] is not self._error_fallback:
                    raise Misconfigured(
                        f"spider {self.name!r}: two on_error hooks take {failure_class.value!r}: keep one"
                    )
                self.hooks[failure_class] = route
            if not named:
                self._error_fallback = route
                self.hooks = dict.fromkeys(FAILURES, route) | self.hooks
            return hook

        return register

    def _failure_class(self, name: object) -> FailureClass:
        known = [one.value for one in FailureClass if one in FAILURES]
        if name in known:
            return FailureClass(name)
        is_rule = name in [one.value for one in FailureClass]
        hint = "; it is a rule that filters requests" if is_rule else _nearest(str(name), known)
        raise Misconfigured(f"spider {self.name!r}: on_error: {name!r} is not a failure class{hint}")

    def route_for(self, request: Request, url: str) -> Route | None:
        """Return the handler for a page: the one that the request names, else the first that matches the URL.

        Returns None if no handler takes the page. Raises `Rejected` if the request names an unknown handler.
        """
        if request.route:
            try:
                return self.routes[request.route]
            except KeyError:
                if request.route == SITEMAP:
                    return _listing_route()
                raise Rejected(
                    f"no handler is called {request.route!r}{_nearest(request.route, self.routes)}"
                ) from None
        for route in self._by_url:
            assert route.matches is not None
            if route.matches(url):
                return route
        return self._fallback

    def _seed(self, one: object) -> Request:
        request = Request(url=one) if isinstance(one, str) else one
        if not isinstance(request, Request):
            raise Misconfigured(f"spider {self.name!r}: start takes URLs and Requests, not {one!r}")
        try:
            url = canonical(request.url)
        except Rejected:
            url = ""
        if not url.startswith(("http://", "https://")):
            hint = "" if "://" in request.url else f"; did you mean https://{request.url} ?"
            raise Misconfigured(f"spider {self.name!r}: start: not an http(s) URL: {request.url!r}{hint}")
        return msgspec.structs.replace(request, url=url)

    def _pattern(self, pattern: str | re.Pattern[str]) -> Callable[[str], object]:
        try:
            return re.compile(pattern).search
        except (re.error, TypeError) as error:
            raise Misconfigured(
                f"spider {self.name!r}: page({pattern!r}): not a regular expression: {error}"
            ) from None

    def _checked(self, options: dict[str, object]) -> dict[str, object]:
        origin = f"spider {self.name!r}"
        for option in options:
            if option in OPERATOR_OPTIONS:
                raise Misconfigured(operator_option(origin, option))
            if option not in _OPTIONS:
                raise Misconfigured(
                    f"{origin}: unknown option {option!r}{_nearest(option, [*_OPTIONS, *_PARAMETERS])}"
                )
        given = [
            SettingValue(f"crawl.{option}", value, f"{origin}: {option}") for option, value in options.items()
        ]
        crawl = configure(given).crawl
        return {option: getattr(crawl, option) for option in options}

    def __repr__(self) -> str:
        return f"<Spider {self.name!r}: {', '.join(self.routes) or 'no handlers'}>"


def operator_option(origin: str, option: str) -> str:
    """Return the message for a spider that sets what only the operator may set."""
    return (
        f"{origin}: {option} is not an option of a spider, because it opens this machine to the crawl:"
        f" set crawl.{option} in shoal.toml or SHOAL_CRAWL_{option.upper()}"
    )


def listing_request(url: str) -> Request:
    """Return the request for a sitemap or a feed to start from."""
    return Request(url=url, route=SITEMAP, priority=FIRST)


def max_links(limits: LinkLimits, route: str) -> int:
    """Return how many links a page may bring."""
    return max(limits.per_page, SITEMAP_LINKS) if route == SITEMAP else limits.per_page


def max_link_bytes(limits: LinkLimits, route: str) -> int:
    """Return how many bytes of links a page may bring; the link that exceeds them is the last one."""
    return max(limits.bytes_per_page, SITEMAP_LINK_BYTES) if route == SITEMAP else limits.bytes_per_page


@cache
def _listing_route() -> Route:
    from shoal.spider.feed_handler import read_listing

    return Route(SITEMAP, read_listing, matches=None, key=(), binary=True, check=None)


def _fields(key: str | Sequence[str]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


def _nearest(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
