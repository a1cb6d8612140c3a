"""The embedded store: a folder with a SQLite frontier and an archive, owned by one process at a time.

Reading needs no ownership and works while a crawl runs.
"""

import shutil
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from shoal.archive.names import file_name
from shoal.archive.registry import folder_location, open_crawl_folder
from shoal.archive.writer import accept_loss
from shoal.fetch.escalation.browser_budget import delete_spent
from shoal.fetch.exits.ledger import delete_spending
from shoal.frontier.results import Audit, HostView
from shoal.frontier.sqlite import SqliteFrontier, SqliteReader
from shoal.model import crawl_totals as sums
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.quarantine import QuarantinedEntry
from shoal.model.yields.counts import DROPPED, NO_DATA, load_drops
from shoal.sinks.names import public_name
from shoal.sinks.recount import outputs, recount
from shoal.spider.arguments import ARGUMENTS, read_arguments
from shoal.stores.contract.changes import DirectChanges, StoreChanges
from shoal.stores.contract.checkpoints import archive_key, rejects_key, sinks_key
from shoal.stores.contract.crawl_record import CrawlRecord
from shoal.stores.contract.fleet import Fleet
from shoal.stores.contract.footprint import CrawlFootprint
from shoal.stores.contract.heartbeat import Heartbeat
from shoal.stores.contract.monitoring import StoreRoom
from shoal.stores.contract.store import (
    Capabilities,
    OutputState,
    Stay,
    StoreBusy,
    WorkingStore,
    require_crawl,
)
from shoal.stores.folder.control_socket import OwnerChanges, ShowHost, send_command
from shoal.stores.folder.directory import StoreFolder
from shoal.stores.folder.exits import FolderExitRecords
from shoal.stores.folder.levels import FolderLevels
from shoal.stores.folder.monitoring import FolderMonitoring
from shoal.stores.folder.pages import FolderPages
from shoal.stores.folder.permissions import secure_file
from shoal.stores.folder.schedules import FolderSchedules
from shoal.stores.folder.working import start_work

CHECKPOINTS = {sinks_key: "outputs", archive_key: "archive"}  # that every crawl has that has run
DURABLE = Capabilities(shared=False, durable=True, page_records=True)
TEMPORARY = Capabilities(shared=False, durable=False, page_records=True)


class FolderStore:
    """See `Store`."""

    def __init__(
        self,
        folder: StoreFolder,
        reader: SqliteReader | None,
        *,
        address: str,
        capabilities: Capabilities = DURABLE,
    ) -> None:
        self.address = address
        self.capabilities = capabilities
        self._folder = folder
        self._reader = reader

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: Path,
        *,
        address: str = "",
        create: bool = False,
        capabilities: Capabilities = DURABLE,
    ) -> AsyncIterator["FolderStore"]:
        """Open a folder for reading, without owning it.

        Raise `Misconfigured` if there is no store in it, unless `create` says that `own` is to create it.
        """
        folder = StoreFolder(path)
        async with AsyncExitStack() as stack:
            reader = None
            if not create:
                reader = await stack.enter_async_context(SqliteFrontier.peek(folder.database))
            yield cls(folder, reader, address=address or str(path), capabilities=capabilities)

    @property
    def frontier(self) -> SqliteReader:
        return _require(self._reader, self.address)

    @property
    def crawls(self) -> "FolderCrawls":
        return FolderCrawls(self._folder, self._reader, self.address)

    @property
    def workers(self) -> "FolderOwner":
        return FolderOwner(self._folder)

    @property
    def outputs(self) -> "FolderOutputs":
        return FolderOutputs(self.frontier)

    @property
    def exits(self) -> FolderExitRecords:
        return FolderExitRecords(self._folder.exits)

    @property
    def levels(self) -> FolderLevels:
        return FolderLevels(self._folder.levels)

    @property
    def api_records(self) -> FolderExitRecords:
        return FolderExitRecords(self._folder.api_records)

    @property
    def schedules(self) -> FolderSchedules:
        return FolderSchedules(self._folder.schedules)

    @property
    def monitoring(self) -> FolderMonitoring:
        return FolderMonitoring(self._folder.monitoring)

    async def room(self) -> StoreRoom:
        disk = shutil.disk_usage(self._folder.path)
        return StoreRoom(disk.total - disk.free, disk.total, self.address, is_memory=False)

    async def host(self, name: str) -> HostView | None:
        if self._folder.owner() is not None:
            return (await send_command(self._folder.path, ShowHost(name))).host
        return await self.frontier.host(name)

    async def archive_of(self, crawl: str) -> FolderPages:
        return FolderPages(self.frontier, self._folder, crawl)

    async def quarantined(self, crawl: str | None) -> Sequence[QuarantinedEntry]:
        return [] if self._reader is None else await self._reader.quarantined(crawl)

    async def repair(self, crawls: Sequence[str]) -> list[str]:
        with self._folder.owned():
            lines = SqliteFrontier.repair(self._folder.database, crawls)
            async with SqliteFrontier.open(self._folder.database) as frontier:
                for crawl in crawls:
                    lines += await self._accept_loss(frontier, crawl)
            return lines

    async def _accept_loss(self, frontier: SqliteFrontier, crawl: str) -> list[str]:
        """Write a checkpoint with which a crawl resumes although its archive has lost pages."""
        checkpoint = await frontier.reader.checkpoint(archive_key(crawl))
        segments = open_crawl_folder(self._folder.archive / file_name(crawl))
        if checkpoint is None or (accepted := accept_loss(segments, checkpoint)) is None:
            return []
        await frontier.commit(checkpoints={archive_key(crawl): accepted[0]})
        return [f"{crawl}: {accepted[1]}: not restored; the crawl continues in a new segment"]

    @asynccontextmanager
    async def change(self, crawls: Sequence[str] = ()) -> AsyncIterator[StoreChanges]:
        async with AsyncExitStack() as stack:
            try:
                frontier = await stack.enter_async_context(self.own())
            except StoreBusy as error:
                yield OwnerChanges(self._folder.path, str(error))
                return
            for name in crawls:
                await frontier.crawls.open(name)
            yield DirectChanges(frontier)

    @asynccontextmanager
    async def own(self, *, fsync: bool = False) -> AsyncIterator[SqliteFrontier]:
        """Own the store, creating it if need be. Raise `StoreBusy` if another process owns it."""
        with self._folder.owned():
            secure_file(self._folder.database)
            async with SqliteFrontier.open(self._folder.database, fsync=fsync) as frontier:
                with self._reading(frontier.reader):
                    yield frontier

    @asynccontextmanager
    async def work(self, *, fsync: bool = False, stay: Stay | None = None) -> AsyncIterator[WorkingStore]:
        async with AsyncExitStack() as stack:
            own = partial(self.own, fsync=fsync)
            working = await start_work(stack, self._folder, own, fsync=fsync, stay=stay or Stay())
            stack.enter_context(self._reading(working.frontier.reader))
            yield working

    @contextmanager
    def _reading(self, reader: SqliteReader) -> Iterator[None]:
        """Read through a connection that is open anyway, if the store has none."""
        before = self._reader
        self._reader = before or reader
        try:
            yield
        finally:
            self._reader = before

    @property
    def fleet(self) -> Fleet:
        raise Misconfigured("store: a fleet needs a server: pass --store redis://HOST, or set SHOAL_STORE")


def _require(reader: SqliteReader | None, address: str) -> SqliteReader:
    if reader is None:
        raise Misconfigured(f"there is no store at {address} yet")
    return reader


class FolderCrawls:
    """See `StoredCrawls`."""

    def __init__(self, folder: StoreFolder, reader: SqliteReader | None, address: str) -> None:
        self._folder = folder
        self._opened = reader
        self._address = address

    @property
    def _reader(self) -> SqliteReader:
        return _require(self._opened, self._address)

    async def names(self) -> list[str]:
        return [] if self._opened is None else await self._opened.crawls()

    async def check(self) -> list[str]:
        return await self._reader.check()

    async def audit(self, crawl: str) -> Audit:
        found = await self._reader.audit(crawl)
        if not sum(found.counts.values()):
            return found
        missing = [key for key in CHECKPOINTS if await self._reader.checkpoint(key(crawl)) is None]
        problems = [f"the checkpoint of its {CHECKPOINTS[key]} is lost" for key in missing]
        if found.counts["done"] and await self._reader.value(crawl, sums.KEY) is None:
            problems.append("its totals are lost: links filtered, items rejected and withheld")
        return replace(found, problems=[*found.problems, *problems])

    async def record(self, crawl: str) -> CrawlRecord | None:
        return None  # the command that runs an embedded crawl describes it every time

    async def records(self) -> list[CrawlRecord]:
        return []

    async def arguments(self, crawl: str) -> Mapping[str, str]:
        return read_arguments(await self._reader.value(crawl, ARGUMENTS))

    async def totals(self, crawl: str) -> sums.CrawlTotals:
        totals = sums.CrawlTotals.load(await self._reader.value(crawl, sums.KEY))
        totals.release(sums.load_released(await self._reader.value(crawl, sums.RELEASED)))
        totals.dropped = load_drops(await self._reader.value(crawl, DROPPED))
        totals.no_data = (await self._reader.value(crawl, NO_DATA) or b"").decode(errors="replace")
        return totals

    async def footprint(self, crawl: str) -> CrawlFootprint:
        require_crawl(crawl, await self.names())
        if (owner := self._folder.owner()) is not None:
            raise StoreBusy(f"{self._folder.path} is in use by {owner}")
        counts = await self._reader.counts(crawl)
        written = [*outputs(await self._reader.checkpoint(sinks_key(crawl)))]
        if (rejects := self._folder.rejects_file(crawl)).exists():
            written.append(str(rejects))
        return CrawlFootprint(
            crawl,
            counts.accepted,
            counts.open,
            counts.dead,
            tuple(map(public_name, written)),
            folder_location(self._folder.archive / file_name(crawl)),
        )

    async def delete(self, crawl: str) -> None:
        """Delete a crawl in one transaction."""
        checkpoints = [key(crawl) for key in (sinks_key, rejects_key, archive_key)]
        with self._folder.owned():
            async with SqliteFrontier.open(self._folder.database) as frontier:
                await frontier.crawls.delete(crawl, checkpoints=checkpoints, entirely=True)
            await delete_spending(FolderExitRecords(self._folder.exits), crawl)
            await delete_spent(FolderLevels(self._folder.levels), crawl)


class FolderOwner:
    """See `StoreWorkers`."""

    def __init__(self, folder: StoreFolder) -> None:
        self.owner = folder.owner

    async def all(self) -> Sequence[Heartbeat]:
        return ()


class FolderOutputs:
    """See `StoredOutputs`."""

    def __init__(self, reader: SqliteReader) -> None:
        self._reader = reader

    async def progress(self, crawl: str) -> Mapping[str, OutputState]:
        checkpoints = outputs(await self._reader.checkpoint(sinks_key(crawl)))
        return dict(_count(checkpoints.items()))

    async def rejects(self, crawl: str) -> Mapping[str, OutputState]:
        checkpoints = outputs(await self._reader.checkpoint(rejects_key(crawl)))
        return dict(_count(checkpoints.items()))

    async def unwritten_pages(self, crawl: str) -> int:
        return 0  # a page is settled in the same transaction in which its items count as written


def _count(checkpoints: Iterable[tuple[str, bytes]]) -> Iterable[tuple[str, OutputState]]:
    for path, checkpoint in checkpoints:
        try:
            yield path, OutputState(held=recount(path, checkpoint))
        except Rejected as error:
            yield path, OutputState(problem=str(error))
