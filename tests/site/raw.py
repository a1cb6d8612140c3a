"""A server that sends whatever bytes a test wants, at whatever moment, and counts who comes."""

import asyncio
import contextlib
import os
import socket
import ssl
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def answer(
    body: bytes = b"ok", *, status: int = 200, headers: tuple[tuple[str, str], ...] = (), length: bool = True
) -> bytes:
    """Write a response, with its length unless told otherwise."""
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers)]
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class Peer:
    """The server's end of one connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: "RawServer"
    ) -> None:
        self.reader = reader
        self.writer = writer
        self._server = server

    async def request(self) -> bytes:
        """Read one request: its head, and its body if it announces one."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        request = head + await self.reader.readexactly(length)
        self._server.requests.append(request)
        return request

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()
        self._server.sent += len(data)

    async def send_for_ever(self, data: bytes) -> None:
        while True:
            await self.send(data)
            await asyncio.sleep(
                0
            )  # drain() alone does not yield to other tasks while the kernel accepts everything

    def reset(self) -> None:
        """Close with a RST instead of a FIN."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def hang(self) -> None:
        """Send nothing more until the client closes the connection."""
        while await self.reader.read(65536):
            pass


Handler = Callable[[Peer], Awaitable[None]]


@dataclass
class RawServer:
    host: str
    port: int = 0
    scheme: str = "http"
    connections: int = 0  # ever made
    open: int = 0  # at present
    most: int = 0  # ever open at once
    sent: int = 0  # bytes that the kernel took
    requests: list[bytes] = field(default_factory=list)

    def url(self, path: str = "/", host: str = "") -> str:
        return f"{self.scheme}://{host or self.host}:{self.port}{path}"

    def paths(self) -> list[str]:
        return [request.split(b" ", 2)[1].decode() for request in self.requests]


@contextlib.asynccontextmanager
async def raw_server(
    handler: Handler, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawServer]:
    """Run `handler` for every connection. What the client does to it is not its failure."""
    state = RawServer(host, scheme="https" if tls else "http")
    tasks: set[asyncio.Task[None]] = set()
    closing = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        state.connections += 1
        state.open += 1
        state.most = max(state.most, state.open)
        try:
            await handler(Peer(reader, writer, state))
        except (OSError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        except asyncio.CancelledError:
            if not closing.is_set():  # only our code cancels it, and streams would log it as an error
                raise
        finally:
            state.open -= 1
            tasks.discard(task)
            writer.transport.abort() if tls else writer.close()

    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    state.port = server.sockets[0].getsockname()[1]
    try:
        yield state
    finally:
        closing.set()
        server.close()
        for task in list(tasks):
            task.cancel()
        for task in list(tasks):
            with contextlib.suppress(asyncio.CancelledError):
                await task


@contextlib.contextmanager
def bare_closing_server(context: ssl.SSLContext, response: bytes) -> Iterator[RawServer]:
    """Answer every request over TLS and close the socket under it: no close_notify, as some servers do.

    In a thread with a blocking socket, because event loops are too polite for it.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    stream = context.wrap_socket(listener.accept()[0], server_side=True)
                    stream.recv(65536)
                    stream.sendall(response)
                    os.close(stream.detach())

        thread = threading.Thread(target=serve)
        thread.start()
        yield RawServer("127.0.0.1", listener.getsockname()[1], "https")
        listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        thread.join()


@contextlib.contextmanager
def swallowing_server() -> Iterator[RawServer]:
    """Listen with a full queue and accept nothing: the kernel drops further connections."""
    with socket.socket() as listener, contextlib.ExitStack() as waiting:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield RawServer("127.0.0.1", listener.getsockname()[1])


def replies(*responses: bytes) -> Handler:
    """Answer the requests of a connection in turn, the last response repeated; then as the client likes."""

    async def handler(peer: Peer) -> None:
        count = 0
        while True:
            await peer.request()
            await peer.send(responses[min(count, len(responses) - 1)])
            count += 1

    return handler


def once(response: bytes) -> Handler:
    """Answer one request, then close."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(response)

    return handler
