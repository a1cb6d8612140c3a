"""What a crawl should do, before anything is opened."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from shoal.model.printable import check_name
from shoal.model.settings import Settings
from shoal.spider.source import SpiderDescription, SpiderSource


class SeedList(Protocol):
    """Start URLs that are read in pieces, because there may be more than fit into memory."""

    first: str  # the first start URL
    new: int  # that the crawl did not know
    known: int
    bad: int  # lines that are not start URLs

    def pieces(self) -> AsyncGenerator[Sequence[str], None]:
        """Yield canonical URLs; the next piece is asked for when the previous one is in the frontier."""


@dataclass(frozen=True, slots=True)
class CrawlPlan:
    source: SpiderSource
    settings: Settings
    name: str = ""  # empty: the spider's
    seeds: tuple[str, ...] = ()  # empty, and nothing listed: the spider's
    listed: SeedList | None = None  # more seeds
    sitemaps: tuple[str, ...] = ()  # sitemaps and feeds to start from as well
    outputs: tuple[str, ...] = ()  # empty: items.jsonl in the store
    fresh: bool = False  # delete what this crawl has done before
    overrides: frozenset[str] = frozenset()  # settings of [crawl] that the user set: they beat the spider's


def crawl_name(plan: CrawlPlan, spider: SpiderDescription) -> str:
    """Return the name of a planned crawl; raise `Misconfigured` for one that cannot be printed."""
    return check_name(plan.name or spider.name, "the name of the crawl")


@dataclass(frozen=True, slots=True)
class Stop:
    """How a crawl is asked to end: first `drain`, then `now`."""

    drain: asyncio.Event = field(default_factory=asyncio.Event)
    now: asyncio.Event = field(default_factory=asyncio.Event)

    def ask(self) -> None:
        """Ask for a drain; the second call asks to stop at once."""
        if self.drain.is_set():
            self.now.set()
        self.drain.set()
