"""`Spider`: where to start, what to follow, and which function makes what of a page."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from shoal.model.configure import KINDS, Given, configure
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.failure import POLICY, Action, FailureClass
from shoal.model.request import FIRST, Request
from shoal.model.url import canonical
from shoal.spider.html.link_resolver import LinkResolver
from shoal.spider.html.seen_links import SeenLinks
from shoal.spider.models import Check, checker

if TYPE_CHECKING:
    from shoal.spider.failed import FailedRequest
    from shoal.spider.page import Page

Handler = Callable[["Page"], object]
ErrorHook = Callable[["FailedRequest"], object]
_H = TypeVar("_H", bound=Handler)
_E = TypeVar("_E", bound=ErrorHook)

_OPTIONS = [key.removeprefix("crawl.") for key in KINDS if key.startswith("crawl.")]
_OWN = ["name", "start", "sitemaps", "hosts", "key"]

SITEMAP = "shoal.sitemap"
"""The route of requests for sitemaps and feeds; every spider has its handler."""

FAILURES = frozenset(kind for kind, policy in POLICY.items() if policy.action is not Action.FILTER)
"""The classes that can end a request. The others are rules: what they keep out has not failed."""


@dataclass(frozen=True, slots=True)
class Route:
    """A handler, and which pages are its own; or a hook, which is looked up by failure class."""

    name: str
    handler: Callable[[Any], object]
    matches: Callable[[str], object] | None  # None: by name only, or as the fallback
    key: tuple[str, ...]
    binary: bool
    check: Check | None  # None: items are taken as they are


class Spider:
    """User code, as one value.

    `sitemaps` are addresses of sitemaps, indexes of them, or feeds; what they list is followed.
    `options` are the settings of a crawl (`rate`, `per_host`, `depth`, `headers`, ...) as this spider wants
    them; the command line has the last word.
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
        if not isinstance(name, str) or not name.strip():
            raise Misconfigured(f"a spider's name must be a text, not {name!r}")
        self.name = name
        self.start = (
            *(self._seed(one) for one in ([start] if isinstance(start, str | Request) else start)),
            *(self._seed(listing(url)) for url in ([sitemaps] if isinstance(sitemaps, str) else sitemaps)),
        )
        self.hosts = (hosts,) if isinstance(hosts, str) else tuple(hosts)
        self.key = _fields(key)
        self.options = self._checked(options)
        self.routes: dict[str, Route] = {}
        self.hooks: dict[FailureClass, Route] = {}
        self.version = ""  # of the code; set by whoever loads it
        self.memory = SeenLinks()
        self.destinations = LinkResolver()
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
        """Register a handler for the pages whose URL `pattern` matches somewhere; the first to match wins.

        Without a pattern it takes the pages that no other handler wants, unless it has a `name`: then it
        takes those of requests that name it (`Request.route`). `key` are the fields that identify its items.
        With `binary` it is also given what is no text (images, PDF), as `page.body`. `item` is the model of
        its items; those that do not fit go to the reject file, with the reason, and the page goes on.
        """
        if callable(pattern):
            return self.page()(pattern)
        check = None if item is None else checker(item)

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
                raise Misconfigured(f"spider {self.name!r}: two handlers are called {route.name!r}")
            self.routes[route.name] = route
            if route.matches is not None:
                self._by_url.append(route)
            elif self._fallback is None and name is None:
                self._fallback = route
            return handler

        return register

    @overload
    def on_error(self, kind: _E, /) -> _E: ...
    @overload
    def on_error(
        self, /, *kinds: str, key: str | Sequence[str] | None = None, item: type[Any] | None = None
    ) -> Callable[[_E], _E]: ...
    def on_error(
        self, /, *kinds: Any, key: str | Sequence[str] | None = None, item: type[Any] | None = None
    ) -> Any:
        """Register a hook for the requests that end by one of these failure classes, dead or gone.

        Without a class it takes all those that no other hook names. A hook is given a `FailedRequest` and
        yields items and requests like a handler; they are stored together with the request's end. `key` and
        `item` mean what they mean to `page`.
        """
        if len(kinds) == 1 and callable(kinds[0]):
            return self.on_error()(kinds[0])
        named = [self._failure_class(kind) for kind in kinds]
        check = None if item is None else checker(item)

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
                raise Misconfigured(f"spider {self.name!r}: two hooks take all other errors")
            for kind in named:
                if kind in self.hooks and self.hooks[kind] is not self._error_fallback:
                    raise Misconfigured(f"spider {self.name!r}: two hooks take {kind.value!r}")
                self.hooks[kind] = route
            if not named:
                self._error_fallback = route
                self.hooks = dict.fromkeys(FAILURES, route) | self.hooks
            return hook

        return register

    def _failure_class(self, kind: object) -> FailureClass:
        known = [one.value for one in FailureClass if one in FAILURES]
        if kind in known:
            return FailureClass(kind)
        is_rule = kind in [one.value for one in FailureClass]
        hint = "; it is a rule that keeps requests out" if is_rule else _nearest(str(kind), known)
        raise Misconfigured(f"spider {self.name!r}: on_error: {kind!r} is no class of failure{hint}")

    def route_for(self, request: Request, url: str) -> Route | None:
        """Find the handler of a page: the one its request names, else by URL. None: nobody wants it."""
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
            raise Misconfigured(f"spider {self.name!r}: start must hold URLs and Requests, not {one!r}")
        try:
            url = canonical(request.url)
        except Rejected:
            url = ""
        if not url.startswith(("http://", "https://")):
            hint = "" if "://" in request.url else f"; did you mean https://{request.url} ?"
            raise Misconfigured(f"spider {self.name!r}: start: not a web address: {request.url!r}{hint}")
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
            if option not in _OPTIONS:
                raise Misconfigured(
                    f"{origin}: unknown option {option!r}{_nearest(option, [*_OPTIONS, *_OWN])}"
                )
        given = [Given(f"crawl.{option}", value, f"{origin}: {option}") for option, value in options.items()]
        crawl = configure(given).crawl
        return {option: getattr(crawl, option) for option in options}

    def __repr__(self) -> str:
        return f"<Spider {self.name!r}: {', '.join(self.routes) or 'no handlers'}>"


def listing(url: str) -> Request:
    """Make the request for a sitemap or a feed to start from."""
    return Request(url=url, route=SITEMAP, priority=FIRST)


@cache
def _listing_route() -> Route:
    from shoal.spider.feed_handler import read_listing

    return Route(SITEMAP, read_listing, matches=None, key=(), binary=True, check=None)


def _fields(key: str | Sequence[str]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


def _nearest(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
