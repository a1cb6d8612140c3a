"""A TCP proxy between a fleet and one of its servers that delays, stalls, loses answers and resets connections."""

import asyncio
import random
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends a reset


class Sky(Enum):
    FAIR = "everything is forwarded"
    DOWN = "open and new connections are reset"
    SILENT = "connections are accepted and nothing is forwarded"
    LOSSY = "one answer in twenty is lost in whole or in part, after the server has executed the command"


class Weather:
    """Made by `weather`. It runs in a separate thread, because tests block their event loop while commands run."""

    def __init__(self, target: int, rng: random.Random, distance: float) -> None:
        self.port = 0
        self.distance = distance  # seconds that a question and its answer travel together
        self.losses = 0
        self._target = target
        self._rng = rng
        self._sky = Sky.FAIR
        self._forwarding = asyncio.Event()  # cleared while the sky is SILENT
        self._forwarding.set()
        self._open: set[asyncio.StreamWriter] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready, self._over = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        self._call(self._over.set)
        self._thread.join()

    def become(self, sky: Sky) -> None:
        def change() -> None:
            self._sky = sky
            self._forwarding.clear() if sky is Sky.SILENT else self._forwarding.set()
            if sky is Sky.DOWN:
                for writer in list(self._open):
                    _reset(writer)

        self._call(change)

    def _call(self, change: Callable[[], None]) -> None:
        assert self._loop is not None, "start first"
        self._loop.call_soon_threadsafe(change)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._over.wait()
        server.close()
        for writer in list(self._open):
            _reset(writer)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._sky is Sky.DOWN:
            _reset(writer)
            return
        try:
            answers, questions = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            _reset(writer)
            return
        self._open |= {writer, questions}
        with suppress(OSError, asyncio.CancelledError):  # cancelled: the test has ended
            await asyncio.gather(self._ask(reader, questions), self._answer(answers, writer, questions))
        self._open -= {writer, questions}
        writer.close()
        questions.close()

    async def _ask(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        async for data in self._delayed(reader):
            server.write(data)
            await server.drain()
        server.write_eof()

    async def _delayed(self, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        """Yield what arrives, each part half of the distance later; the parts do not wait for one another."""
        parts: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def receive() -> None:
            data = b"?"
            while data:
                try:
                    data = await reader.read(1 << 16)
                except ConnectionError:
                    data = b""
                parts.put_nowait((time.monotonic() + self.distance / 2, data))

        receiving = asyncio.create_task(receive())
        try:
            while True:
                due, data = await parts.get()
                if (wait := due - time.monotonic()) > 0:
                    await asyncio.sleep(wait)
                await self._forwarding.wait()
                if not data:
                    return
                yield data
        finally:
            receiving.cancel()

    async def _answer(
        self, reader: asyncio.StreamReader, client: asyncio.StreamWriter, server: asyncio.StreamWriter
    ) -> None:
        async for data in self._delayed(reader):
            if self._sky is Sky.LOSSY and self._rng.random() < 1 / 20:
                self.losses += 1
                client.write(data[: self._rng.randrange(len(data))])
                await client.drain()
                # The client may also see an orderly end of the connection.
                client.write_eof() if self._rng.random() < 1 / 2 else _reset(client)
                _reset(server)
                return
            client.write(data)
            await client.drain()
        client.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    raw: socket.socket = writer.get_extra_info("socket")
    with suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


@contextmanager
def weather(target: int, seed: int = 1, distance: float = 0.0) -> Iterator[Weather]:
    """Forward connections from `port` of the yielded proxy to the server at the port `target`."""
    between = Weather(target, random.Random(seed), distance)
    between.start()
    try:
        yield between
    finally:
        between.stop()
