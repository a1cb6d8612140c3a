"""What a store is: where the frontier and everything else that survives a restart is kept."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from shoal.frontier.contract import Frontier, FrontierReader
from shoal.frontier.results import Audit, HostView
from shoal.model.crawl_totals import CrawlTotals
from shoal.model.errors import Misconfigured, Unavailable
from shoal.model.quarantine import QuarantinedEntry
from shoal.stores.contract.api_records import ApiRecords
from shoal.stores.contract.changes import StoreChanges
from shoal.stores.contract.crawl_record import CrawlRecord
from shoal.stores.contract.exits import StoredExits
from shoal.stores.contract.fleet import Fleet
from shoal.stores.contract.footprint import CrawlFootprint
from shoal.stores.contract.heartbeat import Heartbeat
from shoal.stores.contract.levels import StoredLevels
from shoal.stores.contract.monitoring import StoredMonitoring, StoreRoom
from shoal.stores.contract.pages import CrawlPages
from shoal.stores.contract.schedules import StoredSchedules

if TYPE_CHECKING:
    from shoal.fetch.gate import SendGate
    from shoal.fetch.shared_gate import SharedGate
    from shoal.model.pace import AddressPace


PATIENCE_S = 5.0  # a process that starts or ends owns a store for a moment without taking guests


class StoreBusy(Unavailable):
    """Another process owns the store."""


class OwnerLost(Unavailable):
    """The process that owned the store has ended, or does not respond: open the store again."""


class UnknownCrawl(Misconfigured):
    """The store has no crawl of this name."""


class Capabilities(msgspec.Struct, frozen=True):
    """What a store can do. Callers ask for these, and never which kind of store it is."""

    shared: bool  # any number of workers may serve its crawls; otherwise one process at a time owns it
    durable: bool  # it outlives the process that opened it
    page_records: bool  # it keeps a record of each finished page, with the number of its items


class StoredCrawls(Protocol):
    """The crawls of a store."""

    async def names(self) -> list[str]: ...

    async def record(self, crawl: str) -> CrawlRecord | None:
        """Return a crawl as it was submitted; None: it was not, or the store keeps no such records."""

    async def records(self) -> list[CrawlRecord]:
        """Return all crawls that were submitted."""

    async def arguments(self, crawl: str) -> Mapping[str, str]:
        """Return the arguments of the crawl's spider that are not defaults."""

    async def totals(self, crawl: str) -> CrawlTotals:
        """Return what the crawl has counted besides its requests, over all its workers."""

    async def check(self) -> list[str]:
        """Return problems that belong to no crawl: damage, and crawls of which only a part is left."""

    async def audit(self, crawl: str) -> Audit:
        """Recount the requests of a crawl. Differences that only running workers cause are not problems."""

    async def footprint(self, crawl: str) -> CrawlFootprint:
        """Count what `delete` would remove. Raise if the crawl does not exist or is being worked on."""

    async def delete(self, crawl: str) -> None:
        """Remove a crawl from the store. Raise `Unavailable` if it is being worked on."""


class StoreWorkers(Protocol):
    """The processes that work on the crawls of a store."""

    def owner(self) -> str | None:
        """Describe the process that owns the store; None: no process does."""

    async def all(self) -> Sequence[Heartbeat]:
        """Return the latest heartbeat of each live worker of a shared store."""


@dataclass(frozen=True, slots=True)
class OutputState:
    """How many items of a crawl an output holds."""

    waiting: int = 0  # items in the store that are not in the output yet
    held: int | None = None  # items counted in the output; None: it cannot be counted from here
    why: str = ""  # it cannot be counted
    problem: str = ""  # the output is missing or not as the crawl left it


class StoredOutputs(Protocol):
    """The outputs of a crawl, each by a name without secrets."""

    async def progress(self, crawl: str) -> Mapping[str, OutputState]:
        """Count the items in every output that the crawl has had."""

    async def rejects(self, crawl: str) -> Mapping[str, OutputState]:
        """Count the items that did not fit their model, where the store keeps track of them."""

    async def unwritten_pages(self, crawl: str) -> int:
        """Count the pages whose items are not in every output yet."""


class WorkingReader(FrontierReader, Protocol):
    async def values(self, crawl: str, prefix: str) -> dict[str, bytes]:
        """Return the values of a crawl whose keys start with `prefix`."""


class WorkingFrontier(Frontier, Protocol):
    @property
    def reader(self) -> WorkingReader: ...


class WorkingStore(Protocol):
    """A store in which this process runs a crawl: as its owner, or as a guest of the process that owns it."""

    @property
    def host_process(self) -> str:
        """Return the process of which this one is a guest; empty: this process owns the store."""

    @property
    def frontier(self) -> WorkingFrontier: ...

    @property
    def archive(self) -> Path:
        """Return the folder for archives, one subfolder per crawl."""

    @property
    def items(self) -> Path:
        """Return the folder for outputs that were given no path."""

    def rejects_file(self, crawl: str) -> Path:
        """Return the file for items that do not fit their model."""

    async def claim(self, crawl: str) -> None:
        """Run a crawl alone until the store is left; raise `StoreBusy` if another process runs it."""

    def gate(self, crawl: str, addresses: "AddressPace") -> "SendGate | SharedGate":
        """Return the gate that every request of a crawl passes: one pace for all crawls of the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """How a process works in a store that it may have to share."""

    leave: Callable[[], None] = lambda: None
    """Called when the owner ends and this process is its guest: it should finish soon."""

    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when this process should end at once: then it does not wait for its guests."""

    may_join: bool = True
    """Whether this process can be a guest."""

    patience: Callable[[], float] = lambda: PATIENCE_S
    """Returns for how many seconds to wait for an owner that takes no guests (yet)."""


class Store(Protocol):
    """An open store."""

    @property
    def address(self) -> str:
        """Return the address for messages and JSON, without secrets."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def frontier(self) -> FrontierReader:
        """Return the frontier for reading. Needs no ownership, works while a crawl runs."""

    @property
    def crawls(self) -> StoredCrawls: ...

    @property
    def workers(self) -> StoreWorkers: ...

    @property
    def outputs(self) -> StoredOutputs: ...

    @property
    def exits(self) -> StoredExits:
        """Return what is known about exits. It may be changed at any time, by any process."""

    @property
    def levels(self) -> StoredLevels:
        """Return what is known about the levels of hosts. Any process may change it at any time."""

    @property
    def api_records(self) -> ApiRecords:
        """Return the records of the HTTP API. Any process may change them at any time."""

    @property
    def schedules(self) -> StoredSchedules:
        """Return the schedules. Any process may change them at any time."""

    @property
    def monitoring(self) -> StoredMonitoring:
        """Return figures of workers and alerts. Any process may change them at any time."""

    async def room(self) -> StoreRoom:
        """Return how full the fullest server of the store is, or the disk of its folder."""

    async def host(self, name: str) -> HostView | None:
        """Return the state of a host as a running crawl has it, else as it was stored."""

    async def archive_of(self, crawl: str) -> CrawlPages:
        """Return the archived pages of a crawl."""

    async def quarantined(self, crawl: str | None) -> Sequence[QuarantinedEntry]:
        """Return the entries of a crawl that could not be read; None: those that belong to no crawl."""

    async def repair(self, crawls: Sequence[str]) -> list[str]:
        """Rebuild derived state that an interrupted change left inconsistent; return what was repaired."""

    def change(self, crawls: Sequence[str] = ()) -> AbstractAsyncContextManager[StoreChanges]:
        """Change the store from outside its running crawls, with these crawls open.

        A store that no process owns is owned for the block. If a running crawl owns it, that process carries
        the change out. Workers of a shared store look for new work afterwards.
        """

    def work(
        self, *, fsync: bool = False, stay: Stay | None = None
    ) -> AbstractAsyncContextManager[WorkingStore]:
        """Own the store, creating it if need be, or work in it as a guest of the process that owns it.

        Raise `StoreBusy` if its owner takes no guests. The block is cancelled, and `OwnerLost` raised, if the
        owner of a guest is gone.
        """

    @property
    def fleet(self) -> Fleet:
        """Return what the workers of a shared store need; raise `Misconfigured` if it is not shared."""


async def select_crawls(store: Store, crawl: str | None) -> list[str]:
    """Return the named crawl, or all if None; raise `Misconfigured` if the store does not have it."""
    names = await store.crawls.names()
    if crawl is None:
        return names
    require_crawl(crawl, names)
    return [crawl]


def require_crawl(crawl: str, names: Sequence[str]) -> None:
    """Raise `UnknownCrawl`, with the nearest name, if `crawl` is not among `names`."""
    if crawl not in names:
        raise UnknownCrawl(f"the store has no crawl named {crawl!r}{_nearest(crawl, names)}")


def _nearest(name: str, names: Sequence[str]) -> str:
    if close := get_close_matches(name, names, n=1, cutoff=0.5):
        return f"; did you mean {close[0]}?"
    return "; shoal status lists its crawls" if names else ", and no other"
