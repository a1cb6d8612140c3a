"""Start URLs into the frontier, piece by piece: a list of them may be longer than memory is large.

Adding is idempotent, and a list that was cut short needs no mark of where: the next run reads it from its
beginning, and what the crawl knows is not added again.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Protocol

from shoal.engine.plan import SeedList, Stop
from shoal.frontier import Added
from shoal.model.contact import contact_missing
from shoal.model.errors import Interrupted, Unavailable
from shoal.model.request import Link, Request
from shoal.model.settings import CrawlSettings
from shoal.model.url import origin_of
from shoal.spider.source import SpiderDescription

log = logging.getLogger(__name__)

AT_ONCE = 10_000


class SeedFrontier(Protocol):
    """The part of a frontier that seeding needs."""

    async def add(self, crawl: str, links: Sequence[Link]) -> Added: ...


async def add_given(frontier: SeedFrontier, crawl: str, seeds: Sequence[Request]) -> int:
    """Add seeds that are at hand; returns how many were new."""
    new = 0
    for begin in range(0, len(seeds), AT_ONCE):
        piece = seeds[begin : begin + AT_ONCE]
        new += (await frontier.add(crawl, [Link.to(seed) for seed in piece])).new
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


def origins_matter(settings: CrawlSettings, spider: SpiderDescription) -> bool:
    """Say whether a crawl depends on where its seeds are: its scope, or who gets the cookies it was given."""
    return bool(settings.cookies) or (settings.same_host and not spider.hosts)


async def add_listed(
    frontier: SeedFrontier,
    crawl: str,
    listed: SeedList,
    stop: Stop,
    *,
    gather: bool,
    on_added: Callable[[], Awaitable[None]] | None = None,
) -> set[str]:
    """Add seeds as they are read; returns their origins if they are to be gathered: a name for each host.

    Raises `Interrupted` when `stop` asks to drain, even while whoever writes the list is silent.
    """
    origins: set[str] = set()
    async with aclosing(listed.pieces()) as pieces:
        while (piece := await _next(pieces, stop)) and not stop.drain.is_set():
            try:
                added = await frontier.add(crawl, [Link.to(Request(url=url)) for url in piece])
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
    return f"the start URLs that were added ({listed.new:,}) stay, and the same command goes on"


async def _next(pieces: AsyncGenerator[Sequence[str], None], stop: Stop) -> Sequence[str] | None:
    """Wait for a piece, and no longer when `stop` asks to drain: then there is none, as at the end."""

    async def read() -> Sequence[str] | None:
        return await anext(pieces, None)

    async with asyncio.TaskGroup() as group:
        piece = group.create_task(read(), name="seeds.read")
        asked = group.create_task(stop.drain.wait(), name="seeds.stop")
        await asyncio.wait((piece, asked), return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        piece.cancel()  # of no effect where it is done
    return None if piece.cancelled() else piece.result()
