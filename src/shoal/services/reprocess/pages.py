"""What a crawl has gathered, wherever its store is: its pages in the archive, and where its items are."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from shoal.archive.reader import ArchiveReader
from shoal.model.errors import Misconfigured
from shoal.model.settings import Settings
from shoal.services.reprocess.folder_pages import FolderPages, PageEntry, PageFilter
from shoal.sinks.names import canonical_name
from shoal.stores.access import peeking
from shoal.stores.address import is_redis
from shoal.stores.folder.store import StoreFolder
from shoal.stores.reach import reached

if TYPE_CHECKING:
    from shoal.services.reprocess.fleet_pages import FleetPages


class CrawlPages(Protocol):
    """The part that reading pages again needs."""

    @property
    def crawl(self) -> str: ...
    @property
    def archive(self) -> ArchiveReader: ...
    @property
    def unreadable(self) -> int: ...  # pages that going through the archive did not find, or found damaged
    def settings(self, own: Settings) -> Settings: ...  # those of the crawl, where its store keeps them
    async def hosts(self) -> Sequence[str]: ...  # that are in scope
    async def outputs(self) -> Collection[str]: ...  # that the crawl itself writes, by name
    def pages(self, selection: PageFilter, items: Path | None = None) -> AsyncGenerator[PageEntry, None]: ...


@asynccontextmanager
async def open_pages(
    store: str, asked: str, *, spider: str = ""
) -> AsyncIterator["FolderPages | FleetPages"]:
    """Open what one crawl of a store has gathered, without owning anything; see `chosen_crawl`."""
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(reached(store))
        if is_redis(address):
            from shoal.services.reprocess.fleet_pages import open_fleet_holdings

            holdings = open_fleet_holdings(address, lambda names: chosen_crawl(names, asked, spider))
            yield await stack.enter_async_context(holdings)
        else:
            reader = await stack.enter_async_context(peeking(address))
            crawl = chosen_crawl(await reader.crawls(), asked, spider)
            yield FolderPages(reader, StoreFolder(Path(address)), crawl)


def chosen_crawl(names: Sequence[str], asked: str, spider: str) -> str:
    """Choose the crawl that is meant: the one asked for, the only one, or the spider's."""
    wanted = asked or (names[0] if len(names) == 1 else spider)
    if wanted in names:
        return wanted
    problem = f"no crawl named {wanted!r}" if wanted else f"{len(names)} crawls"
    raise Misconfigured(
        f"the store has {problem}; --crawl chooses one of: {', '.join(names) or 'none at all'}"
    )


async def refuse_own(holdings: CrawlPages, out: str) -> None:
    """Keep a command that makes an output away from those that the crawl itself goes on writing."""
    if canonical_name(out) in await holdings.outputs():
        raise Misconfigured(f"output {canonical_name(out)}: the crawl itself writes there; name another one")
