"""The pool's handle on its zygote: start it, have children forked and killed, hear of their ends."""

import asyncio
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

from shoal.model.errors import Misconfigured
from shoal.parse.frames import TOKENS, FrameKind, FrameReader, head
from shoal.parse.messages import (
    Exited,
    Fork,
    FromPool,
    FromZygote,
    Kill,
    Ready,
    SpiderRefused,
    Start,
    decode_from_zygote,
    encode,
)
from shoal.parse.output import CapturedOutput

CLOSING = 5.0  # seconds a zygote gets to reap its children before it is killed
DESCRIPTION_BYTES = 1 << 30  # a spider may bring a long list of seeds

# Otherwise glibc may give memory back to the system after each page and ask for it again for the next, and
# parsing takes twice as long. A threshold above 32 MiB is silently ignored.
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
_KEPT = ("PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH")


def environment(own: dict[str, str]) -> dict[str, str]:
    """Choose what user code sees of our environment: how to find and decode things, no secrets."""
    kept = {name: value for name, value in own.items() if name in _KEPT or name.startswith(("LC_", "PYTHON"))}
    return kept | _MALLOC


class ForkServerClient:
    """One zygote process. `ready` is its description of the spider, or why there is none."""

    def __init__(
        self,
        start: Start,
        *,
        loop: asyncio.AbstractEventLoop,
        on_exit: Callable[[Exited], None],
        on_end: Callable[[], None],
    ) -> None:
        self.ready: asyncio.Future[Ready] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._where = start.where
        self._loop = loop
        self._on_exit = on_exit
        self._on_end = on_end
        self._token = secrets.randbelow(TOKENS)
        self._reader = FrameReader(self._token, FrameKind.CONTROL, most=DESCRIPTION_BYTES)
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
        with suppress(BrokenPipeError):  # it is gone already: `_gone` is about to say so
            self._say(start)
        self._control.setblocking(False)
        loop.add_reader(self._control, self._readable)
        loop.add_reader(self._pidfd, self._gone)

    def fork(self, child: int, token: int, sock: socket.socket) -> None:
        """Have a child started that talks on `sock`, which is closed here."""
        with sock, suppress(BrokenPipeError):
            self._say(Fork(child, token), sock)

    def kill(self, child: int) -> None:
        """Have a child killed; its end is reported like any other."""
        with suppress(BrokenPipeError):
            self._say(Kill(child))

    def refuse(self, reason: str) -> None:
        """Give up on a spider that does not load."""
        if not self.ready.done():
            self.ready.set_exception(Misconfigured(reason))

    async def close(self) -> None:
        """End the zygote and its children; return when they are gone."""
        listening = self.ready.done()  # else it is deep in user code
        self.ready.cancel()
        self._hang_up()
        try:
            if listening:
                async with asyncio.timeout(CLOSING):
                    await asyncio.shield(self._ended)
        except TimeoutError:
            pass
        finally:
            if not self._ended.done():
                self._process.kill()
                self._gone()

    def _spawn(self, control: int, printing: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603
            # -P: a module of the user's that happens to be called like one of ours stays out of its way.
            [sys.executable, "-P", "-m", "shoal.parse.zygote", str(control), str(self._token)],
            stdin=subprocess.DEVNULL,
            stdout=printing,
            stderr=printing,
            env=environment(dict(os.environ)),
            pass_fds=(control,),
            start_new_session=True,  # Ctrl-C is for the parent
        )

    def _say(self, message: FromPool, sock: socket.socket | None = None) -> None:
        payload = encode(message)
        data = head(self._token, FrameKind.CONTROL, payload) + payload
        socket.send_fds(self._control, [data], [sock.fileno()] if sock else [])

    def _hang_up(self) -> None:
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control)
            self._control.close()

    def _readable(self) -> None:
        try:
            while data := self._control.recv(1 << 16):
                for payload in self._reader.feed(memoryview(data)):
                    self._hear(decode_from_zygote(payload))
                if self._reader.junk:  # user code, at import, wrote where it should not
                    self._process.kill()
        except BlockingIOError:
            return
        except ConnectionError:  # it died with something of ours unread
            pass
        self._loop.remove_reader(self._control)  # the end: `_gone` follows

    def _hear(self, message: FromZygote) -> None:
        match message:
            case Exited():
                self._on_exit(message)
            case Ready() if not self.ready.done():
                self.ready.set_result(message)
            case SpiderRefused(reason):
                self.refuse(reason)

    def _gone(self) -> None:
        """Note the zygote's death: the last thing that happens to a nursery."""
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        status = self._process.wait()
        if self._control.fileno() >= 0:
            self._readable()  # its last words may not have been read yet
            self._hang_up()
        self._output.close()
        self._ended.set_result(None)
        self.refuse(f"{self._where}: importing it ended the process (status {status})")
        self._on_end()
