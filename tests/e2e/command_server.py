"""A process that has imported Shoal and forks for each command that a test runs.

`python -m shoal` spends 0.5 seconds of CPU time on imports, and tests run it hundreds of times. A fork of a process
that has imported everything takes 0.03. The command is still a separate process, with its own environment, working
directory, standard streams and exit code. The list of processes shows the command
server's name for it, and its memory includes modules that it does not use: a test that looks at either starts an
interpreter. The zygotes of its parse pools are forked as well (`forked_zygote.py`).

Run as a program, this is that process: it reads requests from the socket that is its standard input.
"""

import atexit
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
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TextIO

from tests.e2e.forked_zygote import fork_zygotes

# The commands that read tables, and the packages for it: 0.25 s to import. They have a separate command server, since each
# fork of a process with these packages takes 0.01 s longer, and a crawl forks three times.
TABLE_COMMANDS = ("report", "sql")
TABLE_PACKAGES = ("duckdb", "pyarrow.parquet")
# pyarrow and numpy start no thread when they are imported with these.
_WITHOUT_THREADS = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "ARROW_DEFAULT_MEMORY_POOL": "mimalloc",
}
# What a Python process reads from the environment when it starts, and so cannot be changed after a fork.
FIXED_AT_START = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "TZ", "COVERAGE_")
PRELOADED = ("cli", "engine", "fetch", "frontier", "parse", "services", "spider", "stores", "worker")
_LONGEST_REQUEST = 1 << 20
_DESCRIPTOR = "COMMAND_SERVER"
_PROGRAM = f"""\
import json, os, socket, sys

env = dict(os.environ)
server = socket.socket(fileno=int(env.pop({_DESCRIPTOR!r})))
request = {{"arguments": sys.argv[1:], "cwd": os.getcwd(), "env": env, "session": False}}
status, report = os.pipe()
socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2, report])
os.close(report)
_, code = open(status).read().split()
os._exit(int(code) if int(code) >= 0 else 128 - int(code))  # as a shell has it
"""


def surroundings(extra: Mapping[str, str] = {}) -> dict[str, str]:
    """Return an environment without the settings of the user who runs the tests."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SHOAL_", "LC_", "NO_COLOR"))
    }
    return {**kept, "LANG": "C.UTF-8", "PYTHONWARNINGS": "error", **extra}


class StartedCommand:
    """A command that runs in the background, with the methods of `subprocess.Popen` that tests call.

    It is not a child of the test process: a process of the command server waits for it and reports how it ended.
    """

    def __init__(self, arguments: Sequence[str], pid: int, status: int) -> None:
        self.args = list(arguments)
        self.pid = pid
        self.returncode: int | None = None
        self.stdout: TextIO | None = None
        self.stderr: TextIO | None = None
        self._status = status  # closed when the command has ended
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Return the exit code, or None while the command runs."""
        with self._lock:
            if self.returncode is None and select.select([self._status], [], [], 0)[0]:
                self.returncode = int(_read_line(self._status))
                os.close(self._status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code when the command has ended. Raise `subprocess.TimeoutExpired`."""
        until = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            left = 1.0 if until is None else until - time.monotonic()
            if left <= 0 and timeout is not None:
                raise subprocess.TimeoutExpired(self.args, timeout)
            with suppress(OSError):  # another thread has read the status and closed it
                select.select([self._status], [], [], min(left, 1.0))
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, *, timeout: float | None = None) -> tuple[str, str]:
        """Read what is left of the output and of the errors, and wait for the end."""
        with ThreadPoolExecutor(2) as threads:
            reading = [
                threads.submit(stream.read) if stream else None for stream in (self.stdout, self.stderr)
            ]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()  # else the threads never end
                raise
            out, err = (one.result() if one else "" for one in reading)
        self._close()
        return out, err

    def _close(self) -> None:
        for stream in (self.stdout, self.stderr):
            if stream:
                stream.close()

    def __enter__(self) -> "StartedCommand":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._close()
        self.wait()


class CommandServer:
    """The test's end: starts the process when the first command is run; it ends with the test process."""

    def __init__(self, *packages: str) -> None:
        self._packages = packages  # that the process imports besides Shoal
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def run(
        self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float
    ) -> tuple[int, str, str]:
        """Run a command to its end; return its exit code, output and errors. Raise `subprocess.TimeoutExpired`."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            command = self.start(arguments, cwd=cwd, env=env, out=out.fileno(), err=err.fileno())
            try:
                code = command.wait(timeout)
            except subprocess.TimeoutExpired:
                command.kill()
                raise
            out.seek(0)
            err.seek(0)
            return code, out.read().decode(), err.read().decode()

    def start(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        out: int | None = None,
        err: int | None = None,
        session: bool = False,
    ) -> StartedCommand:
        """Start a command, in a new session if asked; its output and errors go to these files, or to pipes."""
        request = json.dumps(
            {"arguments": list(arguments), "cwd": str(cwd), "env": dict(env), "session": session}
        ).encode()
        nothing = os.open(os.devnull, os.O_RDONLY)
        status, report = os.pipe()
        ends = [os.pipe() if file is None else (None, file) for file in (out, err)]
        try:
            with self._lock:
                files = [nothing, *(write for _, write in ends), report]
                socket.send_fds(self._connected(env), [request], files)
        finally:
            for file in (nothing, report, *(write for read, write in ends if read is not None)):
                os.close(file)
        command = StartedCommand(arguments, int(_read_line(status)), status)
        command.stdout, command.stderr = (None if read is None else os.fdopen(read) for read, _ in ends)
        return command

    @contextmanager
    def in_path(self, env: Mapping[str, str]) -> Iterator[tuple[dict[str, str], int]]:
        """Make a folder with a program `shoal` that forks here; yield `env` with it in front of PATH, and a descriptor.

        A shell that gets this environment and inherits the descriptor can run the program: lines of the documentation
        are typed into one.
        """
        with self._lock:
            descriptor = self._connected(surroundings()).fileno()
        with tempfile.TemporaryDirectory(prefix="shoal-bin-") as folder:
            program = Path(folder) / "shoal"
            program.write_text(f"#!{sys.executable} -IS\n{_PROGRAM}")
            program.chmod(0o755)
            path = f"{folder}:{env.get('PATH', os.defpath)}"
            yield {**env, "PATH": path, _DESCRIPTOR: str(descriptor)}, descriptor

    def _connected(self, env: Mapping[str, str]) -> socket.socket:
        if self._socket is None:
            self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _LONGEST_REQUEST)
            with other:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "tests.e2e.command_server", *self._packages],
                    stdin=other.fileno(),
                    cwd=Path(__file__).parents[2],
                    env={**env, **_WITHOUT_THREADS},
                )
        return self._socket

    def close(self) -> None:
        if self._socket is not None and self._process is not None:
            self._socket.close()  # which ends the process
            self._process.wait()
            self._socket = self._process = None


SERVER = CommandServer()
TABLE_SERVER = CommandServer(*TABLE_PACKAGES)


def server_for(arguments: Sequence[str]) -> CommandServer:
    """Return the server whose process has imported what a command needs."""
    return TABLE_SERVER if arguments and arguments[0] in TABLE_COMMANDS else SERVER


def _read_line(file: int) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(file, 1)
        assert byte, "the command server has died; see its traceback above"
        line += byte
    return line


def _preload(packages: Sequence[str]) -> None:
    for name in PRELOADED:
        package = importlib.import_module(f"shoal.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(".__main__"):
                importlib.import_module(module.name)
    for name in ("lxml.html", *packages):  # lxml: for spiders with code
        importlib.import_module(name)
    with suppress(ImportError):  # what Typer imports when it parses options
        importlib.import_module("typer._adapters")
    assert len(os.listdir("/proc/self/task")) == 1, "a thread does not survive a fork"
    gc.collect()
    gc.freeze()


def _serve() -> None:
    """Fork for every request and report how each command ended; return in the process that has to run the command."""
    requests = socket.socket(fileno=os.dup(0))
    reports: dict[
        int, tuple[int, int]
    ] = {}  # of running commands, by a descriptor that is readable at the end
    polled = select.poll()
    polled.register(requests, select.POLLIN)
    while True:
        for ready, _ in polled.poll():
            if ready in reports:
                pid, report = reports.pop(ready)
                polled.unregister(ready)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with suppress(BrokenPipeError):  # the test has ended
                    os.write(report, b"%d\n" % code)
                os.close(report)
                os.close(ready)
                continue
            data, descriptors, _, _ = socket.recv_fds(requests, _LONGEST_REQUEST, 4)
            if not data:  # the test process has ended
                for pid, _ in reports.values():
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                os._exit(0)
            if (pid := os.fork()) == 0:
                for ended, (_, report) in reports.items():
                    os.close(ended)
                    os.close(report)
                requests.close()
                _become_command(data, descriptors)
                return
            *streams, report = descriptors
            for descriptor in streams:
                os.close(descriptor)
            ended = os.pidfd_open(pid)
            reports[ended] = pid, report
            polled.register(ended, select.POLLIN)


def _become_command(data: bytes, descriptors: Sequence[int]) -> None:
    """Set up the process as the request says."""
    *streams, status = descriptors
    request = json.loads(data)
    if request.get("session"):
        os.setsid()
    os.chdir(request["cwd"])
    os.write(status, b"%d\n" % os.getpid())  # before the command runs: it can be sent signals now
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    for descriptor in descriptors:
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["env"])
    if request["env"].get("PYTHONWARNINGS") == "ignore":  # else errors, as this process was started
        warnings.simplefilter("ignore")
    sys.argv = ["shoal", *request["arguments"]]


def _run_command() -> None:
    """Run the command and exit as the interpreter does, without taking its modules apart.

    It joins the threads, calls the exit functions and collects garbage, so that what was not closed warns.
    Taking apart the modules that were imported before the fork copies their memory first, which takes longer than most
    commands do.
    """
    from shoal.cli.main import main

    try:
        main()
    except SystemExit as end:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        gc.collect()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(end.code or 0))


if __name__ == "__main__":
    _preload(sys.argv[1:])
    fork_zygotes()
    _serve()
    _run_command()
