"""Scrape one page: the same guard, robots.txt, limits and pace as a crawl.

One fetcher serves all pages of a process, so that the pace of a host holds between them. In a fleet the turns
of hosts come from its store, so that it holds between all servers and workers. A host that a running crawl
has requests for is left to that crawl: in a folder, two paces on one host would add up.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shoal.engine.fetchers import open_fetcher
from shoal.fetch.contract import Attempt, CountedTurn, Gate
from shoal.fetch.cookies import CookieJar
from shoal.fetch.fetcher import HttpFetcher
from shoal.fetch.gate import SendGate
from shoal.fetch.shared_gate import SharedGate
from shoal.model.api.problem import ApiError
from shoal.model.api.submission import ScrapedPage, ScrapeRequest
from shoal.model.errors import Rejected
from shoal.model.pace import TurnAnswer, TurnRequest
from shoal.model.rendering import Rendering
from shoal.model.request import Request
from shoal.model.settings import Settings
from shoal.model.start_url import start_url
from shoal.model.url import host_key
from shoal.services.inspect.one_page import follow
from shoal.services.inspect.try_page import TriedPage, try_page
from shoal.spider.source import PlainSpider, SpiderModule, SpiderSource
from shoal.stores.open import open_store, store_exists

AT_ONCE = 4
MAX_WAITING = 32
MAX_CONTENT_CHARS = 8 << 20
_PAGE_SPIDER = "shoal.services.scraping.page_spider"


class Scraper:
    def __init__(self, settings: Settings, fetcher: HttpFetcher, gate: "StoreGate") -> None:
        self._settings = settings
        self._fetcher = fetcher
        self._gate = gate
        self._room = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings) -> AsyncIterator["Scraper"]:
        # No origin is at home here: secret headers of the settings are sent to no host.
        gate = StoreGate(settings)
        async with open_fetcher(settings, jar=CookieJar(), home=(), gate=gate) as fetcher:
            yield cls(settings, fetcher, gate)

    async def scrape(self, wanted: ScrapeRequest) -> ScrapedPage:
        """Fetch a page and return it in the wanted format; raise `Rejected` with the reason otherwise."""
        url = start_url(wanted.url)
        if self._waiting >= MAX_WAITING:
            raise ApiError(429, "too_many_scrapes", "too many pages are being scraped", retry_after_s=5.0)
        self._waiting += 1
        try:
            async with asyncio.timeout(wanted.timeout_s), self._room:
                await self._refuse_busy_host(host_key(url))
                source, handler = spider_for(wanted)
                tried = await try_page(
                    source, url, self._settings, frozenset(), handler=handler, fetch=self.fetch
                )
        except TimeoutError:
            raise Rejected(f"{url}: not done after {wanted.timeout_s:g} seconds") from None
        finally:
            self._waiting -= 1
        return scraped_page(tried, wanted)

    async def fetch(
        self, request: Request, settings: Settings, *, render: Rendering | None = None
    ) -> Attempt:
        """Fetch a page and where it redirects to, at the pace of its hosts; never in a browser."""
        await self._gate.look_at_store()
        return await follow(self._fetcher, request, settings)

    async def _refuse_busy_host(self, host: str) -> None:
        dsn = self._settings.store
        if not store_exists(dsn):
            return
        async with open_store(dsn) as store:
            found = await store.host(host)
            live = store.workers.owner() is not None or bool(await store.workers.all())
        if found is None:
            return
        if found.paused:
            raise ApiError(409, "host_paused", f"{host} is paused: resume it first")
        if (wait := found.rest_until - time.time()) > 0:
            raise ApiError(
                409, "host_rests", f"{host} rests: it asked for that in an answer", retry_after_s=wait
            )
        if live and (found.waiting or found.inflight):
            raise ApiError(
                409,
                "host_busy",
                f"a running crawl has requests for {host}: its pace is taken",
                retry_after_s=30.0,
            )


class StoreGate:
    """The turns of hosts: those of a fleet from its store, others from this process."""

    def __init__(self, settings: Settings) -> None:
        self._dsn = settings.store
        addresses = settings.crawl.address_pace
        self._local = SendGate(addresses=addresses)
        self._shared = SharedGate(self._take, addresses=addresses)
        self._is_shared = False

    async def look_at_store(self) -> None:
        """Find out where turns come from: a store may be created while a server runs."""
        if store_exists(self._dsn):
            async with open_store(self._dsn) as store:
                self._is_shared = store.capabilities.shared

    def turn(self, host: str, *, interval: float, burst: int = 1, early: float = 0.0) -> CountedTurn:
        return self._gate.turn(host, interval=interval, burst=burst, early=early)

    def known_interval(self, host: str) -> float:
        return self._gate.known_interval(host)

    @property
    def _gate(self) -> Gate:
        return self._shared if self._is_shared else self._local

    async def _take(self, request: TurnRequest) -> TurnAnswer:
        async with open_store(self._dsn) as store:
            return await store.fleet.frontier.turn(request)


def spider_for(wanted: ScrapeRequest) -> tuple[SpiderSource, str]:
    """Return what turns a page into the wanted format, and the name of its handler."""
    if wanted.format == "json":
        return PlainSpider("scrape", (), dict(wanted.fields)), ""
    if wanted.fields:
        raise Rejected("fields: they need the format json")
    return SpiderModule(_PAGE_SPIDER, "spider"), wanted.format


def scraped_page(tried: TriedPage, wanted: ScrapeRequest) -> ScrapedPage:
    item = dict(tried.items[0]) if tried.items else {}
    content = item if wanted.format == "json" else item.get("content", "")
    if isinstance(content, str) and len(content) > MAX_CONTENT_CHARS:
        raise Rejected(f"{tried.url}: more than {MAX_CONTENT_CHARS:,} characters of {wanted.format}")
    return ScrapedPage(
        url=tried.url,
        status=tried.status,
        content_type=tried.content_type,
        fetched_at=time.time(),
        format=wanted.format,
        content=content,
        title=str(item.get("title") or "")[:1000],
        redirects=list(tried.redirects),
        problem=tried.problem,
    )
