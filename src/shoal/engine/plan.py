"""What a crawl is told to do, before anything is opened."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from shoal.model.settings import Settings
from shoal.spider.source import SpiderSource


class SeedList(Protocol):
    """Start URLs that come in pieces, because there may be more than memory holds."""

    first: str  # the first start URL
    new: int  # that the crawl did not know
    known: int
    bad: int  # lines that are no start URLs

    def pieces(self) -> AsyncGenerator[Sequence[str], None]:
        """Give canonical URLs; asking for a piece means that the one before is in the frontier."""


@dataclass(frozen=True, slots=True)
class CrawlPlan:
    source: SpiderSource
    settings: Settings
    name: str = ""  # empty: the spider's
    seeds: tuple[str, ...] = ()  # empty, and nothing listed: the spider's
    listed: SeedList | None = None  # more of them
    sitemaps: tuple[str, ...] = ()  # sitemaps and feeds to start from as well
    outputs: tuple[str, ...] = ()  # empty: items.jsonl in the store
    fresh: bool = False  # forget what this crawl has done before
    overrides: frozenset[str] = (
        frozenset()
    )  # settings of [crawl] given by the user: they beat the spider's own


@dataclass(frozen=True, slots=True)
class Stop:
    """How a crawl is asked to end: first `drain`, then `now`."""

    drain: asyncio.Event = field(default_factory=asyncio.Event)
    now: asyncio.Event = field(default_factory=asyncio.Event)

    def ask(self) -> None:
        """Ask once for draining, twice for stopping at once."""
        if self.drain.is_set():
            self.now.set()
        self.drain.set()
