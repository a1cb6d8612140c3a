"""Opening a store by its address. This is the only place that knows the kinds of store.

    FOLDER          an embedded store; one that only `shoal fleet` has used holds the data of a private server
    memory:         an embedded store in a temporary folder, deleted when it is closed
    redis://HOST    a store that a fleet shares; also rediss, redis+unix, redis+sentinel, redis+cluster

Backends are imported when they are needed: opening a folder needs none of the extras that Redis needs.
"""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING

from shoal.model.errors import Misconfigured
from shoal.model.settings import REDIS_SCHEMES

if TYPE_CHECKING:
    from shoal.stores.contract.checks import StoreHealth
    from shoal.stores.contract.store import Store

MEMORY = "memory:"
_LONGEST_NAME = 255  # bytes
_KNOWN = f"a folder, {MEMORY}, {', '.join(REDIS_SCHEMES)}"
_RAM_FOLDER = "/dev/shm"  # noqa: S108 - files are created in a private folder below it


@asynccontextmanager
async def open_store(
    dsn: str, *, create: bool = False, allow_outputs: tuple[str, ...] = ()
) -> AsyncIterator["Store"]:
    """Open the store at an address.

    Raise `Misconfigured` if it does not exist, unless `create` says that the caller runs or submits crawls.
    `allow_outputs`: what the operator of this machine allows of the outputs that a shared store names.
    """
    check_address(dsn)
    async with AsyncExitStack() as stack:
        if _is_redis(dsn):
            from shoal.stores.contract.places import Places
            from shoal.stores.redis.store import RedisStore

            opened = RedisStore.open(dsn, advise=create, places=Places(allow_outputs))
            yield await stack.enter_async_context(opened)
            return
        from shoal.stores.folder.directory import private_server_in
        from shoal.stores.folder.store import TEMPORARY, FolderStore

        if dsn == MEMORY:
            if not create:
                raise Misconfigured(
                    f"store: {MEMORY} is deleted when its crawl ends, so there is nothing to open:"
                    " name a folder or a server"
                )
            folder = stack.enter_context(TemporaryDirectory(prefix="shoal-store-", dir=_temporary_folder()))
            yield await stack.enter_async_context(
                FolderStore.open(Path(folder), address=MEMORY, create=True, capabilities=TEMPORARY)
            )
        elif not create and (server := private_server_in(Path(dsn))) is not None:
            yield await stack.enter_async_context(_open_private_server(server, address=dsn))
        else:
            yield await stack.enter_async_context(FolderStore.open(Path(dsn), create=create))


@asynccontextmanager
async def open_shared_store(dsn: str) -> AsyncIterator["Store"]:
    """Open a store that workers can share: for a folder, run a private server in it."""
    check_address(dsn)
    if _is_redis(dsn):
        async with open_store(dsn, create=True) as store:
            yield store
        return
    if dsn == MEMORY:
        raise Misconfigured(f"store: workers cannot share {MEMORY}: name a folder or a server")
    from shoal.stores.folder.directory import PRIVATE_SERVER

    server = Path(dsn) / PRIVATE_SERVER
    async with _open_private_server(server, address=str(server), advise=True, start=True) as store:
        yield store


@asynccontextmanager
async def _open_private_server(
    folder: Path, *, address: str, advise: bool = False, start: bool = False
) -> AsyncIterator["Store"]:
    """Connect to the private server of a folder; if it is not running, run it as long as the block does.

    With `start`, raise `StoreBusy` if it is running.
    """
    from shoal.stores.contract.store import StoreBusy
    from shoal.stores.redis.private_server import dsn_of, run_private_server
    from shoal.stores.redis.store import RedisStore

    async with AsyncExitStack() as stack:
        try:
            dsn = await stack.enter_async_context(run_private_server(folder))
        except StoreBusy:
            if start:
                raise
            dsn = dsn_of(folder)
        yield await stack.enter_async_context(RedisStore.open(dsn, address=address, advise=advise))


async def examine_store(dsn: str) -> "StoreHealth":
    """Check the health of a store, which need not exist or respond."""
    from shoal.stores.contract.checks import StoreHealth
    from shoal.stores.folder.checks import examine_folder
    from shoal.stores.folder.directory import private_server_in

    if dsn == MEMORY:
        return StoreHealth(_temporary_folder() or gettempdir())
    if not _is_redis(dsn) and private_server_in(Path(dsn)) is None:
        return await examine_folder(dsn)
    from shoal.stores.redis.checks import examine_servers

    if _is_redis(dsn):
        return await examine_servers(dsn)
    async with open_store(dsn) as store:
        return await examine_servers(store.fleet.dsn, folder=dsn)


def store_exists(dsn: str) -> bool:
    """Return whether there is a store at an address; a server is assumed to have one."""
    check_address(dsn)
    if _is_redis(dsn):
        return True
    from shoal.stores.folder.directory import StoreFolder, private_server_in

    return StoreFolder(Path(dsn)).exists or private_server_in(Path(dsn)) is not None


def check_address(dsn: str) -> None:
    """Raise `Misconfigured` for a misspelled address of a server, and for a name that no folder can have.

    The message names only the scheme: the rest may contain a password.
    """
    if not _is_redis(dsn) and any(len(os.fsencode(part)) > _LONGEST_NAME for part in dsn.split("/")):
        raise Misconfigured(f"store: no folder can have a name of more than {_LONGEST_NAME} bytes")
    scheme, colon, rest = dsn.partition(":")
    if _is_redis(dsn) or dsn == MEMORY or not colon or os.path.exists(dsn):
        return
    if rest.startswith("//"):
        near = get_close_matches(scheme.lower(), REDIS_SCHEMES, 1)
        meant = f"did you mean {near[0]}://? " if near else ""
        raise Misconfigured(f"store: no backend for {scheme!r}; {meant}known: {_KNOWN}")
    if scheme.lower() in REDIS_SCHEMES:
        raise Misconfigured(f"store: {scheme}: is followed by two slashes, as in {scheme}://HOST")
    if scheme.lower() == MEMORY.rstrip(":"):
        raise Misconfigured(f"store: nothing follows {MEMORY}: such a store has no name")
    if rest.isdigit():
        raise Misconfigured(f"store: there is no folder {dsn}; a server is named redis://{dsn}")


def public_address(dsn: str) -> str:
    """Return an address without the secrets that it may contain."""
    if not _is_redis(dsn):
        return dsn
    from shoal.redis_client import parse

    return str(parse(dsn))


def _is_redis(dsn: str) -> bool:
    scheme, separator, _ = dsn.partition("://")
    return bool(separator) and scheme.lower() in REDIS_SCHEMES


def _temporary_folder() -> str | None:
    """Return a folder in RAM if there is one, else None for the system's temporary folder."""
    return _RAM_FOLDER if os.access(_RAM_FOLDER, os.W_OK | os.X_OK) else None
