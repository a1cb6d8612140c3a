"""Looking into a store from outside a crawl: what is there, what was given up, and putting it back.

Reading needs no ownership and works while a crawl runs. Putting dead letters back does need it, so it is
refused, naming the owner, while somebody else has the store.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from shoal.frontier.answers import DeadLetter
from shoal.frontier.sqlite import Reader, SqliteFrontier
from shoal.model.failure import FailureClass
from shoal.stores.folder import StoreFolder

__all__ = ["CrawlStatus", "DeadLetter", "StoreStatus", "dead_letters", "replay", "status"]


@dataclass(frozen=True, slots=True)
class CrawlStatus:
    name: str
    accepted: int
    counts: Mapping[str, int]  # requests by state
    dead_by_class: Mapping[str, int]
    filtered_by_rule: Mapping[str, int]


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
            crawls.append(
                CrawlStatus(
                    name, counts.accepted, counts.by_state(), counts.dead_by_class, counts.filtered_by_rule
                )
            )
        return StoreStatus(store, StoreFolder(Path(store)).owner(), crawls)


async def dead_letters(
    store: str, crawl: str | None, *, kind: FailureClass | None = None, host: str = "", limit: int
) -> list[DeadLetter]:
    """Give the latest dead letters of one crawl, or of all."""
    kinds = () if kind is None else (kind,)
    found: list[DeadLetter] = []
    async with peeking(store) as reader:
        for name in await chosen(reader, crawl):
            found += [
                letter async for letter in reader.dead_letters(name, kinds=kinds, host=host, limit=limit)
            ]
    return sorted(found, key=lambda letter: -letter.died_at)[:limit]


async def replay(
    store: str,
    crawl: str | None,
    *,
    kind: FailureClass | None = None,
    host: str = "",
    limit: int | None = None,
) -> int:
    """Put dead letters back into the queue; returns how many. Whoever crawls next takes them up."""
    folder = StoreFolder(Path(store))
    async with peeking(store) as reader:  # before owning it, which would make one where there is none
        names = await chosen(reader, crawl)
    revived = 0
    with folder.owned():
        async with SqliteFrontier.open(folder.database) as frontier:
            for name in names:
                await frontier.open_crawl(name)
                left = None if limit is None else limit - revived
                revived += await frontier.replay(
                    name, kinds=() if kind is None else (kind,), host=host, limit=left
                )
    return revived


async def chosen(reader: Reader, crawl: str | None) -> list[str]:
    """Name the crawls that are meant; raises `Misconfigured` for one that is not there."""
    if crawl is None:
        return await reader.crawls()
    reader.crawl_id(crawl)
    return [crawl]
