"""A TLS server that records how clients greet it: their ClientHello, and the first frames of HTTP/2."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, WINDOW_UPDATE, HEADERS = 4, 8, 1


def is_grease(number: int) -> bool:
    """Return whether a number stands for nothing: browsers send such at random, so that servers ignore them."""
    return number & 0x0F0F == 0x0A0A and number >> 8 == number & 0xFF


@dataclass(frozen=True)
class ClientHello:
    """What is the same in every handshake of a client: without GREASE, and extensions in any order."""

    ciphers: tuple[int, ...]
    extensions: frozenset[int]
    groups: tuple[int, ...]
    signatures: tuple[int, ...]
    alpn: tuple[str, ...]


def _numbers(data: bytes) -> tuple[int, ...]:
    pairs = (int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2))
    return tuple(number for number in pairs if not is_grease(number))


def parse_client_hello(record: bytes) -> ClientHello:
    """Parse a TLS record with a whole ClientHello."""
    body = record[5 + 4 + 2 + 32 :]
    body = body[1 + body[0] :]  # session id
    size = int.from_bytes(body[:2])
    ciphers, body = _numbers(body[2 : 2 + size]), body[2 + size :]
    body = body[1 + body[0] :]  # compression
    body = body[2 : 2 + int.from_bytes(body[:2])]
    found: dict[int, bytes] = {}
    while body:
        kind, size = int.from_bytes(body[:2]), int.from_bytes(body[2:4])
        found[kind], body = body[4 : 4 + size], body[4 + size :]
    protocols, names = found.get(16, b"")[2:], []
    while protocols:
        names.append(protocols[1 : 1 + protocols[0]].decode())
        protocols = protocols[1 + protocols[0] :]
    return ClientHello(
        ciphers,
        frozenset(kind for kind in found if not is_grease(kind) and kind != 21),  # 21: padding
        _numbers(found.get(10, b"")[2:]),
        _numbers(found.get(13, b"")[2:]),
        tuple(names),
    )


@dataclass
class Greetings:
    port: int = 0
    hellos: list[ClientHello] = field(default_factory=list)
    http2: list[tuple[tuple[int, bytes], ...]] = field(default_factory=list)  # kind and payload of frames
    requests: list[bytes] = field(default_factory=list)  # over HTTP/1.1

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/"


@asynccontextmanager
async def recording_server(context: ssl.SSLContext, *, http2: bool = True) -> AsyncIterator[Greetings]:
    """Record every greeting. A request over HTTP/1.1 is answered; HTTP/2 ends after its first frames."""
    seen = Greetings()
    context.set_alpn_protocols(["h2", "http/1.1"] if http2 else ["http/1.1"])

    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            start = await reader.readexactly(3)
            if start == PREFACE[:3]:
                await reader.readexactly(len(PREFACE) - 3)
                seen.http2.append(await _frames(reader))
            else:
                seen.requests.append(start + await reader.readuntil(b"\r\n\r\n"))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                await writer.drain()
        writer.close()

    inner = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    behind = inner.sockets[0].getsockname()[1]

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        head = await reader.readexactly(5)
        hello = head + await reader.readexactly(int.from_bytes(head[3:5]))
        seen.hellos.append(parse_client_hello(hello))
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", behind)
        writers.append(far_writer)
        far_writer.write(hello)
        async with asyncio.TaskGroup() as group:
            group.create_task(_pump(reader, far_writer))
            group.create_task(_pump(far_reader, writer))

    outer = await asyncio.start_server(relay, "127.0.0.1", 0)
    seen.port = outer.sockets[0].getsockname()[1]
    try:
        yield seen
    finally:
        outer.close()
        inner.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)  # the transports close their sockets in the next iterations of the loop


async def _frames(reader: asyncio.StreamReader) -> tuple[tuple[int, bytes], ...]:
    """Read frames up to the first HEADERS, whose payload is compressed and is left out."""
    frames: list[tuple[int, bytes]] = []
    while not frames or frames[-1][0] != HEADERS:
        head = await reader.readexactly(9)
        payload = await reader.readexactly(int.from_bytes(head[:3]))
        has_priority = bytes([head[4] & 0x20])
        frames.append((head[3], has_priority if head[3] == HEADERS else payload))
    return tuple(frames)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    with suppress(ConnectionError):
        writer.close()
