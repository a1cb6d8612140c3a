"""The ways into a store from outside a crawl, the same for a folder and for a fleet's store.

`open_reader` looks: it needs no ownership and works while a crawl runs. `open_writer` changes: a folder has
one owner at a time, so there it raises `StoreBusy` while somebody else is it; a fleet's store has none.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Protocol

from shoal.frontier.contract import FrontierCrawls, FrontierDeadLetters, FrontierHosts
from shoal.frontier.results import Audit, Counts, CrawlStats, DeadLetter, HostQueue, HostView, RequestHistory
from shoal.frontier.sqlite import SqliteFrontier
from shoal.frontier.sqlite import SqliteReader as FolderReader
from shoal.model.errors import Misconfigured
from shoal.model.failure import FailureClass
from shoal.stores.address import is_redis
from shoal.stores.folder.store import StoreFolder
from shoal.stores.reach import reached


class StoreReader(Protocol):
    """The part of a frontier that looking needs."""

    async def crawls(self) -> list[str]: ...
    async def counts(self, crawl: str) -> Counts: ...
    async def paused(self, crawl: str) -> bool: ...
    async def value(self, crawl: str, key: str) -> bytes | None: ...
    async def audit(self, crawl: str) -> Audit: ...
    async def history(self, crawl: str, fingerprint: int) -> RequestHistory | None: ...
    async def host(self, name: str) -> HostView | None: ...
    async def stats(self, crawl: str) -> CrawlStats: ...
    async def queues(self, max_hosts: int | None = None) -> list[HostQueue] | None: ...
    def dead_letters(
        self, crawl: str, *, classes: Collection[FailureClass] = (), host: str = "", limit: int | None = None
    ) -> AsyncIterator[DeadLetter]: ...


class DeadLetterAction(Protocol):
    """Something that is done to dead letters; it says to how many."""

    async def __call__(
        self,
        crawl: str,
        *,
        classes: Collection[FailureClass] = (),
        host: str = "",
        fingerprints: Collection[int] = (),
        limit: int | None = None,
    ) -> int: ...


class StoreWriter(Protocol):
    """The part of a frontier that changing it from outside needs."""

    @property
    def crawls(self) -> FrontierCrawls: ...
    @property
    def hosts(self) -> FrontierHosts: ...
    @property
    def dead_letters(self) -> FrontierDeadLetters: ...
    @property
    def reader(self) -> StoreReader: ...


@asynccontextmanager
async def open_reader(store: str) -> AsyncIterator[StoreReader]:
    """Read a store without owning it; raises `Misconfigured` if there is none."""
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(reached(store))
        if is_redis(address):
            from shoal.frontier.redis import RedisFrontier
            from shoal.redis_client import RedisClient

            client = await stack.enter_async_context(RedisClient.open(address, advise=False))
            yield RedisFrontier(client).reader
        else:
            yield await stack.enter_async_context(peeking(address))


@asynccontextmanager
async def peeking(folder: str) -> AsyncIterator[FolderReader]:
    """Read a store that is a folder, without owning it: there every page has its record."""
    async with SqliteFrontier.peek(StoreFolder(Path(folder)).database) as reader:
        yield reader


@asynccontextmanager
async def open_writer(store: str, crawls: Sequence[str] = ()) -> AsyncIterator[StoreWriter]:
    """Change a store that is there, with these of its crawls open; workers of a fleet then look again."""
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(reached(store))
        if is_redis(address):
            from shoal.frontier.redis import RedisFrontier
            from shoal.redis_client import RedisClient
            from shoal.stores.redis.crawls import Crawls

            opened = await stack.enter_async_context(RedisClient.open(address, advise=False))
            shared = RedisFrontier(opened)
            for name in crawls:
                await shared.crawls.open(name)
            yield shared
            await Crawls(opened).tell_news()
            return
        folder = stack.enter_context(StoreFolder(Path(address)).owned())
        frontier = await stack.enter_async_context(SqliteFrontier.open(folder.database))
        for name in crawls:
            await frontier.crawls.open(name)
        yield frontier


async def chosen(reader: StoreReader, crawl: str | None) -> list[str]:
    """Name the crawls that are meant; raises `Misconfigured` for one that is not there."""
    names = await reader.crawls()
    if crawl is None:
        return names
    if crawl not in names:
        raise Misconfigured(f"the store has no crawl named {crawl!r}{_nearest(crawl, names)}")
    return [crawl]


def _nearest(name: str, names: Sequence[str]) -> str:
    if close := get_close_matches(name, names, n=1, cutoff=0.5):
        return f"; did you mean {close[0]}?"
    return "; shoal status lists those there are" if names else ", and no other"
