"""Where a crawl starts: its first requests, the cookies given to it, and how both get into the store.

A list of start URLs may be longer than memory is large, so it is added piece by piece. Adding is idempotent,
so an interrupted list needs no mark of where it stopped: the next run reads it from the beginning, and the
frontier ignores what the crawl already knows.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Protocol

import msgspec

from shoal.engine.plan import CrawlPlan, SeedList, Stop
from shoal.fetch.cookies import Cookie
from shoal.fetch.given_cookies import cookies_for_seeds, read_cookie_file
from shoal.fetch.headers import needs_home
from shoal.frontier import Added
from shoal.model.configuration.contact import contact_missing
from shoal.model.errors import Interrupted, Misconfigured, Rejected, Unavailable
from shoal.model.rendering import Rendering
from shoal.model.request import Link, Request, with_rendering
from shoal.model.settings import CrawlSettings, Settings
from shoal.model.url import CREDENTIALS, canonical, has_credentials, host_key, origin_of
from shoal.spider.source import SpiderDescription
from shoal.spider.spider import listing_requests

log = logging.getLogger(__name__)

SEED_BATCH = 10_000


class SeedFrontier(Protocol):
    """The part of a frontier that seeding needs."""

    async def add(self, crawl: str, links: Sequence[Link]) -> Added: ...


def start_requests(plan: CrawlPlan, spider: SpiderDescription) -> list[Request]:
    """Return the requests to start from: those of the command line, else the spider's.

    A list of start URLs is read later, when everything else is open.
    """
    requests = [Request(url=url) for url in plan.seeds]
    if not requests and plan.listed is None:
        requests += spider.start
    requests = [with_rendering(request, seed_rendering(plan, spider)) for request in requests]
    requests += listing_requests(plan.sitemaps, [request.url for request in requests])
    if not requests and plan.listed is None:
        raise Misconfigured(f"spider {spider.name!r} has nowhere to start: give it start=[...] or a URL")
    seeds = []
    for request in requests:
        try:
            if has_credentials(request.url):
                raise Rejected(f"URL of {host_key(canonical(request.url))}: {CREDENTIALS}")
            url = msgspec.msgpack.decode(Link.to(request).packed, type=Request).url
        except Rejected as error:
            raise Misconfigured(f"start: {error}") from None
        if not url.startswith(("http://", "https://")):
            raise Misconfigured(f"start: only http and https can be crawled: {url}")
        seeds.append(msgspec.structs.replace(request, url=url))
    return seeds


def seed_rendering(plan: CrawlPlan, spider: SpiderDescription) -> Rendering | None:
    """Return how start URLs are rendered; None: they are not."""
    return crawl_rendering(plan.settings, spider)


def crawl_rendering(settings: Settings, spider: SpiderDescription) -> Rendering | None:
    """Return how the pages of a crawl are rendered; None: only those are that ask for it."""
    return spider.render or (Rendering() if settings.crawl.render else None)


def start_cookies(settings: CrawlSettings, seeds: Sequence[Request]) -> list[Cookie]:
    """Return the cookies that the user gives to the crawl."""
    listed = [] if settings.cookie_file is None else read_cookie_file(settings.cookie_file)
    return [*listed, *cookies_for_seeds(settings.cookies, [seed.url for seed in seeds])]


async def add_given(
    frontier: SeedFrontier, crawl: str, seeds: Sequence[Request], *, fingerprint_key: bytes
) -> int:
    """Add seeds that are in memory; return how many were new."""
    new = 0
    for begin in range(0, len(seeds), SEED_BATCH):
        piece = seeds[begin : begin + SEED_BATCH]
        new += (await frontier.add(crawl, [Link.to(seed, fingerprint_key) for seed in piece])).new
    return new


def warn_without_contact(
    crawl: str, settings: CrawlSettings, seeds: Sequence[Request], listed: SeedList | None
) -> None:
    """Log a warning if the crawl leaves this network and does not name its operator."""
    urls = [seed.url for seed in seeds] + ([] if listed is None else [listed.first])
    if contact_missing(urls, settings):
        log.warning(
            "crawl.no_contact",
            extra={"crawl": crawl, "setting": "crawl.contact", "flag": "--contact URL|E-MAIL"},
        )


def depends_on_origins(settings: Settings, spider: SpiderDescription) -> bool:
    """Return whether scope, cookies or headers of a crawl depend on the origins of its seeds."""
    crawl = settings.crawl
    return bool(crawl.cookies) or (crawl.same_host and not spider.hosts) or has_secret_headers(settings)


def has_secret_headers(settings: Settings) -> bool:
    """Return whether a header of the settings goes to the origins of the seeds only."""
    return needs_home(settings.crawl.headers, [host.headers for host in settings.hosts.values()])


async def add_listed(
    frontier: SeedFrontier,
    crawl: str,
    listed: SeedList,
    stop: Stop,
    *,
    fingerprint_key: bytes,
    gather: bool,
    origins: set[str] | None = None,
    rendering: Rendering | None = None,
    on_added: Callable[[], Awaitable[None]] | None = None,
) -> set[str]:
    """Add seeds as they are read; return their origins if `gather` is set, added to `origins`.

    Raises `Interrupted` when `stop` asks to drain, even while the program that writes the list is idle.
    """
    origins = set() if origins is None else origins
    async with aclosing(listed.pieces()) as pieces:
        while (piece := await _next(pieces, stop)) and not stop.drain.is_set():
            try:
                requests = [with_rendering(Request(url=url), rendering) for url in piece]
                links = [Link.to(request, fingerprint_key) for request in requests]
                added = await frontier.add(crawl, links)
            except Unavailable as error:
                raise Unavailable(f"{error}; {_so_far(listed)}") from error
            listed.new += added.new
            listed.known += len(piece) - added.new
            if gather:
                origins.update(map(origin_of, piece))
            if on_added is not None:
                await on_added()
    if stop.drain.is_set():
        raise Interrupted(f"interrupted: {_so_far(listed)}")
    return origins


def _so_far(listed: SeedList) -> str:
    return f"the start URLs that were added ({listed.new:,}) are kept; run the same command to resume"


async def _next(pieces: AsyncGenerator[Sequence[str], None], stop: Stop) -> Sequence[str] | None:
    """Wait for a piece until `stop` asks to drain; None: that, or the end of the list."""

    async def read() -> Sequence[str] | None:
        return await anext(pieces, None)

    async with asyncio.TaskGroup() as group:
        piece = group.create_task(read(), name="seeds.read")
        asked = group.create_task(stop.drain.wait(), name="seeds.stop")
        await asyncio.wait((piece, asked), return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        piece.cancel()  # no effect if it is done
    return None if piece.cancelled() else piece.result()
