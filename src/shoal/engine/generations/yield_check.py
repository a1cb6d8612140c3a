"""What a generation yielded, compared with those before when it ends: gather, decide, record.

In a folder the process that runs the crawl does it; in a fleet every worker whose outputs are complete does,
and all find the same.
"""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

import msgspec

from shoal.engine.runs.facts import KEY as COMMAND
from shoal.engine.runs.facts import CommandFacts
from shoal.frontier.results import Counts, DeadLetter
from shoal.model.crawl_totals import BEGAN, EXAMPLES, KEY, PART, CrawlTotals, total
from shoal.model.failure import FailureClass
from shoal.model.format import plural
from shoal.model.yields.counts import (
    DROPPED,
    HISTORY,
    LOGIN,
    NO_DATA,
    SEPARATOR,
    GenerationYield,
    YieldDrop,
    dump,
    is_count,
    load_history,
    read_handlers,
    with_generation,
)
from shoal.model.yields.rule import find_drops
from shoal.spider.arguments import ARGUMENTS

MAX_LETTERS = 100  # dead letters that are read in search of a log-in


class YieldReader(Protocol):
    """The part of a frontier's reader that the figures of a generation come from."""

    async def value(self, crawl: str, key: str) -> bytes | None: ...
    async def counts(self, crawl: str) -> Counts: ...
    def dead_letters(
        self, crawl: str, *, classes: Collection[FailureClass] = (), host: str = "", limit: int | None = None
    ) -> AsyncIterator[DeadLetter]: ...


@dataclass(frozen=True, slots=True)
class YieldVerdict:
    """What becomes of the outputs of a generation."""

    state: Mapping[str, bytes]  # to be stored with the crawl
    drops: tuple[YieldDrop, ...] = ()  # figures out of the range of the generations before
    no_data: str = ""  # why there is not one item, in one sentence; empty: there is, or none was expected

    @property
    def reason(self) -> str:
        """Why they may not be replaced."""
        return "; ".join(drop.text for drop in self.drops) or self.no_data

    @property
    def may_replace(self) -> bool:
        """Whether its outputs may replace those of the last generation."""
        return not self.drops and not self.no_data


class ValueReader(Protocol):
    """The part of a folder's frontier that the totals of a crawl come from."""

    async def value(self, crawl: str, key: str) -> bytes | None: ...


async def read_own_totals(reader: ValueReader, crawl: str) -> CrawlTotals:
    """Return the totals of a crawl in a folder, with the examples."""
    return CrawlTotals.load(await reader.value(crawl, KEY), await reader.value(crawl, EXAMPLES))


class TotalsReader(Protocol):
    """The part of a fleet's frontier that the totals of a crawl come from."""

    async def values(self, crawl: str) -> dict[str, bytes]: ...
    async def totals(self, crawl: str) -> dict[str, int]: ...
    async def items(self, crawl: str) -> int: ...


async def read_totals(reader: TotalsReader, crawl: str) -> CrawlTotals:
    """Return the counts of a crawl of a fleet, and the examples of its workers."""
    totals = CrawlTotals()
    for key, value in (await reader.values(crawl)).items():
        if key.startswith(PART):
            with suppress(msgspec.DecodeError):
                totals = total([totals, CrawlTotals.load(value)])
    stored = await reader.totals(crawl)
    totals.add_counts({name: number for name, number in stored.items() if is_count(name)})
    totals.rejected += stored.get("rejected", 0)
    totals.items = await reader.items(crawl)
    return totals


async def check_yield(reader: YieldReader, totals: CrawlTotals, crawl: str) -> YieldVerdict:
    """Compare the current generation of a crawl, which has ended, with those before."""
    if not (await reader.counts(crawl)).done:  # a site that was down has shown nothing
        return YieldVerdict({DROPPED: b"", NO_DATA: b""})
    history = load_history(await reader.value(crawl, HISTORY))
    now, facts = await read_generation(reader, totals, crawl)
    if not _is_counted(now, totals):
        return YieldVerdict({DROPPED: b"", NO_DATA: b""})
    was_accepted = any(one.began == now.began for one in history)
    no_data = "" if was_accepted or _has_data(now, facts) else await _no_data(reader, totals, crawl, facts)
    drops = find_drops(history, now, totals.examples)
    state = {DROPPED: dump(drops) if drops else b"", NO_DATA: no_data.encode("utf-8", "replace")}
    if not drops and not no_data and now.handlers:
        state[HISTORY] = dump(with_generation(history, now))
    return YieldVerdict(state, drops, no_data)


async def accepted_state(reader: YieldReader, totals: CrawlTotals, crawl: str) -> Mapping[str, bytes]:
    """Return what has to be stored so that the current generation is accepted and part of the range."""
    history = load_history(await reader.value(crawl, HISTORY))
    now, _ = await read_generation(reader, totals, crawl)
    if _is_counted(now, totals):
        history = with_generation(history, now)
    return {HISTORY: dump(history), DROPPED: b"", NO_DATA: b""}


async def read_generation(
    reader: YieldReader, totals: CrawlTotals, crawl: str
) -> tuple[GenerationYield, CommandFacts]:
    """Return what the current generation of a crawl yielded, and the command that made it."""
    facts = CommandFacts.load(await reader.value(crawl, COMMAND)) or CommandFacts()
    counts = await reader.counts(crawl)
    arguments = await reader.value(crawl, ARGUMENTS) or b""
    generation = GenerationYield(
        began=float(await reader.value(crawl, BEGAN) or 0.0),
        version=facts.version,
        reach=reach_of(facts, arguments),
        whole=not counts.open,
        done=counts.done,
        failed=counts.dead,
        handlers=read_handlers(totals.counts),
    )
    return generation, facts


def reach_of(facts: CommandFacts, arguments: bytes) -> str:
    """Return what stands for the start URLs and limits of a command: others bring another number of items."""
    alike = msgspec.structs.replace(
        facts, version="", outputs=(), follow_typed=False, allow_private=False, declared=False
    )
    return blake2b(alike.dump() + arguments, digest_size=8).hexdigest()


def _is_counted(now: GenerationYield, totals: CrawlTotals) -> bool:
    """Return whether every item of a generation was counted.

    Not if a version or a worker that does not count has made some, or a page is known from such a version:
    what they yielded would be missed, or would be missing from the range.
    """
    return now.items == totals.items


def _has_data(now: GenerationYield, facts: CommandFacts) -> bool:
    """Return whether there is an item; with --item, which adds the URL by itself, one with a chosen field."""
    if not facts.fields:
        return bool(now.items)
    of_each = now.handlers.values()
    return any(own.saturated or own.filled.get(name) for own in of_each for name, _ in facts.fields)


async def _no_data(reader: YieldReader, totals: CrawlTotals, crawl: str, facts: CommandFacts) -> str:
    """Return why a generation with pages has no item, if that is a failure."""
    counts = await reader.counts(crawl)
    for name, urls in totals.examples.items():
        if name.startswith(f"{LOGIN}{SEPARATOR}") and urls:
            return f"no item: the log-in has failed: {urls[0]} shows a log-in form again"
    if counts.dead:
        async for letter in reader.dead_letters(crawl, limit=MAX_LETTERS):
            if letter.request.method == "POST":
                kind, reason = letter.kind.value, letter.reason
                return f"no item: the request POST {letter.request.url} has failed: {kind}: {reason}"
    if not (facts.declared or facts.fields):
        return ""
    pages = plural(counts.done, "page")
    if totals.rejected:
        return f"no item on {pages}: {plural(totals.rejected, 'item')} did not fit the declared type"
    fields = ", ".join(name for name, _ in facts.fields)
    what = f"the selectors of --item ({fields}) match nothing" if fields else "the spider declares items"
    return f"no item on {pages}, although {what}: shoal try shows what a page yields"
