"""A server process for tests: on a free port of this machine, in a private folder, ended by its process id."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from tests.corpora.apt import apt_get
from tests.needs import missing

READY_S = 30.0  # every server here takes less than one second on an idle machine


class ServerProcess:
    """A program that can be killed, stopped and started again with the same folder."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._command = list(command)
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                self._command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """Send SIGKILL and wait until the process has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def output(self) -> str:
        return (self.folder / "output").read_text(errors="replace")[-2000:]


Server = TypeVar("Server", bound=ServerProcess)


async def until(is_so: Callable[[Server], Awaitable[bool]], server: Server) -> None:
    """Poll until `is_so` returns true; raise `AssertionError` with its output if the server ends."""
    async with asyncio.timeout(READY_S):
        while not await is_so(server):
            if not server.running:
                raise AssertionError(f"the server has ended: {server.output()}")
            await asyncio.sleep(0.02)


def free_port(*, below: int = 65_536) -> int:
    """Return a port that no process listens on."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port: int = probe.getsockname()[1]
        if port < below:
            return port


@contextmanager
def refusing_port() -> Iterator[int]:
    """Reserve a port that refuses connections: no other process of this machine can listen on it."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


@contextmanager
def deaf_port() -> Iterator[int]:
    """Open a port that answers no attempt to connect: its queue is full, and the kernel drops the rest."""
    with ExitStack() as stack:
        deaf = stack.enter_context(socket.socket())
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for _ in range(4):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(deaf.getsockname())
        yield deaf.getsockname()[1]


def program(name: str, package: str, *, folders: str = "") -> str:
    """Return the path of a program; install its Debian package where root may. `folders`: a glob below /."""

    def find() -> str | None:
        places = [os.environ["PATH"], *sorted(map(str, Path("/").glob(folders) if folders else ()))]
        return shutil.which(name, path=os.pathsep.join(places))

    if (found := find()) is None and os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"installing {package} (apt-get)", file=sys.stderr, flush=True)
        try:
            apt_get("install", "-y", package)
        except subprocess.SubprocessError as error:
            missing(f"{package} cannot be installed: {error}")
        found = find()
    if found is None:
        missing(f"{name} is not installed here: apt-get install {package}")
    return found
