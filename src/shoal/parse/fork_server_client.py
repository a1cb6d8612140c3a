"""The pool's client of the fork server: start it, fork and kill children, learn of their exits."""

import asyncio
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

from shoal.model.errors import Misconfigured
from shoal.parse.frames import TOKENS, FrameReader, FrameType, header
from shoal.parse.messages import (
    ChildExited,
    Fork,
    FromPool,
    FromZygote,
    Kill,
    Ready,
    SpiderLoadFailed,
    Start,
    decode_from_zygote,
    encode,
)
from shoal.parse.output import CapturedOutput

CLOSE_TIMEOUT_S = 5.0  # for the fork server to reap its children, before it is killed
MAX_DESCRIPTION_BYTES = 1 << 30  # a spider may have a long list of seeds

# Without these, glibc may return memory to the system after each page and request it again for the next one,
# and parsing takes twice as long. glibc silently ignores a threshold above 32 MiB.
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
_KEPT = ("PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH")


def environment(own: dict[str, str]) -> dict[str, str]:
    """Return the environment for user code: what it needs to find and decode files, and no secrets."""
    kept = {name: value for name, value in own.items() if name in _KEPT or name.startswith(("LC_", "PYTHON"))}
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
        self._ended: asyncio.Future[None] = loop.create_future()
        self._where = start.where
        self._loop = loop
        self._on_exit = on_exit
        self._on_end = on_end
        self._token = secrets.randbelow(TOKENS)
        self._reader = FrameReader(self._token, FrameType.CONTROL, most=MAX_DESCRIPTION_BYTES)
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
        self._output = CapturedOutput(loop, printed)
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
        with suppress(BrokenPipeError):
            self._send_message(Kill(child))

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

    def _spawn(self, control: int, printing: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603
            # -P: without it, a file in the current folder could shadow one of our modules.
            [sys.executable, "-P", "-m", "shoal.parse.zygote", str(control), str(self._token)],
            stdin=subprocess.DEVNULL,
            stdout=printing,
            stderr=printing,
            env=environment(dict(os.environ)),
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
            while data := self._control.recv(1 << 16):
                for payload in self._reader.feed(memoryview(data)):
                    self._handle(decode_from_zygote(payload))
                if self._reader.invalid:  # user code wrote to the connection during its import
                    self._process.kill()
        except BlockingIOError:
            return
        except ConnectionError:  # it died before it read all our messages
            pass
        self._loop.remove_reader(self._control)  # end of the stream: `_on_process_exit` follows

    def _handle(self, message: FromZygote) -> None:
        match message:
            case ChildExited():
                self._on_exit(message)
            case Ready() if not self.ready.done():
                self.ready.set_result(message)
            case SpiderLoadFailed(reason):
                self.fail(reason)

    def _on_process_exit(self) -> None:
        """Clean up after the exit of the fork server; this client is then finished."""
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        status = self._process.wait()
        if self._control.fileno() >= 0:
            self._readable()  # its last messages may not have been read yet
            self._close_control()
        self._output.close()
        self._ended.set_result(None)
        self.fail(f"{self._where}: importing it ended the process (status {status})")
        self._on_end()
