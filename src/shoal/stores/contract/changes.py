"""What may be changed in a store from outside its running crawls."""

from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

from shoal.frontier.contract import FrontierCrawls, FrontierDeadLetters, FrontierHosts, FrontierReader
from shoal.frontier.results import Added, HostView
from shoal.model.crawl_totals import RELEASED, load_released
from shoal.model.failure import FailureClass
from shoal.model.request import Link, unpack
from shoal.model.spider_versions import KEY, Reparse, SpiderVersions
from shoal.model.traps.url_pattern import shape_of_url

BATCH = 20_000  # requests that are released at once: a folder reads all that was filtered, each time


class StoreChanges(Protocol):
    async def pause(self, crawl: str) -> None:
        """Send no more requests of a crawl. Returns when that holds: what leaves later was on its way."""

    async def resume(self, crawl: str) -> None: ...

    async def set_host(
        self,
        host: str,
        *,
        interval: float | None = None,
        concurrency: int | None = None,
        rest_until: float | None = None,
        paused: bool | None = None,
    ) -> HostView:
        """Change what is given and keep the rest. The host need not be known yet.

        A pause or a rest holds when this returns.
        """

    async def clear_host(self, host: str) -> HostView:
        """Remove the pace that was set for a host."""

    async def refresh_robots(self, host: str) -> None:
        """Delete the stored robots.txt of a host, so that it is fetched again."""

    async def add_seeds(self, crawl: str, links: Sequence[Link]) -> int:
        """Add start URLs to a crawl; return how many it did not know."""

    async def release(self, crawl: str, patterns: Collection[str]) -> int:
        """Queue the requests of a crawl that are held back, and hold back no more of these patterns.

        Without `patterns`, all of them. Returns how many.
        """

    async def note_reparse(self, crawl: str, reparse: Reparse) -> None:
        """Record that the pages of a crawl were parsed again."""

    @property
    def dead_letters(self) -> FrontierDeadLetters:
        """Return what replays and purges dead letters; raise `StoreBusy` if another process owns it."""


class ChangeableFrontier(Protocol):
    """The part of a frontier that `DirectChanges` needs."""

    @property
    def crawls(self) -> FrontierCrawls: ...
    @property
    def hosts(self) -> FrontierHosts: ...
    @property
    def dead_letters(self) -> FrontierDeadLetters: ...
    @property
    def reader(self) -> FrontierReader: ...

    async def add(self, crawl: str, links: Sequence[Link]) -> Added: ...
    async def readmit(self, crawl: str, links: Sequence[Link], rule: FailureClass = ...) -> int: ...


class DirectChanges:
    """Changes made by this process, on a frontier that it may write."""

    def __init__(self, frontier: ChangeableFrontier) -> None:
        self._frontier = frontier
        self.resume = frontier.crawls.resume
        self.clear_host = frontier.hosts.clear
        self.dead_letters = frontier.dead_letters

    async def add_seeds(self, crawl: str, links: Sequence[Link]) -> int:
        return (await self._frontier.add(crawl, links)).new

    async def pause(self, crawl: str) -> None:
        await self._frontier.crawls.pause(crawl)

    async def set_host(
        self,
        host: str,
        *,
        interval: float | None = None,
        concurrency: int | None = None,
        rest_until: float | None = None,
        paused: bool | None = None,
    ) -> HostView:
        return await self._frontier.hosts.set(
            host, interval=interval, concurrency=concurrency, rest_until=rest_until, paused=paused
        )

    async def refresh_robots(self, host: str) -> None:
        for scheme in ("http", "https"):
            await self._frontier.hosts.set_robots(f"{scheme}://{host}", expires=0.0, status=0, body=b"")

    async def release(self, crawl: str, patterns: Collection[str]) -> int:
        frontier, chosen = self._frontier, set(patterns)
        links: list[Link] = []
        shapes: set[str] = set(patterns)
        async for link in frontier.reader.held(crawl):
            shape = shape_of_url(unpack(link.packed).url)
            if not chosen or shape in chosen:
                links.append(link)
                shapes.add(shape)
        # First: a request that waits again before its pattern is released would be held back again.
        known = load_released(await frontier.reader.value(crawl, RELEASED))
        await frontier.crawls.set_value(crawl, RELEASED, msgspec.json.encode(sorted(known | shapes)))
        released = 0
        for first in range(0, len(links), BATCH):
            released += await frontier.readmit(crawl, links[first : first + BATCH], FailureClass.HELD)
        return released

    async def note_reparse(self, crawl: str, reparse: Reparse) -> None:
        versions = SpiderVersions.load(await self._frontier.reader.value(crawl, KEY))
        versions.add_reparse(reparse)
        await self._frontier.crawls.set_value(crawl, KEY, versions.dump())
