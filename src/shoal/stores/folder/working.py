"""Working in a folder: as its owner, or as a guest of the process that owns it."""

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from shoal.fetch.gate import SendGate
from shoal.fetch.shared_gate import SharedGate
from shoal.frontier.sqlite import SqliteFrontier
from shoal.model.errors import Unavailable
from shoal.model.pace import AddressPace
from shoal.stores.contract.store import Stay, StoreBusy
from shoal.stores.folder.control_socket import accept_commands
from shoal.stores.folder.directory import StoreFolder
from shoal.stores.folder.guests.frontier import GuestFrontier
from shoal.stores.folder.guests.server import Guests
from shoal.stores.folder.joining import join_owner, process_name

RETRY_S = 0.05  # between two attempts to own a folder or to join its owner


@dataclass(frozen=True, slots=True)
class _FolderFiles:
    folder: StoreFolder

    @property
    def archive(self) -> Path:
        return self.folder.archive

    @property
    def items(self) -> Path:
        return self.folder.items

    def rejects_file(self, crawl: str) -> Path:
        return self.folder.rejects_file(crawl)


@dataclass(frozen=True, slots=True)
class OwnedFolder(_FolderFiles):
    """A folder that this process owns; see `WorkingStore`."""

    frontier: SqliteFrontier
    turns: SendGate  # of all crawls of the folder
    guests: Guests
    host_process: str = ""

    async def claim(self, crawl: str) -> None:
        self.guests.claim(crawl)

    def gate(self, crawl: str, addresses: AddressPace) -> SendGate:
        self.turns.hold = partial(self.frontier.held_for, crawl)
        self.turns.addresses = addresses
        return self.turns


@dataclass(frozen=True, slots=True)
class GuestFolder(_FolderFiles):
    """A folder that another process owns; see `WorkingStore`."""

    frontier: GuestFrontier
    host_process: str

    async def claim(self, crawl: str) -> None:
        await self.frontier.claim(crawl)

    def gate(self, crawl: str, addresses: AddressPace) -> SharedGate:
        frontier = self.frontier
        return SharedGate(
            frontier.turn,
            is_paused=frontier.is_paused,
            hosts_at=_many_hosts,
            addresses=addresses,
            crawl=crawl,
        )


async def _many_hosts(address: str, host: str) -> int:
    return sys.maxsize  # the owner knows what its own crawl sends to the address: every turn is asked for


async def start_work(
    stack: AsyncExitStack,
    folder: StoreFolder,
    own: Callable[[], AbstractAsyncContextManager[SqliteFrontier]],
    *,
    fsync: bool,
    stay: Stay,
) -> OwnedFolder | GuestFolder:
    """Own the folder, or join its owner; try both until one is possible. Leaving `stack` ends that."""
    began = time.monotonic()
    while True:
        try:
            frontier = await stack.enter_async_context(own())
        except StoreBusy as busy:
            if not stay.may_join:
                raise
            try:
                guest = await stack.enter_async_context(join_owner(folder, fsync=fsync, leave=stay.leave))
            except StoreBusy:
                raise
            except Unavailable:
                if time.monotonic() - began >= stay.patience():
                    raise busy from None
                await asyncio.sleep(RETRY_S)
                continue
            return GuestFolder(folder, guest.frontier, guest.owner)
        gate = SendGate()
        guests = Guests(frontier, gate, process_name())
        listening = accept_commands(folder.path, frontier, guests, hurry=stay.hurry)
        await stack.enter_async_context(listening)
        return OwnedFolder(folder, frontier, gate, guests)
