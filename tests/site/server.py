"""A quick HTTP/1.1 server with many hosts, in a separate process, that records every request.

Hosts are loopback addresses (127.0.1.1, 127.0.1.2, ...) on one port, so a crawler sees different ones without
any name service. The process has its own session: killing a crawler's process group leaves it alone. It ends
when its standard input does, so it cannot outlive the test that started it.

The time of a request is the kernel's, taken when its bytes reached the socket. A server that was held up
would otherwise read two requests at once and accuse a polite crawler; the end of a request is noted before
the answer is sent, so that the next request of the same client never seems to overlap it.
"""

import asyncio
import importlib
import math
import os
import socket
import struct
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec
import uvloop
from tests.site.access_log import Hit

ROOT = Path(__file__).parents[2]
SO_TIMESTAMPNS = 35  # Linux; the socket module has no name for it
TIMESPEC = struct.Struct("@qq")
READ_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "text/html; charset=utf-8"
    delay: float = 0.0  # seconds until it is sent


class Site(Protocol):
    def answer(self, host: int, path: str, now: float) -> Answer: ...


def address(host: int) -> str:
    """Return the loopback address of a host number."""
    return f"127.0.{1 + host // 250}.{1 + host % 250}"


@dataclass(frozen=True, slots=True)
class ServedSite:
    """The test's end of a running server."""

    authorities: list[str]
    _process: asyncio.subprocess.Process
    _folder: Path

    @property
    def pid(self) -> int:
        return self._process.pid

    async def hits(self) -> list[Hit]:
        """Return every request so far, in order of arrival."""
        dump = self._folder / "hits.msgpack"
        await self._ask(f"dump {dump}")
        return sorted(msgspec.msgpack.decode(dump.read_bytes(), type=list[Hit]))

    async def served(self) -> int:
        """Count the different URLs that were answered with 200 so far, robots.txt aside."""
        return int(await self._ask("served"))

    async def _ask(self, command: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n".encode())
        reply = await self._process.stdout.readline()
        assert reply, "the test site's server has died; see its traceback above"
        return reply.decode().strip()


@asynccontextmanager
async def serving(factory: str, spec: str, *, hosts: int) -> AsyncIterator[ServedSite]:
    """Serve the site that `factory` ("module:function") makes of `spec` and the authorities it gets."""
    with tempfile.TemporaryDirectory(prefix="site-") as folder:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.site.server", factory, spec, str(hosts)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            authorities = (await process.stdout.readline()).decode().split()
            assert len(authorities) == hosts, "the test site's server did not start"
            yield ServedSite(authorities, process, Path(folder))
        finally:
            process.stdin.close()
            await process.wait()


class _Connection:
    """One client: reads requests, answers each in turn."""

    def __init__(self, server: "_Server", client: socket.socket, host: int) -> None:
        self._server, self._client, self._host = server, client, host
        self._inbox = b""
        self._outbox = b""
        self._unanswered: set[int] = set()  # numbers in the log
        server.loop.add_reader(client, self._readable)

    def _readable(self) -> None:
        try:
            data, ancillary, _, _ = self._client.recvmsg(READ_BYTES, socket.CMSG_SPACE(TIMESPEC.size))
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", []
        if data:
            seconds, nanoseconds = TIMESPEC.unpack(ancillary[0][2])
            self._take(data, seconds + nanoseconds / 1e9)
        else:
            self._close()

    def _take(self, data: bytes, arrived: float) -> None:
        *heads, self._inbox = (self._inbox + data).split(b"\r\n\r\n")
        for head in heads:
            self._serve(head.split(b" ", 2)[1].decode("latin-1"), arrived)

    def _serve(self, path: str, arrived: float) -> None:
        answer = self._server.site.answer(self._host, path, arrived)
        number = self._server.note(self._host, path, answer.status, arrived)
        self._unanswered.add(number)
        if answer.delay:
            self._server.loop.call_later(answer.delay, self._send, number, answer)
        else:
            self._send(number, answer)

    def _send(self, number: int, answer: Answer) -> None:
        if self._client.fileno() < 0:
            return
        self._end(number)
        extra = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
        head = (
            f"HTTP/1.1 {answer.status} -\r\nContent-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(answer.body)}\r\n{extra}\r\n"
        )
        self._outbox += head.encode("latin-1") + answer.body
        self._flush()

    def _flush(self) -> None:
        try:
            self._outbox = self._outbox[self._client.send(self._outbox) :]
        except BlockingIOError:
            pass
        except OSError:
            self._close()
            return
        if self._outbox:
            self._server.loop.add_writer(self._client, self._flush)
        else:
            self._server.loop.remove_writer(self._client)

    def _end(self, number: int) -> None:
        self._unanswered.discard(number)
        self._server.end(number)

    def _close(self) -> None:
        for number in tuple(self._unanswered):
            self._end(number)
        self._server.loop.remove_reader(self._client)
        self._server.loop.remove_writer(self._client)
        self._client.close()


class _Server:
    def __init__(self, loop: asyncio.AbstractEventLoop, hosts: int) -> None:
        self.loop = loop
        self.site: Site
        self._listeners = _listen(hosts)
        self.authorities = ["{}:{}".format(*listener.getsockname()) for listener in self._listeners]
        self._hits: list[list[float | int | str]] = []  # as Hit, but `ended` is filled in later
        self._served: set[tuple[int, str]] = set()

    def start(self, site: Site) -> None:
        self.site = site
        for host, listener in enumerate(self._listeners):
            self.loop.add_reader(listener, self._accept, listener, host)

    def note(self, host: int, path: str, status: int, arrived: float) -> int:
        """Remember a request and return its number in the log."""
        self._hits.append([arrived, math.inf, self.authorities[host], status, path])
        if status == 200 and path != "/robots.txt":
            self._served.add((host, path))
        return len(self._hits) - 1

    def end(self, number: int) -> None:
        self._hits[number][1] = time.time()

    def obey(self, command: str) -> str:
        """Carry out one line of the test's end and return the reply."""
        match command.split():
            case ["dump", path]:
                Path(path).write_bytes(msgspec.msgpack.encode(self._hits))
                return str(len(self._hits))
            case ["served"]:
                return str(len(self._served))
        raise ValueError(command)

    def _accept(self, listener: socket.socket, host: int) -> None:
        try:
            client, _ = listener.accept()
        except BlockingIOError:
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _Connection(self, client, host)


def _listen(hosts: int) -> list[socket.socket]:
    """Open one listening socket per host, all on the same free port."""
    while True:
        listeners: list[socket.socket] = []
        port = 0
        try:
            for host in range(hosts):
                listener = socket.socket()
                listeners.append(listener)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)  # clients' sockets inherit it
                listener.bind((address(host), port))
                listener.listen(1024)
                listener.setblocking(False)
                port = listener.getsockname()[1]
        except OSError:  # taken on another address: try another port
            for listener in listeners:
                listener.close()
            continue
        return listeners


async def _run(factory: str, spec: str, hosts: int) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_die)
    server = _Server(loop, hosts)
    module, name = factory.split(":")
    make: Callable[[str, list[str]], Site] = getattr(importlib.import_module(module), name)
    server.start(make(spec, server.authorities))
    print(*server.authorities, flush=True)
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        print(server.obey(line.decode()), flush=True)


def _die(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """End at once on a bug in a site: a test that hangs says less than a traceback."""
    loop.default_exception_handler(context)
    os._exit(1)


if __name__ == "__main__":
    uvloop.run(_run(sys.argv[1], sys.argv[2], int(sys.argv[3])))
