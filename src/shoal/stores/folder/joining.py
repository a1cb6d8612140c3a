"""Becoming a guest: the line that opens a connection to the owner of a folder."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec

from shoal import __version__
from shoal.frontier.sqlite import SqliteFrontier
from shoal.model.errors import Unavailable
from shoal.stores.contract.store import StoreBusy
from shoal.stores.folder.directory import StoreFolder
from shoal.stores.folder.guests.connection import OwnerConnection
from shoal.stores.folder.guests.frontier import GuestFrontier
from shoal.stores.folder.socket_file import socket_address

JOIN_TIMEOUT_S = 30.0  # an owner that opens a crawl of millions of requests answers after some seconds


class Join(msgspec.Struct, frozen=True, tag="join"):
    """Run crawls as a guest of the owner: the connection stays open, and carries calls (`guests`)."""

    process: str  # for people
    version: str  # of Shoal: both have to be the same
    fsync: bool = False  # commits have to survive a power loss


class Joined(msgspec.Struct, frozen=True):
    """The part of the owner's reply that a guest reads."""

    error: str = ""  # why it cannot be a guest
    owner: str = ""  # the process that owns the folder


def refusal(join: Join) -> str | None:
    """Return why a process cannot be a guest of this one; None: it can."""
    if join.version == __version__:
        return None
    return f"it runs Shoal {__version__}, and this command is Shoal {join.version}: wait until it ends"


class GuestAccess(NamedTuple):
    owner: str  # the process that owns the folder
    frontier: GuestFrontier


@asynccontextmanager
async def join_owner(
    folder: StoreFolder,
    *,
    fsync: bool,
    leave: Callable[[], None],
    clock: Callable[[], float] = time.time,
) -> AsyncIterator[GuestAccess]:
    """Work as a guest of the process that owns a folder; `leave` is called when that is about to end.

    Raise `Unavailable` if it does not listen, `StoreBusy` if it takes no guests. The block is cancelled with
    `OwnerLost` if it is gone.
    """
    try:
        async with asyncio.timeout(JOIN_TIMEOUT_S):
            with socket_address(folder.path) as path:
                reader, writer = await asyncio.open_unix_connection(path, limit=1 << 16)
            try:
                reply = await _ask_to_join(reader, writer, fsync=fsync)
            except BaseException:
                writer.close()  # at once: an owner that answers later would serve it
                raise
    except (OSError, TimeoutError, ValueError):  # what is not a reply comes from no owner
        raise Unavailable(f"{folder.path} is in use by a process that takes no commands") from None
    if reply.error:
        writer.close()
        raise StoreBusy(f"{folder.path} is in use by {folder.owner() or 'another process'}: {reply.error}")
    async with (
        OwnerConnection.open(reader, writer, leave) as connection,
        SqliteFrontier.peek(folder.database, clock=clock) as database,
    ):
        yield GuestAccess(reply.owner, GuestFrontier(connection, database, clock))


async def _ask_to_join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, fsync: bool) -> Joined:
    writer.write(msgspec.json.encode(Join(process_name(), __version__, fsync)) + b"\n")
    if not (line := await reader.readline()):
        raise ConnectionResetError
    return msgspec.json.decode(line, type=Joined)


def process_name() -> str:
    """Return this process, for people."""
    return f"process {os.getpid()}"
