"""What answers for a store: its database, a shared server, or the private one of a folder."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from shoal.stores.address import is_redis
from shoal.stores.contract.store import StoreBusy
from shoal.stores.folder.directory import StoreFolder

SERVER = "valkey"  # the folder of a private server, in that of a store
LOG = "server.log"  # which is there from its first start


def is_store(store: str) -> bool:
    """Say whether anything was kept there; of a shared store, whether it is meant to be one."""
    return is_redis(store) or StoreFolder(Path(store)).exists or _server_folder(Path(store)) is not None


@asynccontextmanager
async def reached(store: str) -> AsyncIterator[str]:
    """Give the address to ask: a DSN for shared stores and private servers, else the folder.

    A private server is asked where its fleet is at work, and else runs as long as the block does.
    """
    folder = None if is_redis(store) else _server_folder(Path(store))
    if folder is None:
        yield store
        return
    from shoal.stores.redis.private_server import private_store

    async with AsyncExitStack() as stack:
        try:
            address = await stack.enter_async_context(private_store(folder))
        except StoreBusy:
            address = f"redis+unix://{_socket(folder)}"
        yield address


def _server_folder(store: Path) -> Path | None:
    """Find the data of a private server: the folder itself, or one in a folder that only fleets have used."""
    if (store / LOG).is_file():
        return store
    return store / SERVER if (store / SERVER / LOG).is_file() and not StoreFolder(store).exists else None


def _socket(folder: Path) -> Path:
    socket = Path(os.path.abspath(folder), "socket")
    return socket.readlink() if socket.is_symlink() else socket  # elsewhere where its name would be too long
