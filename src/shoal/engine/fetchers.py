"""The fetchers of a crawl: guard, name servers, client, robots.txt and headers as the settings say, and one
fetcher per pool on top of them (`shoal.fetch.registry`)."""

import logging
import ssl
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol

from shoal.fetch.contract import Attempt, Fetcher, Gate
from shoal.fetch.cookies import CookieJar
from shoal.fetch.fetcher import HttpFetcher, Refuse
from shoal.fetch.gate import SendGate
from shoal.fetch.headers import CrawlHeaders
from shoal.fetch.http.body_memory import BodyMemory
from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.dns import DnsResolver, is_nameserver
from shoal.fetch.http.guard import Guard
from shoal.fetch.interpret import RedirectRules
from shoal.fetch.registry import HTTP, FetcherContext, FetcherFactory, fetcher_factories, find_factory
from shoal.fetch.robots import RobotsPolicy
from shoal.frontier import StoredRobots
from shoal.model.configuration.address_ranges import address_ranges
from shoal.model.errors import Misconfigured
from shoal.model.outcome import Lease
from shoal.model.request import Link, Request
from shoal.model.settings import CrawlSettings, Settings

log = logging.getLogger(__name__)

USER_AGENT_TOKEN = "Shoal"  # noqa: S105 - the product token that robots.txt files know us by


class RobotsCache(Protocol):
    """The part of a frontier that stores robots.txt files."""

    async def get_robots(self, host: str) -> StoredRobots | None: ...
    async def set_robots(self, host: str, *, expires: float, status: int, body: bytes) -> None: ...


class Pools:
    """The pools whose requests this process takes.

    `shoal crawl` serves every pool it can (`exclusive`), user-made `http-...` pools included. On a shared
    store, running workers serve the pools `elsewhere`. A request of any other pool would wait without limit:
    `refusal` names it. A worker refuses nothing, because another one may be started for such a pool.
    """

    def __init__(
        self, names: Iterable[str] = (HTTP,), *, exclusive: bool = False, elsewhere: Collection[str] = ()
    ) -> None:
        self._names = dict.fromkeys(names)
        self.exclusive = exclusive
        self._elsewhere = frozenset(elsewhere).difference(self._names)
        self._leased_from = tuple(self._names)

    @property
    def names(self) -> tuple[str, ...]:
        """The pools to lease from."""
        return self._leased_from

    def remove(self, pool: str) -> None:
        """Serve a pool no longer: its fetcher cannot be opened here."""
        del self._names[pool]
        self._leased_from = tuple(self._names)

    def refusal(self, pools: Iterable[str]) -> str | None:
        """Return why one of these pools cannot be served; None: all can."""
        for pool in pools:
            if pool in self._names or pool in self._elsewhere or not self.exclusive:
                continue
            if not pool.startswith(HTTP):
                known = ", ".join([*self._names, *sorted(self._elsewhere)])
                return f"no fetcher on this machine serves the pool {pool!r}; known pools: {known}"
            self._names[pool] = None
            self._leased_from = tuple(self._names)
        return None

    def refused_link(self, links: Sequence[Link]) -> str | None:
        """Return why one of the links cannot be served; None: all can."""
        if not self.exclusive:
            return None
        names = self._names
        # One look per link and no list: this runs for every page.
        for link in links:
            if link.pool not in names and (reason := self.refusal((link.pool,))):
                return reason
        return None


def check_seed_pools(pools: Pools, spider: str, seeds: Iterable[Request]) -> None:
    """Raise `Misconfigured` if a start request would wait without limit for its pool."""
    if reason := pools.refusal(seed.pool for seed in seeds):
        raise Misconfigured(f"spider {spider!r}: start: {reason}")


def check_waiting_pools(pools: Pools, crawl: str, waiting: Mapping[str, int]) -> None:
    """Raise `Misconfigured` if a crawl has requests that would wait without limit for their pool."""
    if reason := pools.refusal(pool for pool, count in waiting.items() if count):
        raise Misconfigured(
            f"crawl {crawl!r}: {reason}. Install the fetcher of that pool, or start again with --fresh"
        )


class PoolFetchers:
    """Attempts each request with the fetcher of its pool."""

    def __init__(self, fetchers: Mapping[str, Fetcher]) -> None:
        self._fetchers = fetchers
        self._http = fetchers.get(HTTP)

    async def attempt(self, lease: Lease, *, etag: str = "", modified: str = "") -> Attempt:
        fetcher = self._fetchers.get(lease.request.pool) or self._http
        assert fetcher is not None, lease.request.pool  # the frontier leases only from the pools asked for
        return await fetcher.attempt(lease, etag=etag, modified=modified)


@asynccontextmanager
async def open_fetchers(
    settings: Settings,
    pools: Pools,
    *,
    robots_cache: RobotsCache,
    jar: CookieJar,
    home: Collection[str],
    refuse: Refuse | None = None,
    gate: Gate | None = None,
    memory: BodyMemory | None = None,
) -> AsyncIterator[Fetcher]:
    """Open a fetcher for every pool; robots.txt files are stored in the frontier. No gate: a new one.

    `home` are the origins of the seeds, to which alone secret headers go; origins may be added to it later.
    Where this process serves every pool it can, a fetcher that cannot be opened takes its pool out.
    """
    async with (
        open_fetcher_context(
            settings, jar=jar, home=home, gate=gate, memory=memory, refuse=refuse, robots_cache=robots_cache
        ) as context,
        AsyncExitStack() as opened,
    ):
        factories = fetcher_factories()
        fetchers = {}
        for pool in pools.names:
            try:
                fetchers[pool] = await opened.enter_async_context(_factory(factories, pool)(context))
            except Misconfigured as error:
                if not pools.exclusive or pool == HTTP:
                    raise
                pools.remove(pool)
                log.warning("pool.unavailable", extra={"pool": pool, "why": str(error)})
        if list(fetchers) == [HTTP]:  # nothing to choose
            yield fetchers[HTTP]
        else:
            yield PoolFetchers(fetchers)


def _factory(factories: Mapping[str, FetcherFactory], pool: str) -> FetcherFactory:
    if (factory := find_factory(factories, pool)) is None:
        raise Misconfigured(
            f"no fetcher on this machine serves the pool {pool!r}; known pools: {', '.join(factories)}"
        )
    return factory


@asynccontextmanager
async def open_fetcher(
    settings: Settings, *, jar: CookieJar, home: Collection[str]
) -> AsyncIterator[HttpFetcher]:
    """Open the `http` fetcher alone, for one page: without a store, robots.txt files are not kept."""
    async with open_fetcher_context(settings, jar=jar, home=home) as context:
        yield context.fetcher(context.client)


@asynccontextmanager
async def open_fetcher_context(
    settings: Settings,
    *,
    jar: CookieJar,
    home: Collection[str],
    gate: Gate | None = None,
    memory: BodyMemory | None = None,
    refuse: Refuse | None = None,
    robots_cache: RobotsCache | None = None,
) -> AsyncIterator[FetcherContext]:
    """Open what the fetchers of all pools share."""
    guard = Guard(address_ranges(settings.fetch.allow_ranges, private=settings.crawl.allow_private))
    servers = nameservers_of(settings.crawl)
    async with (
        DnsResolver(nameservers=servers, timeout=settings.fetch.connect) as resolver,
        HttpClient(resolver, guard, memory=memory, ca_file=ca_file_of(settings.crawl)) as client,
    ):
        redirects = RedirectRules(guard, settings.fetch.redirects, settings.links.url_bytes)
        headers = CrawlHeaders(
            settings.crawl.sent_user_agent,
            settings.crawl.headers,
            home=home,
            hosts={host: block.headers for host, block in settings.hosts.items()},
        )
        robots = (
            _robots(settings, client, redirects, headers, robots_cache) if settings.crawl.robots else None
        )
        yield FetcherContext(
            settings,
            guard,
            client,
            SendGate() if gate is None else gate,  # an empty gate is false
            headers,
            redirects,
            jar,
            robots,
            refuse,
        )


def _robots(
    settings: Settings,
    client: HttpClient,
    redirects: RedirectRules,
    headers: CrawlHeaders,
    cache: RobotsCache | None,
) -> RobotsPolicy:
    async def load(origin: str) -> bytes | None:
        known = await cache.get_robots(origin) if cache is not None else None
        return known.body if known else None

    async def save(origin: str, record: bytes, expires: float) -> None:
        if cache is not None:
            await cache.set_robots(origin, expires=expires, status=0, body=record)

    return RobotsPolicy(
        client,
        redirects,
        token=settings.crawl.sent_user_agent.partition("/")[0] or USER_AGENT_TOKEN,
        headers=headers.public,
        limits=settings.fetch,
        max_delay=settings.crawl.max_crawl_delay,
        min_ttl=settings.crawl.robots_min_ttl,
        load=load if cache is not None else None,
        save=save if cache is not None else None,
    )


def nameservers_of(settings: CrawlSettings) -> list[str]:
    """Return the name servers to ask; empty: those of the system."""
    servers = [server.strip() for server in (settings.nameservers or "").split(",") if server.strip()]
    for server in servers:
        # A name here would have to be looked up first.
        if not is_nameserver(server):
            raise Misconfigured(f"crawl.nameservers: {server!r} is not an address, or an address and a port")
    return servers


def ca_file_of(settings: CrawlSettings) -> str | None:
    """Return the file of additional authorities, after checking that it holds some."""
    if settings.ca_file is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(settings.ca_file)
        except ssl.SSLError:
            raise Misconfigured(f"crawl.ca_file: {settings.ca_file} holds no certificates in PEM") from None
        except OSError as error:
            raise Misconfigured(f"crawl.ca_file: {settings.ca_file}: {error.strerror}") from None
    return settings.ca_file
