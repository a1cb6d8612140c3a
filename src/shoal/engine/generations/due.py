"""Which pages a new generation asks for, decided once, before the last one ends."""

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from shoal.frontier.generations import Generation
from shoal.model.crawl_totals import RELEASED
from shoal.model.generations.page_history import PageFate, PageHistory, read_history
from shoal.model.generations.recheck import KEY, RecheckRules, budget_since, draw_line
from shoal.model.settings import RecrawlSettings


class GenerationReader(Protocol):
    """The part of a frontier's reader that the line of a generation comes from."""

    async def value(self, crawl: str, key: str) -> bytes | None: ...
    async def generations(self, crawl: str) -> list[Generation]: ...
    def histories(self, crawl: str, generation: int) -> AsyncIterator[tuple[int, bytes]]: ...


def recheck_rules(settings: RecrawlSettings) -> RecheckRules:
    longest = max(settings.longest_interval, settings.shortest_interval)
    return RecheckRules(settings.first_interval, settings.shortest_interval, longest)


async def due_state(
    reader: GenerationReader, crawl: str, settings: RecrawlSettings, now: float
) -> dict[str, bytes]:
    """Return what a crawl's next generation takes over: the pages that are due, and the released patterns.

    To be called before the last generation ends, whose pages are meant. Without `KEY`: all of them are due.
    """
    released = await reader.value(crawl, RELEASED)
    kept = {} if released is None else {RELEASED: released}
    if not settings.adaptive or not settings.keep:
        return kept
    current = (await reader.generations(crawl))[-1]
    rules, budget = recheck_rules(settings), budget_since(settings.budget, current.began, now)
    pages: list[tuple[int, PageHistory]] = []
    if budget is not None:
        async for fp, packed in reader.histories(crawl, current.number):
            history = read_history(packed)
            if history is not None and history.fate is PageFate.DONE:
                pages.append((fp, history))
    return {**kept, KEY: msgspec.msgpack.encode(draw_line(pages, now, rules, budget=budget))}
