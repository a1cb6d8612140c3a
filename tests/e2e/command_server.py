"""A process that has imported Shoal and forks for each command that a test runs.

`python -m shoal` spends 0.5 seconds of CPU time on imports, and tests run it hundreds of times. A fork of a process
that has imported everything takes 0.03. The command is still a separate process, with its own environment, working
directory, standard streams and exit code; it ends as the interpreter ends. Packages that start threads when they are
imported (pyarrow, obstore) are left to the command.

Run as a program, this is that process: it reads requests from the socket that is its standard input.
"""

import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

# What a Python process reads from the environment when it starts, and so cannot be changed after a fork.
FIXED_AT_START = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "TZ", "COVERAGE_")
PRELOADED = ("cli", "engine", "fetch", "frontier", "parse", "services", "spider", "stores", "worker")
_LONGEST_REQUEST = 1 << 20


class CommandServer:
    """The test's end: starts the process when the first command is run; it ends with the test process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def run(
        self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float
    ) -> tuple[int, str, str]:
        """Run a command to its end; return its exit code, output and errors. Raise `subprocess.TimeoutExpired`."""
        read, write = os.pipe()
        with (
            open(read, "rb", buffering=0) as status,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            try:
                request = json.dumps(
                    {"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}
                ).encode()
                with self._lock:
                    socket.send_fds(self._connected(env), [request], [out.fileno(), err.fileno(), write])
            finally:
                os.close(write)
            pid = int(_read_line(status.fileno(), None))
            try:
                code = int(_read_line(status.fileno(), timeout))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(arguments), timeout) from None
            out.seek(0)
            err.seek(0)
            return code, out.read().decode(), err.read().decode()

    def _connected(self, env: Mapping[str, str]) -> socket.socket:
        if self._socket is None:
            self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _LONGEST_REQUEST)
            with other:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "tests.e2e.command_server"],
                    stdin=other.fileno(),
                    cwd=Path(__file__).parents[2],
                    env=dict(env),
                )
        return self._socket

    def close(self) -> None:
        if self._socket is not None and self._process is not None:
            self._socket.close()  # which ends the process
            self._process.wait()
            self._socket = self._process = None


SERVER = CommandServer()


def _read_line(file: int, timeout: float | None) -> bytes:
    if not select.select([file], [], [], timeout)[0]:
        raise TimeoutError
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(file, 1)
        assert byte, "the command server has died; see its traceback above"
        line += byte
    return line


def _preload() -> None:
    for name in PRELOADED:
        package = importlib.import_module(f"shoal.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(".__main__"):
                importlib.import_module(module.name)
    with suppress(ImportError):  # what Typer imports when it parses options
        importlib.import_module("typer._adapters")
    assert len(os.listdir("/proc/self/task")) == 1, "a thread does not survive a fork"
    gc.collect()
    gc.freeze()


def _reap(options: int) -> None:
    """Wait for children that have ended, so that their CPU time counts."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, options)[0]:
            pass


def _serve() -> None:
    """Fork for every request; return in the process that has to run the command."""
    with socket.socket(fileno=os.dup(0)) as requests:
        while True:
            data, descriptors, _, _ = socket.recv_fds(requests, _LONGEST_REQUEST, 3)
            _reap(0 if not data else os.WNOHANG)
            if not data:
                os._exit(0)
            if os.fork() == 0:
                break
            for descriptor in descriptors:
                os.close(descriptor)
    out, err, status = descriptors
    if pid := os.fork():  # this process waits for the command and reports how it ended
        os.write(status, b"%d\n" % pid)
        _, ended = os.waitpid(pid, 0)
        os.write(status, b"%d\n" % os.waitstatus_to_exitcode(ended))
        os._exit(0)
    with open(os.devnull, "rb") as nothing:
        for number, descriptor in enumerate((nothing.fileno(), out, err)):
            os.dup2(descriptor, number)
    for descriptor in descriptors:
        os.close(descriptor)
    request = json.loads(data)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = ["shoal", *request["arguments"]]


if __name__ == "__main__":
    _preload()
    _serve()
    from shoal.cli.main import main

    main()
