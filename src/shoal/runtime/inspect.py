"""Looking into a store from outside a crawl. It needs no ownership and works while a crawl runs."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from shoal.frontier.sqlite import Reader, SqliteFrontier
from shoal.model.failure import FailureClass
from shoal.runtime import sums
from shoal.stores.folder import StoreFolder


@dataclass(frozen=True, slots=True)
class CrawlStatus:
    name: str
    accepted: int
    counts: Mapping[str, int]  # requests by state
    dead_by_class: Mapping[str, int]
    filtered_by_rule: Mapping[str, int]
    links_filtered_by_rule: Mapping[str, int] = field(default_factory=dict)  # never made a request
    rejected: int = 0  # items that did not fit their model
    withheld: int = 0  # items of pages that call another address their own
    hook_faults: int = 0  # `on_error` hooks that raised or hung
    quarantined: Mapping[str, sums.Closed] = field(default_factory=dict)  # by pattern: too many URLs
    lookalikes: Mapping[str, sums.Closed] = field(default_factory=dict)  # by pattern: too many pages alike
    paused: bool = False


@dataclass(frozen=True, slots=True)
class StoreStatus:
    store: str
    owner: str | None  # who has the store right now, for people; None: nobody
    crawls: Sequence[CrawlStatus]


@asynccontextmanager
async def peeking(store: str) -> AsyncIterator[Reader]:
    """Read a store without owning it; raises `Misconfigured` if there is none."""
    async with SqliteFrontier.peek(StoreFolder(Path(store)).database) as reader:
        yield reader


async def status(store: str) -> StoreStatus:
    """Count the requests of every crawl of a store by state, as of its last transaction."""
    async with peeking(store) as reader:
        crawls = []
        for name in await reader.crawls():
            counts = await reader.counts(name)
            totals = sums.Sums.load(await reader.crawl_get(name, sums.KEY))
            crawls.append(
                CrawlStatus(
                    name=name,
                    accepted=counts.accepted,
                    counts=counts.by_state(),
                    dead_by_class=counts.dead_by_class,
                    filtered_by_rule=counts.filtered_by_rule,
                    links_filtered_by_rule=_with_budget(totals.links, counts.over_budget),
                    rejected=totals.rejected,
                    withheld=totals.withheld,
                    hook_faults=totals.hook_faults,
                    quarantined=totals.quarantined,
                    lookalikes=totals.lookalikes,
                    paused=await reader.paused(name),
                )
            )
        return StoreStatus(store, StoreFolder(Path(store)).owner(), crawls)


def _with_budget(links: Mapping[str, int], over_budget: int) -> Mapping[str, int]:
    return {**links, FailureClass.BUDGET.value: over_budget} if over_budget else links


async def chosen(reader: Reader, crawl: str | None) -> list[str]:
    """Name the crawls that are meant; raises `Misconfigured` for one that is not there."""
    if crawl is None:
        return await reader.crawls()
    reader.crawl_id(crawl)
    return [crawl]
