"""What a crawl should do, before anything is opened."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from shoal.engine.runs.facts import CommandFacts, RunFlags, command_facts
from shoal.model.printable import check_name
from shoal.model.request import Request
from shoal.model.settings import Settings
from shoal.spider.source import SpiderDescription, SpiderSource


class SeedList(Protocol):
    """Start URLs that are read in pieces, because there may be more than fit into memory."""

    first: str  # the first start URL
    new: int  # that the crawl did not know
    known: int
    bad: int  # lines that are not start URLs

    def pieces(self) -> AsyncGenerator[Sequence[str], None]:
        """Yield canonical URLs; the next piece is asked for when the previous one is in the frontier.

        Called again, it continues with the piece that was yielded last.
        """


@dataclass(frozen=True, slots=True)
class CrawlPlan:
    source: SpiderSource
    settings: Settings
    name: str = ""  # empty: the spider's
    seeds: tuple[str, ...] = ()  # empty, and nothing listed: the spider's
    listed: SeedList | None = None  # more seeds
    sitemaps: tuple[str, ...] = ()  # sitemaps and feeds to start from as well
    outputs: tuple[str, ...] = ()  # empty: items.jsonl in the store
    keep_items: bool = False  # write items.jsonl in the store besides `outputs`
    fresh: bool = False  # delete what this crawl has done before
    again: bool = False  # resume if the last run was interrupted, else fetch everything again
    confirmed: bool = False  # many pages, and files of others, may be thrown away
    dry_run: bool = False  # only decide what would be done
    alone: bool = False  # not as a guest of a process that owns the store
    opens_complete: bool = False  # a crawl that is complete is opened all the same, for its items
    overrides: frozenset[str] = frozenset()  # settings of [crawl] that the user set: they beat the spider's
    typed: frozenset[str] | None = None  # of those, the ones that a flag has set; None: all

    def facts(
        self,
        spider: SpiderDescription,
        settings: Settings,
        seeds: Sequence[Request],
        outputs: Iterable[str],
    ) -> CommandFacts:
        """Return what later commands are compared with; `settings` are those with the spider's options."""
        return command_facts(
            self.source,
            spider,
            settings,
            seeds,
            outputs=outputs,
            listed=self.listed is not None,
            overrides=self.overrides,
        )

    def flags(self, store: str) -> RunFlags:
        """Return how the command was typed; `store` is the public address of its store."""
        return RunFlags(
            fresh=self.fresh,
            again=self.again,
            again_after=self.settings.recrawl.after,
            named=bool(self.name),
            dry_run=self.dry_run,
            confirmed=self.confirmed,
            opens_complete=self.opens_complete,
            store="" if self.settings.store == Settings().store else store,
        )


def planned_outputs(plan: CrawlPlan, own: str) -> tuple[str, ...]:
    """Return the outputs of a planned crawl; `own` is items.jsonl in its store."""
    return (*plan.outputs, own) if plan.keep_items or not plan.outputs else plan.outputs


def crawl_name(plan: CrawlPlan, spider: SpiderDescription) -> str:
    """Return the name of a planned crawl; raise `Misconfigured` for one that cannot be printed."""
    return check_name(plan.name or spider.crawl, "the name of the crawl")


class StopEvent(asyncio.Event):
    """An event that sets others when it is set."""

    def __init__(self) -> None:
        super().__init__()
        self._others: list[asyncio.Event] = []

    def also(self, other: asyncio.Event) -> None:
        """Set another event as soon as this one is set."""
        self._others.append(other)
        if self.is_set():
            other.set()

    def set(self) -> None:
        super().set()
        for other in self._others:
            other.set()


@dataclass(frozen=True, slots=True)
class Stop:
    """How a crawl is asked to end: first `drain`, then `now`."""

    drain: StopEvent = field(default_factory=StopEvent)
    now: StopEvent = field(default_factory=StopEvent)

    def nested(self) -> "Stop":
        """Return one for a part of the crawl: it can end earlier, and ends with the whole."""
        inner = Stop()
        self.drain.also(inner.drain)
        self.now.also(inner.now)
        return inner

    def ask(self) -> None:
        """Ask for a drain; the second call asks to stop at once."""
        if self.drain.is_set():
            self.now.set()
        self.drain.set()
