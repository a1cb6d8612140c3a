"""Which fetcher serves which pool.

A pool says which workers may take a request: `http`, `browser`, or a user-made one such as `http-eu`. Every
pool that a process serves has a fetcher. The `http` fetcher is built in. A package adds another one as an
entry point of the group `shoal.fetchers`, named after its pool:

    [project.entry-points."shoal.fetchers"]
    browser = "my_package:open_browser_fetcher"

The entry point is a factory: it takes a `FetcherContext` and returns an async context manager whose value
has the method of `Fetcher`. It is entered once per crawl, before the first request, and left after the
last one. A factory that starts something expensive should start it at the first attempt.

The fetcher of the pool `browser` is built in as well: it renders pages in Chromium (`fetch.browser`). A
package may provide another one.

A fetcher keeps three promises of Shoal, and the context has what it needs for that:

- It connects only to addresses that `context.guard` allows.
- It takes a turn of `context.gate` before each request, so that the pace of a host holds over all pools.
- It asks `context.robots`, unless the crawl ignores robots.txt (None).

`context.fetcher(client)` keeps all but the first: it joins robots.txt, gate, headers, cookies and the
reading of redirects and failures around any client. So most factories only supply a client.

A user-made pool whose name starts with `http` or `browser` and that no factory is named after is served by
the fetcher of that name: such pools tell regions or networks apart, not ways to fetch.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from inspect import signature

import msgspec

from shoal.fetch.browser.chromium import find_program, missing_program
from shoal.fetch.browser.client import BrowserClient
from shoal.fetch.browser.page_requests import RequestRules
from shoal.fetch.browser.pool import BrowserPool
from shoal.fetch.contract import Attempt, Client, Fetcher, Gate
from shoal.fetch.cookies import CookieJar
from shoal.fetch.egress.egress import Egress
from shoal.fetch.egress.passes import Passes
from shoal.fetch.escalation.escalation import Escalation
from shoal.fetch.exits.exit_pool import ExitPool
from shoal.fetch.exits.ledger import ExitLedger
from shoal.fetch.fetcher import NO_WISHES, HttpFetcher, Refuse
from shoal.fetch.headers import CrawlHeaders
from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.guard import Guard
from shoal.fetch.interpret import RedirectRules
from shoal.fetch.levels import ClientChoice, ClientLevels
from shoal.fetch.robots import RobotsPolicy
from shoal.model.configuration.block_rules import block_rules
from shoal.model.errors import Misconfigured
from shoal.model.exits.exit import ExitWishes
from shoal.model.outcome import Lease
from shoal.model.request import BROWSER, HTTP
from shoal.model.settings import BrowserSettings, Settings

__all__ = ["HTTP", "FetcherContext", "FetcherFactory", "check_pools", "fetcher_factories", "find_factory"]

GROUP = "shoal.fetchers"


class FetcherContext(msgspec.Struct, frozen=True):
    """What a fetcher is built from: one per crawl, shared by the fetchers of all its pools."""

    settings: Settings
    guard: Guard
    client: HttpClient  # the built-in one
    gate: Gate
    headers: CrawlHeaders
    redirects: RedirectRules
    jar: CookieJar
    robots: RobotsPolicy | None  # None: the crawl ignores robots.txt
    refuse: Refuse | None = None  # whether a redirect may be followed
    exits: ExitPool | None = None  # None: requests leave directly
    wishes: ExitWishes = NO_WISHES
    ledger: ExitLedger | None = None
    levels: ClientLevels | None = None  # None: the built-in client makes every request of its pools
    escalation: Escalation | None = None  # None: no level is learned
    browsers: BrowserPool | None = None  # those that all crawls of this process share; None: it has one crawl

    def egress(self, passes: Passes | None = None) -> AbstractAsyncContextManager[Egress]:
        """Open a proxy on loopback for a client that opens its own connections: a browser, for example.

        What goes through it passes the guard and leaves through an exit. `exits.send` chooses the exit of a
        request; `Egress.issue` returns a pass for it.
        """
        client = self.client
        egress = Egress(client.resolver, self.guard, client.exits, limits=self.settings.fetch, passes=passes)
        egress.on_traffic = client.on_traffic
        return egress.listen()

    def request_rules(self) -> RequestRules:
        """Return the rules for what rendered pages request besides themselves."""
        return RequestRules(self.gate, self.robots, self._interval, burst=self.settings.browser.burst)

    def _interval(self, host: str) -> float:
        block, rate = self.settings.hosts.get(host), self.settings.crawl.rate
        if block is not None and block.rate is not None:
            rate = block.rate
        return 1 / rate if rate else 0.0

    def fetcher(self, client: Client, clients: ClientChoice | None = None) -> HttpFetcher:
        """Return a fetcher that does everything but the exchange itself, which `client` does.

        `clients` chooses another client for some requests. Raise `Misconfigured` if requests must leave
        through exits, and the client cannot use them.
        """
        if self.exits is not None and "via" not in signature(client.fetch).parameters:
            raise Misconfigured(f"{type(client).__name__} cannot use proxies: remove them, or its pool")
        return HttpFetcher(
            client,
            self.gate,
            self.redirects,
            self.headers,
            robots=self.robots,
            jar=self.jar,
            refuse=self.refuse,
            limits=self.settings.fetch,
            retry=self.settings.retry,
            blocked_if=block_rules(self.settings),
            exits=self.exits,
            wishes=self.wishes,
            ledger=self.ledger,
            levels=self.levels if client is self.client else None,
            clients=clients,
            escalation=self.escalation,
        )


FetcherFactory = Callable[[FetcherContext], AbstractAsyncContextManager[Fetcher]]


@asynccontextmanager
async def open_http_fetcher(context: FetcherContext) -> AsyncIterator[Fetcher]:
    yield context.fetcher(context.client)


class BrowserFetcher:
    """Renders pages. An archived copy is of no use: a browser cannot show what a server did not send."""

    def __init__(self, fetcher: HttpFetcher) -> None:
        self._fetcher = fetcher

    async def attempt(self, lease: Lease, *, etag: str = "", modified: str = "") -> Attempt:
        return await self._fetcher.attempt(lease)


@asynccontextmanager
async def open_browser_fetcher(context: FetcherContext) -> AsyncIterator[Fetcher]:
    """Open the fetcher that renders pages; raise `Misconfigured` if no browser is installed."""
    find_program(context.settings.browser.path)
    async with AsyncExitStack() as stack:
        pool = context.browsers
        if pool is None:
            pool = await stack.enter_async_context(BrowserPool.open(context.settings.browser))
        egress = await stack.enter_async_context(context.egress(pool.passes))
        opened = BrowserClient.open(
            pool,
            egress,
            context.client.resolver,
            context.guard,
            plain=context.client,
            rules=context.request_rules(),
            session=context.settings.crawl.browser_session,
        )
        client = await stack.enter_async_context(opened)
        yield BrowserFetcher(context.fetcher(client, client))


def fetcher_factories() -> Mapping[str, FetcherFactory]:
    """Return the factories of this machine by pool, those that are built in first."""
    factories: dict[str, FetcherFactory] = {HTTP: open_http_fetcher, BROWSER: open_browser_fetcher}
    for entry in fetcher_entry_points():
        if entry.name == HTTP:
            raise Misconfigured(f"fetcher {entry.value}: the pool {HTTP} is built in; name another pool")
        factories[entry.name] = _loaded_at_use(entry.name, entry.load)
    return factories


@cache  # finding them reads the metadata of every installed package, and each crawl of a worker asks
def fetcher_entry_points() -> Sequence[EntryPoint]:
    return tuple(entry_points(group=GROUP))


def _loaded_at_use(pool: str, load: Callable[[], FetcherFactory]) -> FetcherFactory:
    @asynccontextmanager
    async def open_fetcher(context: FetcherContext) -> AsyncIterator[Fetcher]:
        try:
            factory = load()
        except Exception as error:  # someone else's package: whatever its import raises
            raise Misconfigured(f"the fetcher of the pool {pool!r} does not load: {error!r}") from error
        async with factory(context) as fetcher:
            yield fetcher

    return open_fetcher


def find_factory(factories: Mapping[str, FetcherFactory], pool: str) -> FetcherFactory | None:
    """Return the factory that serves a pool on this machine; None: no fetcher does."""
    if pool in factories:
        return factories[pool]
    for built_in in (HTTP, BROWSER):
        if pool.startswith(built_in):
            return factories[built_in]
    return None


def usable_pools(settings: BrowserSettings) -> tuple[str, ...]:
    """Return the pools that this machine can serve: `browser` only where one is installed."""
    factories = fetcher_factories()
    if factories[BROWSER] is open_browser_fetcher and missing_program(settings.path):
        return tuple(pool for pool in factories if pool != BROWSER)
    return tuple(factories)


def check_pools(pools: tuple[str, ...], settings: BrowserSettings) -> None:
    """Raise `Misconfigured` if this machine cannot serve one of the pools."""
    factories = fetcher_factories()
    for pool in pools:
        factory = find_factory(factories, pool)
        if factory is open_browser_fetcher:
            find_program(settings.path)
        elif factory is None:
            raise Misconfigured(
                f"no fetcher on this machine serves the pool {pool!r}; known: {', '.join(factories)}."
                f" Install a package that provides it (entry point group {GROUP}),"
                f" or start the worker with --pools {HTTP}"
            )
