"""The pool's client of the fork server: start it, fork and kill children, learn of their exits."""

import asyncio
import os
import secrets
import select
import signal
import socket
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from shoal.model.configuration.hidden_secrets import hide_in, visible_secrets
from shoal.model.errors import Misconfigured
from shoal.parse.frames import TOKENS, FrameReader, FrameType, header
from shoal.parse.messages import (
    ChildExited,
    Fork,
    Forked,
    FromPool,
    FromZygote,
    Ready,
    Sandboxed,
    SpiderLoadFailed,
    Start,
    decode_from_zygote,
    encode,
)
from shoal.parse.output import CapturedOutput

CLOSE_TIMEOUT_S = 5.0  # for the fork server to reap its children, before it is killed
EXIT_TIMEOUT_S = 1.0  # for a killed child to disappear
MAX_DESCRIPTORS = 16  # that come with one message; the kernel drops the others
MAX_DESCRIPTION_BYTES = 1 << 30  # a spider may have a long list of seeds

_FD = struct.Struct("i")

# Without these, glibc may return memory to the system after each page and request it again for the next one,
# and parsing takes twice as long. The texts of a page of many MiB are given back: in the heap, each of them
# leaves a gap whenever it grows.
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(4 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
_KEPT = ("PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH")


def environment(own: Mapping[str, str], also: Collection[str] = ()) -> dict[str, str]:
    """Return the environment for user code: what it needs to find and decode files, and no secrets.

    `also` names variables that the operator lets spiders see.
    """
    names = {*_KEPT, *also}
    kept = {name: value for name, value in own.items() if name in names or name.startswith(("LC_", "PYTHON"))}
    return kept | _MALLOC


class ForkServerClient:
    """One fork server process.

    `ready` resolves to its `Ready` message, or fails with the reason why the spider did not load.
    """

    def __init__(
        self,
        start: Start,
        *,
        loop: asyncio.AbstractEventLoop,
        on_exit: Callable[[ChildExited], None],
        on_end: Callable[[], None],
    ) -> None:
        self.ready: asyncio.Future[Ready] = loop.create_future()
        self.guarantees: frozenset[str] | None = None  # of the sandbox; None: it is not in it yet
        self.was_killed = False  # by SIGKILL from outside, as when the machine is out of memory
        self._killing = False
        self._ended: asyncio.Future[None] = loop.create_future()
        self._where = start.where
        self._loop = loop
        self._on_exit = on_exit
        self._on_end = on_end
        self._token = secrets.randbelow(TOKENS)
        self._reader = FrameReader(self._token, FrameType.CONTROL, most=MAX_DESCRIPTION_BYTES)
        self._environment = environment(os.environ, start.sandbox.environment)
        self._pidfds: dict[int, int] = {}  # child number -> pidfd
        self._unclaimed: deque[int] = deque()  # pidfds whose message is not complete yet
        self._doomed: set[int] = set()  # children to kill as soon as their pidfd arrives
        self._control, theirs = socket.socketpair()
        printed, printing = os.pipe()
        with theirs:
            try:
                self._process = self._spawn(theirs.fileno(), printing)
            except OSError:
                self._control.close()
                os.close(printed)
                raise
            finally:
                os.close(printing)
        self._secrets = visible_secrets(start.sandbox.environment, os.environ)
        self._output = CapturedOutput(loop, printed, partial(hide_in, secrets=self._secrets))
        self._pidfd = os.pidfd_open(self._process.pid)
        with suppress(BrokenPipeError):  # it has exited already: `_on_process_exit` is about to run
            self._send_message(start)
        self._control.setblocking(False)
        loop.add_reader(self._control, self._readable)
        loop.add_reader(self._pidfd, self._on_process_exit)

    def fork(self, child: int, token: int, sock: socket.socket) -> None:
        """Start a child that communicates on `sock`; the parent's copy is closed."""
        with sock, suppress(BrokenPipeError):
            self._send_message(Fork(child, token), sock)

    def kill(self, child: int) -> None:
        """Kill a child; its exit is reported like any other."""
        if (pidfd := self._pidfds.get(child)) is None:
            self._doomed.add(child)
        else:
            _send_kill(pidfd)

    def fail(self, reason: str) -> None:
        """Fail `ready`, if the spider has not loaded yet."""
        if not self.ready.done():
            self.ready.set_exception(Misconfigured(reason))

    async def close(self) -> None:
        """End the fork server and its children; return when they have exited."""
        listening = self.ready.done()  # otherwise it is still running user code
        self.ready.cancel()
        self._close_control()
        try:
            if listening:
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await asyncio.shield(self._ended)
        except TimeoutError:
            pass
        finally:
            if not self._ended.done():
                self._process.kill()
                self._on_process_exit()
            for pidfd in self._pidfds.values():
                _wait_exited(pidfd)
                os.close(pidfd)
            self._pidfds.clear()

    def _spawn(self, control: int, printing: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603
            # -P: without it, a file in the current folder could shadow one of our modules.
            [sys.executable, "-P", "-m", "shoal.parse.zygote", str(control), str(self._token)],
            stdin=subprocess.DEVNULL,
            stdout=printing,
            stderr=printing,
            env=self._environment,
            pass_fds=(control,),
            start_new_session=True,  # Ctrl-C goes to the parent only
        )

    def _send_message(self, message: FromPool, sock: socket.socket | None = None) -> None:
        payload = encode(message)
        data = header(self._token, FrameType.CONTROL, payload) + payload
        socket.send_fds(self._control, [data], [sock.fileno()] if sock else [])

    def _close_control(self) -> None:
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control)
            self._control.close()

    def _readable(self) -> None:
        try:
            while data := self._receive():
                for payload in self._reader.feed(memoryview(data)):
                    self._handle(decode_from_zygote(payload))
                # User code wrote to the connection during its import, or sends file descriptors.
                if self._reader.invalid or len(self._unclaimed) > MAX_DESCRIPTORS:
                    self._end_process()
                    self._close_unclaimed()
        except BlockingIOError:
            return
        except ConnectionError:  # it died before it read all our messages
            pass
        self._loop.remove_reader(self._control)  # end of the stream: `_on_process_exit` follows

    def _receive(self) -> bytes:
        data, extras, _, _ = self._control.recvmsg(
            1 << 16, socket.CMSG_SPACE(MAX_DESCRIPTORS * _FD.size), socket.MSG_CMSG_CLOEXEC
        )
        for level, kind, content in extras:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                whole = len(content) - len(content) % _FD.size
                self._unclaimed.extend(fd for (fd,) in _FD.iter_unpack(content[:whole]))
        return data

    def _end_process(self) -> None:
        self._killing = True
        self._process.kill()

    def _close_unclaimed(self) -> None:
        while self._unclaimed:
            os.close(self._unclaimed.popleft())

    def _add_child(self, child: int, pidfd: int) -> None:
        """Record the pidfd of a child. User code may have sent one of another process: do not kill that."""
        if _parent_of(pidfd) not in (self._process.pid, None) or child in self._pidfds:
            os.close(pidfd)
            self._end_process()
            return
        self._pidfds[child] = pidfd
        if child in self._doomed:
            _send_kill(pidfd)

    def _handle(self, message: FromZygote) -> None:
        match message:
            case Forked(child) if self._unclaimed:
                self._add_child(child, self._unclaimed.popleft())
            case ChildExited(child):
                if (pidfd := self._pidfds.pop(child, None)) is not None:
                    os.close(pidfd)
                self._on_exit(message)
            case Sandboxed(held) if self.guarantees is None:
                self.guarantees = frozenset(held)
            case Ready() if not self.ready.done():
                self.ready.set_result(message)
            case SpiderLoadFailed(reason):
                self.fail(hide_in(reason, self._secrets))

    def _on_process_exit(self) -> None:
        """Clean up after the exit of the fork server; this client is then finished."""
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        # Also what user code may have started during the import. All of them are in the process group of the
        # fork server, whose process id stays taken until `wait` returns.
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        status = self._process.wait()
        self.was_killed = status == -signal.SIGKILL and not self._killing
        if self._control.fileno() >= 0:
            self._readable()  # its last messages may not have been read yet
            self._close_control()
        self._close_unclaimed()
        self._output.close()
        self._ended.set_result(None)
        self.fail(f"{self._where}: importing it ended the process (status {status})")
        self._on_end()


def _send_kill(pidfd: int) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)


def _wait_exited(pidfd: int) -> None:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.poll(EXIT_TIMEOUT_S * 1000)


def _parent_of(pidfd: int) -> int | None:
    """Return the process id of the parent of a process; None: it has ended."""
    try:
        facts = Path(f"/proc/self/fdinfo/{pidfd}").read_text()
        pid = int(facts.partition("\nPid:")[2].split()[0])
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) if pid > 0 else None
    except (FileNotFoundError, ProcessLookupError):
        return None
    except (IndexError, ValueError):
        return 0  # not a pidfd
