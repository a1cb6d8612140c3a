"""What a crawl is told to do, before anything is opened."""

import asyncio
from dataclasses import dataclass, field

from shoal.model.settings import Settings
from shoal.spider.source import SpiderSource


@dataclass(frozen=True, slots=True)
class CrawlPlan:
    source: SpiderSource
    settings: Settings
    name: str = ""  # empty: the spider's
    seeds: tuple[str, ...] = ()  # empty: the spider's
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
