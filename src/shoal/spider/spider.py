"""`Spider`: the start URLs, the handlers for pages and failures, and the options of a crawl."""

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from shoal.model.configuration.expression import compile_expression
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.failure import POLICY, Action, FailureClass
from shoal.model.limits import LinkLimits
from shoal.model.printable import name_fault
from shoal.model.rendering import Rendering, refuse_rendering
from shoal.model.request import FIRST, Request, with_rendering
from shoal.model.url import canonical, origin_of
from shoal.spider.code_names import mentions
from shoal.spider.html.link_resolver import LinkResolver
from shoal.spider.html.seen_links import SeenLinks
from shoal.spider.item_counts import ItemCounts
from shoal.spider.item_hooks import ItemHook, item_hook
from shoal.spider.models import Check, model_checker

if TYPE_CHECKING:
    from shoal.spider.failed import FailedRequest
    from shoal.spider.page import Page

Handler = Callable[["Page"], object]
ErrorHook = Callable[["FailedRequest"], object]
_H = TypeVar("_H", bound=Handler)
_E = TypeVar("_E", bound=ErrorHook)
_I = TypeVar("_I", bound=Callable[..., Any])

_PARAMETERS = ["name", "start", "sitemaps", "hosts", "key", "found_on", "render"]
_OF_ONE_PROCESS = frozenset({"seen_links", "link_resolver", "item_counts"})

AUTO = "auto"  # instead of the URL of a sitemap: those that robots.txt names
ROBOTS = "shoal.robots"  # the route of requests for a robots.txt that names sitemaps
SITEMAP = "shoal.sitemap"
SITEMAP_LINKS = 50_000  # of one sitemap: the protocol's own limit
SITEMAP_LINK_BYTES = 400 * SITEMAP_LINKS
"""The route of requests for sitemaps and feeds; every spider has the handler for it built in."""

WAIT_STATUSES = frozenset({429, 503})

FAILURES = frozenset(
    failure_class for failure_class, policy in POLICY.items() if policy.action is not Action.FILTER
)
"""The failure classes that a hook can take. The others are rules: a filtered request has not failed."""


class Route(msgspec.Struct, frozen=True):
    """A handler and the URLs that it takes, or an `on_error` hook."""

    name: str
    handler: Callable[[Any], object]
    matches: Callable[[str], object] | None  # None: chosen by name only, or the fallback
    key: tuple[str, ...]  # fields that identify an item
    binary: bool
    check: Check | None  # None: items are not checked
    model: type[Any] | None = None  # that `check` checks against
    statuses: frozenset[int] = frozenset()  # of 400 and above that it takes as well

    def __reduce__(self) -> tuple[Any, ...]:
        """Have a copy in another process make its check anew."""
        names = ("name", "handler", "matches", "key", "binary", "statuses")
        return _copied_route, (self.model, {name: getattr(self, name) for name in names})


class Spider:
    """A spider: where to start, which function handles which page, and the options of its crawl.

    Args:
        name: the name of the spider, and of its crawl unless the command line says otherwise.
        start: the URLs, or `Request`s, to start from.
        sitemaps: URLs of sitemaps, sitemap indexes or feeds; the URLs that they list are followed. `"auto"`:
            the sitemaps that the robots.txt files of the start URLs name.
        hosts: hosts that the crawl may visit; `"*.example.org"` includes subdomains. Default: the hosts of
            the start URLs.
        key: the field, or fields, that identify an item. A sink that updates rows uses it. Default: an item
            is identified by its page and its position on it.
        found_on: whether to store with each request the URL of the page that it was found on, for
            `page.found_on`. It makes the store larger by the length of that URL per waiting request.
            Default: if a handler, or a function that it calls by name, mentions `found_on`.
        render: True, or a `Rendering`: a browser renders every page of the crawl. For some of the pages, use
            `render` of `Request` or `page.links`.
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
        found_on: bool | None = None,
        render: bool | Rendering = False,
        **options: object,
    ) -> None:
        if fault := name_fault(name):
            raise Misconfigured(f"the name of a spider {fault}, not {str(name)[:60]!r}")
        self.name = name
        self.describes_pages = False  # its items are about each page as such, and are always new
        self.render = self._rendering(render)
        self.start = (*(self._seed(one) for one in ([start] if isinstance(start, str | Request) else start)),)
        listings = [sitemaps] if isinstance(sitemaps, str) else list(sitemaps)
        if AUTO in listings and not self.start:
            raise Misconfigured(f"spider {name!r}: sitemaps={AUTO!r} needs start=: whose robots.txt to read")
        self.start = tuple(with_rendering(seed, self.render) for seed in self.start)
        self.start += tuple(map(self._seed, listing_requests(listings, [seed.url for seed in self.start])))
        self.hosts = (hosts,) if isinstance(hosts, str) else tuple(hosts)
        self.key = _fields(key)
        self.options = self._checked(options)
        self.routes: dict[str, Route] = {}
        self.hooks: dict[FailureClass, Route] = {}
        self.item_hooks: list[ItemHook] = []
        self._found_on = found_on
        self.version = ""  # digest of the code; `source.load` sets it
        self.arguments: dict[str, str] = {}  # those that are not defaults; `source.load` sets them
        self.seen_links = SeenLinks()
        self.link_resolver = LinkResolver()
        self.item_counts = ItemCounts()
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
        statuses: Iterable[int] = (),
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
        statuses: Iterable[int] = (),
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
            statuses: statuses from 400 to 599 that the handler takes besides successful pages, such as
                `[404]`; `page.status` tells which one it is. Such a page is archived and counts as done.
                Not 429 and 503, which ask a crawler to wait.

        Works with and without parentheses: `@spider.page` and `@spider.page(r"/book/")`.
        """
        if callable(pattern):
            return self.page()(pattern)
        check = None if item is None else model_checker(item)
        taken = self._statuses(statuses)

        def register(handler: _H) -> _H:
            route = Route(
                name=name or handler.__name__,
                handler=handler,
                matches=None if pattern is None else self._pattern(pattern),
                key=self.key if key is None else _fields(key),
                binary=binary,
                check=check,
                model=item,
                statuses=taken,
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
                model=item,
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

    def item(self, hook: _I, /) -> _I:
        """Register an item hook: a function that gets every item before it is checked and written.

        It takes the item, or the item and its page, and returns the item to write: the same one or another.
        It drops an item with `raise shoal.Drop("reason")`, or by returning None; the summary counts dropped
        items by reason. Hooks run in the order of their registration, also in `shoal reparse`.

        Example:

            @spider.item
            def clean(item):
                if not item["price"]:
                    raise shoal.Drop("no price")
                return {**item, "price": float(item["price"])}
        """
        self.item_hooks.append(item_hook(hook, self.name))
        return hook

    def _statuses(self, statuses: Iterable[int]) -> frozenset[int]:
        taken = frozenset([statuses] if isinstance(statuses, int) else statuses)
        for status in taken:
            if not isinstance(status, int) or not 400 <= status <= 599:
                raise Misconfigured(
                    f"spider {self.name!r}: statuses: {status!r} is not a status from 400 to 599"
                )
            if status in WAIT_STATUSES:
                raise Misconfigured(
                    f"spider {self.name!r}: statuses: {status} asks a crawler to wait, and is always retried"
                )
        return taken

    def _failure_class(self, name: object) -> FailureClass:
        known = [one.value for one in FailureClass if one in FAILURES]
        if name in known:
            return FailureClass(name)
        is_rule = name in [one.value for one in FailureClass]
        hint = "; it is a rule that filters requests" if is_rule else _nearest(str(name), known)
        raise Misconfigured(f"spider {self.name!r}: on_error: {name!r} is not a failure class{hint}")

    @property
    def found_on(self) -> bool:
        """Whether to store with each request the URL of its page."""
        if self._found_on is None:
            handlers = [route.handler for route in self.routes.values()]
            self._found_on = mentions([*handlers, *(hook.call for hook in self.item_hooks)], "found_on")
        return self._found_on

    def takes(self, request: Request, url: str, status: int) -> bool:
        """Return whether a handler takes a page of this URL and status."""
        try:
            return self.route_for(request, url, status) is not None
        except Rejected:
            return False

    def route_for(self, request: Request, url: str, status: int = 200) -> Route | None:
        """Return the handler for a page: the one that the request names, else the first that matches the URL.

        A page with a status of 400 or above goes to handlers that name the status. Returns None if no
        handler takes the page. Raises `Rejected` if the request names an unknown handler.
        """
        if status >= 400:
            return self._route_for_status(request, url, status)
        if request.route:
            try:
                return self.routes[request.route]
            except KeyError:
                if request.route in (SITEMAP, ROBOTS):
                    return _listing_route(request.route)
                raise Rejected(
                    f"no handler is called {request.route!r}{_nearest(request.route, self.routes)}"
                ) from None
        for route in self._by_url:
            assert route.matches is not None
            if route.matches(url):
                return route
        return self._fallback

    def _route_for_status(self, request: Request, url: str, status: int) -> Route | None:
        if request.route:
            named = self.routes.get(request.route)
            return named if named is not None and status in named.statuses else None
        for route in self._by_url:
            assert route.matches is not None
            if status in route.statuses and route.matches(url):
                return route
        fallback = self._fallback
        return fallback if fallback is not None and status in fallback.statuses else None

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
        again = bool(request.again or request.unique)
        unique = request.unique or ("again" if again else "")
        return msgspec.structs.replace(request, url=url, unique=unique, again=int(again))

    def _rendering(self, render: object) -> Rendering | None:
        if isinstance(render, Rendering):
            if reason := refuse_rendering(render):
                raise Misconfigured(f"spider {self.name!r}: render: {reason}")
            return render
        if not isinstance(render, bool):
            raise Misconfigured(f"spider {self.name!r}: render takes True or a Rendering, not {render!r}")
        return Rendering() if render else None

    def _pattern(self, pattern: str | re.Pattern[str]) -> Callable[[str], object]:
        try:
            return compile_expression(pattern).search
        except ValueError as error:
            raise Misconfigured(f"spider {self.name!r}: page({pattern!r}): {error}") from None

    def _checked(self, options: dict[str, object]) -> dict[str, object]:
        if not options:
            return {}
        # Here, because a spider without options needs no settings, and its parse processes import none.
        from shoal.model.configuration.configure import TYPES, SettingValue, configure
        from shoal.model.settings import OPERATOR_OPTIONS

        known = [
            name
            for key in TYPES
            if key.startswith("crawl.") and (name := key.removeprefix("crawl.")) not in OPERATOR_OPTIONS
        ]
        origin = f"spider {self.name!r}"
        for option in options:
            if option in OPERATOR_OPTIONS:
                raise Misconfigured(operator_option(origin, option))
            if option not in known:
                raise Misconfigured(
                    f"{origin}: unknown option {option!r}{_nearest(option, [*known, *_PARAMETERS])}"
                )
        given = [
            SettingValue(f"crawl.{option}", value, f"{origin}: {option}") for option, value in options.items()
        ]
        crawl = configure(given).crawl
        return {option: getattr(crawl, option) for option in options}

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy in another process needs: not what this process has remembered of pages."""
        return {name: value for name, value in vars(self).items() if name not in _OF_ONE_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(
            state, seen_links=SeenLinks(), link_resolver=LinkResolver(), item_counts=ItemCounts()
        )

    def __repr__(self) -> str:
        return f"<Spider {self.name!r}: {', '.join(self.routes) or 'no handlers'}>"


def _copied_route(model: type[Any] | None, fields: dict[str, Any]) -> Route:
    return Route(**fields, check=None if model is None else model_checker(model), model=model)


def operator_option(origin: str, option: str) -> str:
    """Return the message for a spider that sets what only the operator may set."""
    return (
        f"{origin}: {option} is not an option of a spider, because it opens this machine to the crawl:"
        f" set crawl.{option} in shoal.toml or SHOAL_CRAWL_{option.upper()}"
    )


def listing_requests(listings: Sequence[str], start: Sequence[str]) -> list[Request]:
    """Return the requests for sitemaps and feeds to start from.

    `AUTO` among them stands for the robots.txt of every origin of the start URLs, and what it names.
    """
    named = [Request(url=url, route=SITEMAP, priority=FIRST) for url in listings if url != AUTO]
    if AUTO not in listings:
        return named
    origins = dict.fromkeys(map(origin_of, start))
    return named + [Request(url=f"{origin}/robots.txt", route=ROBOTS, priority=FIRST) for origin in origins]


def max_links(limits: LinkLimits, route: str) -> int:
    """Return how many links a page may bring."""
    return max(limits.per_page, SITEMAP_LINKS) if route == SITEMAP else limits.per_page


def max_link_bytes(limits: LinkLimits, route: str) -> int:
    """Return how many bytes of links a page may bring; the link that exceeds them is the last one."""
    return max(limits.bytes_per_page, SITEMAP_LINK_BYTES) if route == SITEMAP else limits.bytes_per_page


@cache
def _listing_route(name: str) -> Route:
    from shoal.spider.feed_handler import read_listing, read_robots

    handler = read_listing if name == SITEMAP else read_robots
    return Route(name, handler, matches=None, key=(), binary=True, check=None)


def _fields(key: str | Sequence[str]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


def _nearest(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""
