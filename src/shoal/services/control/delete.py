"""Forgetting a crawl: its store keeps nothing of it any more. What it has gathered stays where it is.

A folder has one owner: while somebody else is it, `StoreBusy` is raised. A fleet's store has none. There its
workers say what they are doing, and a crawl that they are at work on is not taken from under them; one that
is paused, and of which nobody has anything in hand, they let go of by themselves as soon as its record is
gone. Whoever does not (a process that is stopped) is refused by the store when it comes back.

Both halves of a fleet's crawl can be forgotten again: a command that was killed between them is repeated.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from shoal.archive.names import file_name
from shoal.archive.registry import crawl_location, folder_location
from shoal.engine.outputs import archive_key, rejects_file, rejects_key, sinks_key
from shoal.frontier.results import Counts
from shoal.frontier.sqlite import SqliteFrontier
from shoal.model.errors import Misconfigured, Unavailable
from shoal.sinks.names import public_name
from shoal.sinks.recount import outputs
from shoal.stores.access import chosen, peeking
from shoal.stores.address import is_redis
from shoal.stores.folder.store import StoreBusy, StoreFolder
from shoal.stores.reach import reached

if TYPE_CHECKING:
    from shoal.redis_client import RedisClient
    from shoal.stores.redis.crawls import CrawlRecord
    from shoal.stores.redis.workers import Heartbeat

LET_GO = 30.0  # seconds for workers to let go of a crawl that is paused


@dataclass(frozen=True, slots=True)
class CrawlFootprint:
    """What goes with a crawl, and what stays."""

    crawl: str
    accepted: int  # URLs that it knows
    open: int  # of them, those that have not come to their end
    dead: int  # and those that were given up
    outputs: tuple[str, ...]  # that stay, without secrets
    archive: str  # likewise: where its pages are; empty: nobody knows
    scattered: bool = False  # the archive is a folder of each worker
    unwritten: int = 0  # pages whose items are not in every output yet


class DeletableCrawl(Protocol):
    """A crawl that nobody works on."""

    @property
    def belongings(self) -> CrawlFootprint: ...
    async def forget(self) -> None: ...


@asynccontextmanager
async def forgetting(store: str, crawl: str) -> AsyncIterator[DeletableCrawl]:
    """Look at a crawl that may be forgotten. Raises if it is not there, or if somebody works on it."""
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(reached(store))
        if is_redis(address):
            from shoal.redis_client import RedisClient

            shared = await stack.enter_async_context(RedisClient.open(address, advise=False))
            yield await FleetCrawl.find(shared, crawl)
        else:
            yield await FolderCrawl.find(StoreFolder(Path(address)), crawl)


class FolderCrawl:
    def __init__(self, folder: StoreFolder, belongings: CrawlFootprint) -> None:
        self.belongings = belongings
        self._folder = folder

    @classmethod
    async def find(cls, folder: StoreFolder, crawl: str) -> "FolderCrawl":
        async with peeking(str(folder.path)) as reader:
            await chosen(reader, crawl)
            written = outputs(await reader.checkpoint(sinks_key(crawl)))
            counts = await reader.counts(crawl)
        if (owner := folder.owner()) is not None:
            raise StoreBusy(f"{folder.path} is in use by {owner}")
        rejects = [str(path)] if (path := rejects_file(folder, crawl)).exists() else []
        archive = folder_location(folder.archive / file_name(crawl))
        return cls(folder, _belongings(crawl, counts, [*written, *rejects], archive))

    async def forget(self) -> None:
        """Forget it, in one transaction."""
        crawl = self.belongings.crawl
        checkpoints = [key(crawl) for key in (sinks_key, rejects_key, archive_key)]
        with self._folder.owned():
            async with SqliteFrontier.open(self._folder.database) as frontier:
                await frontier.crawls.delete(crawl, checkpoints=checkpoints, entirely=True)


class FleetCrawl:
    def __init__(self, store: "RedisClient", belongings: CrawlFootprint) -> None:
        from shoal.frontier.redis import RedisFrontier
        from shoal.stores.redis.crawls import Crawls
        from shoal.stores.redis.workers import Workers

        self.belongings = belongings
        self._store = store
        self._crawls = Crawls(store)
        self._workers = Workers(store)
        self._frontier = RedisFrontier(store)

    @classmethod
    async def find(cls, store: "RedisClient", crawl: str) -> "FleetCrawl":
        from shoal.frontier.redis import RedisFrontier
        from shoal.sinks.fleet.progress import ever_written
        from shoal.stores.redis.backlog import on_their_way
        from shoal.stores.redis.crawls import Crawls

        frontier, record = RedisFrontier(store), await Crawls(store).get(crawl)
        written = [] if record is None else list(map(public_name, record.outputs))
        if record is None:
            await chosen(frontier.reader, crawl)
        counts, unwritten = Counts(), 0
        with suppress(Misconfigured):  # nothing is there but its record
            counts, unwritten = await frontier.reader.counts(crawl), await on_their_way(store, crawl)
            written += await ever_written(store, await frontier.reader.number(crawl))
        belongings = _belongings(crawl, counts, dict.fromkeys(written), _archive(crawl, record))
        scattered = record is not None and not _location(record)
        found = cls(store, replace(belongings, unwritten=unwritten, scattered=scattered))
        await found.refuse_if_worked_on()
        return found

    async def refuse_if_worked_on(self) -> None:
        name = self.belongings.crawl
        paused = name in await self._frontier.reader.crawls() and await self._frontier.reader.paused(name)
        if busy := at_work(name, await self._workers.all(), paused=paused):
            who = f"{len(busy)} {'worker' if len(busy) == 1 else 'workers'} ({', '.join(busy)})"
            how = "wait for what they have in hand" if paused else f"run shoal pause {name} first"
            raise Unavailable(f"crawl {name!r} is being worked on by {who}: {how}, or stop them")

    async def forget(self) -> None:
        """Forget it: workers hear of it first, so that they leave it in good order."""
        await self.refuse_if_worked_on()
        name = self.belongings.crawl
        await self._crawls.forget(name)
        await self._crawls.tell_news()
        with suppress(TimeoutError):
            async with asyncio.timeout(LET_GO):
                while attends(name, await self._workers.all()):  # noqa: ASYNC110 (others make it so)
                    await asyncio.sleep(0.2)
        await self._frontier.crawls.delete(name, entirely=True)
        await self._crawls.tell_news()  # so that nobody keeps its pages in hand
        await self._store.sync()


def at_work(crawl: str, workers: "Iterable[Heartbeat]", *, paused: bool) -> list[str]:
    """Name the workers that are doing something for a crawl; a paused one is only waited with."""
    return [
        worker.worker
        for worker in workers
        if any(at.crawl == crawl and (not paused or at.in_flight or at.parsing) for at in worker.crawls)
        or any(at.crawl == crawl and at.doing == "writing" for at in worker.outputs)
    ]


def attends(crawl: str, workers: "Iterable[Heartbeat]") -> bool:
    """Tell whether any worker has to do with a crawl, be it that it waits."""
    return any(
        crawl in (*(at.crawl for at in worker.crawls), *(at.crawl for at in worker.outputs))
        for worker in workers
    )


def _belongings(crawl: str, counts: Counts, written: Iterable[str], archive: str) -> CrawlFootprint:
    names = tuple(map(public_name, written))
    return CrawlFootprint(crawl, counts.accepted, counts.open, counts.dead, names, archive)


def _archive(crawl: str, record: "CrawlRecord | None") -> str:
    if record is None:
        return ""
    from shoal.stores.redis.submitted import FOLDER

    location = _location(record)
    return crawl_location(location, crawl) if location else f"{FOLDER}/archive/{file_name(crawl)}"


def _location(record: "CrawlRecord") -> str:
    """Say where all workers put a crawl's pages; empty: each into a folder of its own."""
    return str(record.settings.get("archive", {}).get("location", ""))
