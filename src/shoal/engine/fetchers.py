"""What fetches, put together: guard, name servers, client, robots.txt and headers, as the settings say."""

import ssl
import time
from contextlib import AsyncExitStack
from typing import Protocol

from shoal.engine.scope_state import ScopeState
from shoal.fetch.cookies import CookieJar
from shoal.fetch.fetcher import Fetcher, Gate, Refuse
from shoal.fetch.gate import SendGate
from shoal.fetch.headers import CrawlHeaders
from shoal.fetch.http.client import HttpClient
from shoal.fetch.http.dns import Resolver, is_nameserver
from shoal.fetch.http.guard import Guard
from shoal.fetch.interpret import RedirectRules
from shoal.fetch.robots import LIFETIME, Load, RobotsPolicy, Save
from shoal.frontier import StoredRobots
from shoal.model.errors import Misconfigured
from shoal.model.settings import CrawlSettings, Settings

USER_AGENT_TOKEN = "Shoal"  # noqa: S105 - the product token that robots.txt files know us by


class RobotsCache(Protocol):
    """The part of a frontier that keeps robots.txt files."""

    async def get_robots(self, host: str) -> StoredRobots | None: ...
    async def set_robots(self, host: str, *, expires: float, status: int, body: bytes) -> None: ...


async def open_crawl_fetcher(
    stack: AsyncExitStack,
    settings: Settings,
    robots: RobotsCache,
    jar: CookieJar,
    border: ScopeState,
    *,
    gate: Gate | None = None,
) -> Fetcher:
    """Open what fetches for a crawl, with robots.txt files kept in its frontier; no gate: one of its own."""

    async def load(origin: str) -> bytes | None:
        known = await robots.get_robots(origin)
        return known.body if known else None

    async def save(origin: str, record: bytes) -> None:
        await robots.set_robots(origin, expires=time.time() + LIFETIME, status=0, body=record)

    return await open_fetcher(stack, settings, jar=jar, gate=gate, refuse=border.refuse, load=load, save=save)


async def open_fetcher(
    stack: AsyncExitStack,
    settings: Settings,
    *,
    jar: CookieJar,
    gate: Gate | None = None,
    refuse: Refuse | None = None,
    load: Load | None = None,
    save: Save | None = None,
) -> Fetcher:
    """Open what fetches, guard and robots.txt included; `load` and `save` keep robots.txt files."""
    guard = Guard(allow_private=settings.crawl.allow_private)
    resolver = await stack.enter_async_context(
        Resolver(nameservers=nameservers_of(settings.crawl), timeout=settings.fetch.connect)
    )
    client = await stack.enter_async_context(HttpClient(resolver, guard, ca_file=ca_file_of(settings.crawl)))
    redirects = RedirectRules(guard, settings.fetch.redirects, settings.links.url_bytes)
    headers = CrawlHeaders(
        settings.crawl.sent_user_agent,
        settings.crawl.headers,
        hosts={host: block.headers for host, block in settings.hosts.items()},
    )

    robots = RobotsPolicy(
        client,
        redirects,
        token=settings.crawl.sent_user_agent.partition("/")[0] or USER_AGENT_TOKEN,
        headers=headers.public,
        limits=settings.fetch,
        load=load,
        save=save,
    )
    return Fetcher(
        client,
        gate or SendGate(),
        redirects,
        headers,
        robots=robots if settings.crawl.robots else None,
        jar=jar,
        refuse=refuse,
        limits=settings.fetch,
        retry=settings.retry,
    )


def nameservers_of(settings: CrawlSettings) -> list[str]:
    """List the name servers to ask; none: those of the system."""
    servers = [server.strip() for server in (settings.nameservers or "").split(",") if server.strip()]
    for server in servers:
        # A name here would have to be looked up first.
        if not is_nameserver(server):
            raise Misconfigured(f"crawl.nameservers: {server!r} is not an address, or an address and a port")
    return servers


def ca_file_of(settings: CrawlSettings) -> str | None:
    """Name the file of additional authorities, once it is known to hold some."""
    if settings.ca_file is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(settings.ca_file)
        except ssl.SSLError:
            raise Misconfigured(f"crawl.ca_file: {settings.ca_file} holds no certificates in PEM") from None
        except OSError as error:
            raise Misconfigured(f"crawl.ca_file: {settings.ca_file}: {error.strerror}") from None
    return settings.ca_file
