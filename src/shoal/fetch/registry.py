"""Which fetcher serves which pool.

A pool says which workers may take a request: `http`, `browser`, or a user-made one such as `http-eu`. Every
pool that a process serves has a fetcher. The `http` fetcher is built in. A package adds another one as an
entry point of the group `shoal.fetchers`, named after its pool:

    [project.entry-points."shoal.fetchers"]
    browser = "my_package:open_browser_fetcher"

The entry point is a factory: it takes a `FetcherContext` and returns an async context manager whose value
has the method of `Fetcher`. It is entered once per crawl, before the first request, and left after the
last one. A factory that starts something expensive should start it at the first attempt.

A fetcher keeps three promises of Shoal, and the context has what it needs for that:

- It connects only to addresses that `context.guard` allows.
- It takes a turn of `context.gate` before each request, so that the pace of a host holds over all pools.
- It asks `context.robots`, unless the crawl ignores robots.txt (None).

`context.fetcher(client)` keeps all but the first: it joins robots.txt, gate, headers, cookies and the
reading of redirects and failures around any client. So most factories only supply a client.

A user-made pool whose name starts with `http` and that no factory is named after is served by the `http`
fetcher: such pools tell regions or networks apart, not ways to fetch.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points

from shoal.fetch.contract import Client, Fetcher, Gate
from shoal.fetch.cookies import CookieJar
from shoal.fetch.fetcher import HttpFetcher, Refuse
from shoal.fetch.headers import CrawlHeaders
from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.guard import Guard
from shoal.fetch.interpret import RedirectRules
from shoal.fetch.robots import RobotsPolicy
from shoal.model.errors import Misconfigured
from shoal.model.settings import Settings

GROUP = "shoal.fetchers"
HTTP = "http"


@dataclass(frozen=True, slots=True)
class FetcherContext:
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

    def fetcher(self, client: Client) -> HttpFetcher:
        """Return a fetcher that does everything but the exchange itself, which `client` does."""
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
        )


FetcherFactory = Callable[[FetcherContext], AbstractAsyncContextManager[Fetcher]]


@asynccontextmanager
async def open_http_fetcher(context: FetcherContext) -> AsyncIterator[Fetcher]:
    yield context.fetcher(context.client)


def fetcher_factories() -> Mapping[str, FetcherFactory]:
    """Return the factories of this machine by pool, the built-in one first."""
    factories: dict[str, FetcherFactory] = {HTTP: open_http_fetcher}
    for entry in entry_points(group=GROUP):
        if entry.name == HTTP:
            raise Misconfigured(f"fetcher {entry.value}: the pool {HTTP} is built in; name another pool")
        factories[entry.name] = _loaded_at_use(entry.name, entry.load)
    return factories


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
    return factories[HTTP] if pool.startswith(HTTP) else None


def check_pools(pools: tuple[str, ...]) -> None:
    """Raise `Misconfigured` if this machine cannot serve one of the pools."""
    factories = fetcher_factories()
    for pool in pools:
        if find_factory(factories, pool) is None:
            raise Misconfigured(
                f"no fetcher on this machine serves the pool {pool!r}; known: {', '.join(factories)}."
                f" Install a package that provides it (entry point group {GROUP}),"
                f" or start the worker with --pools {HTTP}"
            )
