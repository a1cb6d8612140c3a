"""The fetchers of a crawl: guard, name servers, client, robots.txt and headers as the settings say, and one
fetcher per pool on top of them (`shoal.fetch.registry`)."""

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import lru_cache
from typing import Protocol

from shoal.fetch.browser.chromium import missing_program
from shoal.fetch.browser.client import BrowserClient
from shoal.fetch.browser.pool import BrowserPool
from shoal.fetch.contract import Attempt, Fetcher, Gate
from shoal.fetch.cookies import CookieJar
from shoal.fetch.egress.egress import Egress
from shoal.fetch.escalation.browser_budget import BrowserBudget
from shoal.fetch.escalation.escalation import Escalation
from shoal.fetch.escalation.learned_levels import LearnedLevels
from shoal.fetch.exits.exit_list import part_of, read_exits
from shoal.fetch.exits.exit_pool import ExitPool
from shoal.fetch.exits.ledger import STOP, ExitLedger
from shoal.fetch.exits.routed_client import RoutedClient
from shoal.fetch.exits.shared_health import ExitRecords, SharedHealth
from shoal.fetch.fetcher import HttpFetcher, Refuse
from shoal.fetch.gate import SendGate
from shoal.fetch.headers import CrawlHeaders
from shoal.fetch.http.body_memory import BodyMemory
from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.dns import DnsResolver, is_nameserver
from shoal.fetch.http.guard import Guard
from shoal.fetch.impersonate.client import ImpersonatingClient, load_wreq
from shoal.fetch.impersonate.profiles import UNCHANGED
from shoal.fetch.interpret import RedirectRules
from shoal.fetch.levels import ClientLevels, can_impersonate
from shoal.fetch.registry import HTTP, FetcherContext, FetcherFactory, fetcher_factories, find_factory
from shoal.fetch.robots import RobotsClient, RobotsPolicy
from shoal.frontier import StoredRobots
from shoal.model.configuration.address_ranges import address_ranges
from shoal.model.errors import Misconfigured, NoExit
from shoal.model.exits.exit import ChosenExit, Exit, ExitWish, ExitWishes
from shoal.model.exits.refusal import OFF, ROTATE
from shoal.model.exits.spending import Budget
from shoal.model.failure import Failure
from shoal.model.levels.ladder import IMPERSONATE
from shoal.model.limits import FetchLimits
from shoal.model.outcome import Lease
from shoal.model.rendering import Rendering
from shoal.model.request import BROWSER, Link, Request
from shoal.model.settings import CrawlSettings, ProxySettings, Settings

PROXY_VARIABLES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"})

CHECKED_AT_ONCE = 16  # exits, before the first request
TOLD = 3  # exits that do not work, by name

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
        self,
        names: Iterable[str] = (HTTP,),
        *,
        exclusive: bool = False,
        elsewhere: Collection[str] = (),
        browser: str = "",
    ) -> None:
        """`browser`: the setting `browser.path`."""
        self._browser = browser
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
            if not pool.startswith(HTTP) and not (pool.startswith(BROWSER) and BROWSER in self._names):
                if pool.startswith(BROWSER) and (why := missing_program(self._browser)):
                    return f"a page of the pool {pool!r} cannot be rendered: {why}"
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
        pool = lease.request.pool
        fetcher = self._fetchers.get(pool)
        if fetcher is None:
            fetcher = self._fetchers.get(BROWSER) if pool.startswith(BROWSER) else self._http
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
    exits: ExitPool | None = None,
    ledger: ExitLedger | None = None,
    escalate: "Escalate | None" = None,
    browsers: BrowserPool | None = None,
    client: HttpClient | None = None,
) -> AsyncIterator[Fetcher]:
    """Open a fetcher for every pool; robots.txt files are stored in the frontier. No gate: a new one.

    `home` are the origins of the seeds, to which alone secret headers go; origins may be added to it later.
    Where this process serves every pool it can, a fetcher that cannot be opened takes its pool out.
    """
    warn_about_proxies(tuple(sorted(name for name in os.environ if name.upper() in PROXY_VARIABLES)))
    async with (
        open_fetcher_context(
            settings,
            jar=jar,
            home=home,
            gate=gate,
            memory=memory,
            refuse=refuse,
            robots_cache=robots_cache,
            exits=exits,
            ledger=ledger,
            escalate=escalate,
            browsers=browsers,
            client=client,
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


@lru_cache(maxsize=1)  # once per process
def warn_about_proxies(variables: tuple[str, ...]) -> None:
    """Log that requests are sent directly, although variables of the environment name a proxy."""
    if variables:
        log.warning(
            "proxy.ignored",
            extra={"variables": ", ".join(variables), "requests": "sent directly", "change_with": "--proxy"},
        )


def _factory(factories: Mapping[str, FetcherFactory], pool: str) -> FetcherFactory:
    if (factory := find_factory(factories, pool)) is None:
        raise Misconfigured(
            f"no fetcher on this machine serves the pool {pool!r}; known pools: {', '.join(factories)}"
        )
    return factory


@asynccontextmanager
async def open_fetcher(
    settings: Settings, *, jar: CookieJar, home: Collection[str], gate: Gate | None = None
) -> AsyncIterator[HttpFetcher]:
    """Open the `http` fetcher alone, for one page: without a store, robots.txt files are not kept."""
    exits = open_exits(settings.proxies, worker="local")
    async with open_fetcher_context(settings, jar=jar, home=home, gate=gate, exits=exits) as context:
        yield context.fetcher(context.client)


@asynccontextmanager
async def open_rendering_fetcher(
    settings: Settings, *, jar: CookieJar, home: Collection[str], rendering: Rendering
) -> AsyncIterator[HttpFetcher]:
    """Open a fetcher that renders one page in a browser, without a store."""
    exits = open_exits(settings.proxies, worker="local")
    async with (
        open_fetcher_context(settings, jar=jar, home=home, exits=exits) as context,
        BrowserPool.open(settings.browser) as pool,
        context.egress(pool.passes) as egress,
        BrowserClient.open(
            pool,
            egress,
            context.client.resolver,
            context.guard,
            plain=context.client,
            rendering=rendering,
        ) as client,
    ):
        yield context.fetcher(client)


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
    exits: ExitPool | None = None,
    ledger: ExitLedger | None = None,
    escalate: "Escalate | None" = None,
    browsers: BrowserPool | None = None,
    client: HttpClient | None = None,
) -> AsyncIterator[FetcherContext]:
    """Open what the fetchers of all pools share; without `escalate`, no level is learned.

    `client`: one that the caller has opened and closes; then requests of every level use it.
    """
    redirects = redirect_rules(settings)
    guard = redirects.guard
    servers = nameservers_of(settings.crawl)
    async with AsyncExitStack() as opened:
        shared = client
        if client is None:
            resolver = await opened.enter_async_context(
                DnsResolver(nameservers=servers, timeout=settings.fetch.connect)
            )
            client = await opened.enter_async_context(
                HttpClient(
                    resolver,
                    guard,
                    memory=memory,
                    ca_file=ca_file_of(settings.crawl),
                    connections=None if exits is None else exits.connections,
                )
            )
        headers = CrawlHeaders(
            settings.crawl.sent_user_agent,
            settings.crawl.headers,
            home=home,
            hosts={host: block.headers for host, block in settings.hosts.items()},
        )
        wishes = exit_wishes(settings)
        check_wishes(exits, wishes)
        if exits is not None:
            check_downgrade(exits, settings.crawl)
        if ledger is not None:
            client.on_traffic = ledger.count
        asks = client if exits is None else RoutedClient(client, exits, wishes)
        robots = _robots(settings, asks, redirects, headers, robots_cache) if settings.crawl.robots else None
        async with open_levels(settings, client, guard, memory, alone=shared is not None) as levels:
            escalation = None if escalate is None else escalate(levels)
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
                exits,
                wishes,
                ledger,
                levels,
                escalation,
                browsers,
            )
            if escalation is not None:
                await escalation.close()


@asynccontextmanager
async def open_levels(
    settings: Settings, client: HttpClient, guard: Guard, memory: BodyMemory | None, *, alone: bool = False
) -> AsyncIterator[ClientLevels]:
    """Open the clients that go through the egress, if their package is installed.

    Raises `Misconfigured` if it is not, and the settings ask for one. `alone`: open none besides `client`.
    """
    crawl = settings.crawl
    hosts = host_levels(settings)
    check_client(settings)
    if alone or not can_impersonate():
        yield ClientLevels(client, level=crawl.level, hosts=hosts)
        return

    def account(via: ChosenExit, host: str, count: int) -> None:
        if client.on_traffic is not None:
            client.on_traffic(via, host, count)

    egress = Egress(client.resolver, guard, client.exits, limits=settings.fetch, on_traffic=account)
    ca_file = ca_file_of(crawl)
    async with egress.listen():
        opened = {
            profile: ImpersonatingClient(
                egress,
                client.resolver,
                guard,
                profile=profile,
                memory=memory,
                ca_file=ca_file,
                connections=client.connections,
            )
            for profile in (crawl.profile, UNCHANGED)
        }
        try:
            plain = opened[UNCHANGED] if crawl.http2 else client
            yield ClientLevels(plain, opened[crawl.profile], level=crawl.level, hosts=hosts)
        finally:
            for one in opened.values():
                one.close()


def host_levels(settings: Settings) -> dict[str, str]:
    """Return the levels that the settings set for single hosts."""
    return {host: block.level for host, block in settings.hosts.items() if block.level}


Escalate = Callable[[ClientLevels], Escalation]


def escalation_of(
    crawl: str,
    settings: Settings,
    learned: LearnedLevels,
    *,
    exits: ExitPool | None,
    pools: Callable[[], Collection[str]],
) -> Escalate:
    """Return what makes the escalation of a crawl; `pools` returns the pools that are served."""
    options = settings.crawl

    def escalate(levels: ClientLevels) -> Escalation:
        return Escalation(
            learned,
            BrowserBudget(
                crawl,
                learned.records,
                per_crawl=options.browser_pages,
                per_host=options.browser_pages_per_host,
            ),
            allowed=options.levels,
            level=options.level,
            hosts=host_levels(settings),
            has_exits=exits is not None and exits.has_several,
            impersonates=levels.impersonates,
            pools=pools,
        )

    return escalate


def redirect_rules(settings: Settings) -> RedirectRules:
    """Return which redirects are followed: to which addresses, how many in a row, how long."""
    guard = Guard(address_ranges(settings.fetch.allow_ranges, private=settings.crawl.allow_private))
    return RedirectRules(guard, settings.fetch.redirects, settings.links.url_bytes)


def _robots(
    settings: Settings,
    client: RobotsClient,
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


def open_exits(
    proxies: ProxySettings, *, worker: str, records: ExitRecords | None = None, may_divide: bool = False
) -> ExitPool | None:
    """Return the exits of this process; None: requests leave directly. `records` are shared with others.

    `may_divide`: this process is one of several workers, which divide the list if the settings say so.
    """
    exits = part_of(read_exits(proxies.list), proxies.slice)
    if not exits:
        return None
    health = SharedHealth(exits, records, cool_off=proxies.cool_off)
    divided = may_divide and proxies.slice == "auto"
    pool = ExitPool(exits, proxies, worker=worker, health=health, divided=divided)
    if proxies.when_refused not in (ROTATE, OFF) and not pool.can_serve(ExitWish(proxies.when_refused)):
        raise Misconfigured(
            f"proxies.when_refused: no exit is configured with kind {proxies.when_refused!r}:"
            " use rotate, off, or a kind that shoal proxy list shows"
        )
    return pool


def exits_in_words(proxies: ProxySettings) -> str:
    """Return how many exits the settings name, and how the list is used; empty: requests leave directly."""
    exits = open_exits(proxies, worker="")
    return "" if exits is None else exits.how_used


async def check_exits(
    exits: ExitPool, *, limits: FetchLimits, nameservers: str | None, ca_file: str | None
) -> None:
    """Raise `NoExit` if none of the exits takes a connection, nor has ever worked as the store knows.

    Where one has, the others may be back soon: then requests wait.
    """
    await exits.health.sync()
    if exits.has_worked:
        return
    async with (
        DnsResolver(nameservers=named_servers(nameservers), timeout=limits.connect) as resolver,
        HttpClient(resolver, Guard(), ca_file=ca_file) as client,
    ):
        failures: dict[str, Failure] = {}
        room = asyncio.Semaphore(CHECKED_AT_ONCE)

        async def check(exit: Exit) -> bool:
            async with room:
                failure = await client.exits.check(ChosenExit(exit, exit.user), limits)
            if failure is not None:
                failures[exit.name] = failure
            return failure is None

        checks = [asyncio.ensure_future(check(exit)) for exit in exits.all]
        try:
            for done in asyncio.as_completed(checks):
                if await done:
                    return
        finally:
            for one in checks:
                one.cancel()
    raise NoExit(no_exit_reason({name: failure.reason for name, failure in failures.items()}))


def no_exit_reason(failures: Mapping[str, str]) -> str:
    """Return what is said if no exit works at the start: the first few, and what to do."""
    told = [f"{name}: {why.removeprefix('exit: ')}" for name, why in sorted(failures.items())]
    more = f"; and {len(told) - TOLD} more" if len(told) > TOLD else ""
    which = "the proxy does not work" if len(told) == 1 else f"none of {len(told)} proxies works"
    return f"{which}: {'; '.join(told[:TOLD])}{more}. Correct --proxy or proxies.list; see shoal proxy check"


def open_ledger(crawl: str, settings: CrawlSettings, records: ExitRecords | None) -> ExitLedger:
    """Return what counts the traffic of a crawl through exits, and watches its budget."""
    budget = Budget(settings.budget, settings.budget_gb)
    return ExitLedger(crawl, records, budget=budget, over_budget=settings.over_budget)


def exit_wishes(settings: Settings) -> ExitWishes:
    """Return what the settings of a crawl and of its hosts ask of exits."""
    crawl = settings.crawl
    return ExitWishes(
        ExitWish(crawl.exit_kind, crawl.country),
        {
            host: ExitWish(
                crawl.exit_kind if block.exit_kind is None else block.exit_kind,
                crawl.country if block.country is None else block.country,
            )
            for host, block in settings.hosts.items()
        },
    )


def check_fetching(settings: Settings, exits: ExitPool | None) -> None:
    """Raise `Misconfigured` if what the settings say about exits, clients and name servers cannot work."""
    check_wishes(exits, exit_wishes(settings))
    if exits is not None:
        check_downgrade(exits, settings.crawl)
    check_client(settings)
    nameservers_of(settings.crawl)
    ca_file_of(settings.crawl)


def check_client(settings: Settings) -> None:
    """Raise `Misconfigured` if the settings ask for a client whose package is not installed."""
    if settings.crawl.http2 or IMPERSONATE in (settings.crawl.level, *host_levels(settings).values()):
        load_wreq()


def check_downgrade(exits: ExitPool, settings: CrawlSettings) -> None:
    """Raise `Misconfigured` if the exits to use after the budget is spent are not in the list."""
    if settings.over_budget != STOP and not exits.can_serve(ExitWish(settings.over_budget)):
        raise Misconfigured(
            f"crawl.over_budget: no exit is configured with kind {settings.over_budget!r}:"
            " see shoal proxy list"
        )


def check_wishes(exits: ExitPool | None, wishes: ExitWishes) -> None:
    """Raise `Misconfigured` if the settings ask for exits that are not in the list."""
    for place, wish in {"crawl": wishes.default, **wishes.hosts}.items():
        if exits is None and wish != ExitWish():
            raise Misconfigured(f"{place}: it asks for an exit with {wish}: name one with --proxy")
        if exits is not None and not exits.can_serve(wish):
            raise Misconfigured(f"{place}: no exit is configured with {wish}: see shoal proxy list")


def nameservers_of(settings: CrawlSettings) -> list[str]:
    """Return the name servers to ask; empty: those of the system."""
    return named_servers(settings.nameservers)


def named_servers(text: str | None) -> list[str]:
    servers = [server.strip() for server in (text or "").split(",") if server.strip()]
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
